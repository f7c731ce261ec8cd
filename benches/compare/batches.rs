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

pub fn run(_: &Servers, _: Effort, _: &mut Report) {}
