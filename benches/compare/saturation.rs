//! How close a full server comes to the layout's rate.

use crate::Effort;
use crate::contenders::OURS;
use crate::report::{Better, Question, Report};
use crate::servers::Servers;

pub const SHARE: Question = Question {
    part: "saturation",
    case: "Share of the layout's 4,096,000 IDs a second",
    unit: "%",
    better: Better::Higher,
    reference: OURS.name,
};

pub fn run(_: &Servers, _: Effort, _: &mut Report) {}
