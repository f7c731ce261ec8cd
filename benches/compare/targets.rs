//! To come.
use crate::report::Report;
pub fn print(_: &Report) {}
