//! What hooks into PostgreSQL's planner and executor: functions that it may fold, rewrite or share.

mod copy;
mod horizon_support;
pub mod layout_constant;
mod tree;
pub mod utility_hook;
