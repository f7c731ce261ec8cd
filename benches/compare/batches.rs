//! What an ID costs when many are taken at once.

use crate::Effort;
use crate::contenders::OURS;
use crate::report::{Better, Question, Report};
use crate::servers::Servers;

pub const CPU: Question = Question {
    part: "batches",
    case: "CPU time of one ID, by the size of the batch",
    unit: "ns",
    better: Better::Lower,
    reference: OURS.name,
};

/// The contender that asks for all IDs at once, and the one that asks for each.
pub const SET: &str = "SELECT ... FROM snowflake_nextvals(n)";
pub const CALLS: &str = "SELECT snowflake_nextval() FROM generate_series(1, n)";

pub fn run(_: &Servers, _: Effort, _: &mut Report) {}
