//! What the extension `snowflake_adopt` needs of C. `sql/adopt` decides what is done; see docs/adopting.md.

mod bound;
mod caller;
mod copy;
mod database;
mod expression;
mod launch;
mod lock;
mod plan;
pub mod resume;
mod rows;
mod top_level;
mod turns;
mod watch;
mod worker;
