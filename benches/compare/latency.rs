//! How long single calls take under load.

use crate::Effort;
use crate::contenders::OURS;
use crate::report::{Better, Question, Report};
use crate::servers::Servers;

pub const P50: Question = Question {
    part: "latency",
    case: "p50 of single calls, 16 clients",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P99: Question = Question {
    part: "latency",
    case: "p99 of single calls, 16 clients",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P999: Question = Question {
    part: "latency",
    case: "p99.9 of single calls, 16 clients",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const MAX: Question = Question {
    part: "latency",
    case: "Maximum of single calls, 16 clients",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P50_MARK: Question = Question {
    part: "latency",
    case: "p50 of single calls, 16 clients while the mark is extended all the time",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P99_MARK: Question = Question {
    part: "latency",
    case: "p99 of single calls, 16 clients while the mark is extended all the time",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P999_MARK: Question = Question {
    part: "latency",
    case: "p99.9 of single calls, 16 clients while the mark is extended all the time",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const MAX_MARK: Question = Question {
    part: "latency",
    case: "Maximum of single calls, 16 clients while the mark is extended all the time",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P50_CHECKPOINT: Question = Question {
    part: "latency",
    case: "p50 of single calls, 16 clients while checkpoints run",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P99_CHECKPOINT: Question = Question {
    part: "latency",
    case: "p99 of single calls, 16 clients while checkpoints run",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P999_CHECKPOINT: Question = Question {
    part: "latency",
    case: "p99.9 of single calls, 16 clients while checkpoints run",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const MAX_CHECKPOINT: Question = Question {
    part: "latency",
    case: "Maximum of single calls, 16 clients while checkpoints run",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};

pub fn run(_: &Servers, _: Effort, _: &mut Report) {}
