//! What it costs to read IDs, and to select by time.

use crate::Effort;
use crate::contenders::OURS;
use crate::report::{Better, Question, Report};
use crate::servers::Servers;

pub const CPU: Question = Question {
    part: "decoding",
    case: "CPU time of one call",
    unit: "ns",
    better: Better::Lower,
    reference: OURS.name,
};
pub const RANGE: Question = Question {
    part: "decoding",
    case: "CPU time of selecting an hour of 1,000,000 rows",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};

pub fn run(_: &Servers, _: Effort, _: &mut Report) {}
