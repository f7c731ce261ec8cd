//! What hooks into PostgreSQL's planner and commands: constants for the planner, COPY, and serial columns of new
//! tables.

mod copy;
mod horizon_support;
pub mod planner;
mod serial;
mod tree;
pub mod utility;
