//! Whether the cost grows with the number of IDs.

use crate::Effort;
use crate::contenders::OURS;
use crate::report::{Better, Question, Report};
use crate::servers::Servers;

pub const CPU: Question = Question {
    part: "growth",
    case: "CPU time of one ID, by how many one statement takes",
    unit: "ns",
    better: Better::Lower,
    reference: OURS.name,
};
pub const MEMORY: Question = Question {
    part: "growth",
    case: "Memory of the backend after so many IDs",
    unit: "KiB",
    better: Better::Lower,
    reference: OURS.name,
};
pub const FILES: Question = Question {
    part: "growth",
    case: "Size of the state directory after so many IDs",
    unit: "bytes",
    better: Better::Lower,
    reference: OURS.name,
};

pub fn run(_: &Servers, _: Effort, _: &mut Report) {}
