//! How many IDs clients get together.

use crate::Effort;
use crate::contenders::OURS;
use crate::report::{Better, Question, Report};
use crate::servers::Servers;

pub const SINGLE: Question = Question {
    part: "clients",
    case: "IDs of all clients a second, one a statement",
    unit: "IDs/s",
    better: Better::Higher,
    reference: OURS.name,
};
pub const THOUSAND: Question = Question {
    part: "clients",
    case: "IDs of all clients a second, 1,000 a statement",
    unit: "IDs/s",
    better: Better::Higher,
    reference: OURS.name,
};

pub fn run(_: &Servers, _: Effort, _: &mut Report) {}
