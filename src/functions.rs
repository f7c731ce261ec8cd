//! What SQL sees. Declared, and documented for users, in `sql/snowflake_pg.sql`.

mod admin;
mod argument;
mod catalog;
mod copy;
mod decode;
mod encrypt;
mod fill;
mod fleet;
mod foreign;
mod health;
mod horizon;
mod identity;
mod interval;
mod lastval;
mod layout;
pub mod layout_constant;
mod nextval;
mod partitions;
mod poll;
mod range;
mod row;
mod status;
mod text;
mod time;
mod tree;
pub mod utility_hook;
mod uuid;
