//! What the key of a table costs.

use crate::Effort;
use crate::contenders::OURS;
use crate::report::{Better, Question, Report};
use crate::servers::Servers;

pub const ROW: Question = Question {
    part: "insert",
    case: "Rows a second, INSERT of one row",
    unit: "rows/s",
    better: Better::Higher,
    reference: OURS.name,
};
pub const ROWS: Question = Question {
    part: "insert",
    case: "Rows a second, INSERT of 100 rows",
    unit: "rows/s",
    better: Better::Higher,
    reference: OURS.name,
};
pub const SELECT: Question = Question {
    part: "insert",
    case: "Rows a second, INSERT ... SELECT of 1,000,000 rows",
    unit: "rows/s",
    better: Better::Higher,
    reference: OURS.name,
};
pub const COPY: Question = Question {
    part: "insert",
    case: "Rows a second, COPY of 1,000,000 rows",
    unit: "rows/s",
    better: Better::Higher,
    reference: OURS.name,
};
pub const WAL: Question = Question {
    part: "insert",
    case: "WAL of one row, INSERT ... SELECT",
    unit: "bytes",
    better: Better::Lower,
    reference: OURS.name,
};
pub const INDEX: Question = Question {
    part: "insert",
    case: "Index size after 5,000,000 rows in order",
    unit: "MiB",
    better: Better::Lower,
    reference: OURS.name,
};
pub const DENSITY: Question = Question {
    part: "insert",
    case: "Leaf density of that index",
    unit: "%",
    better: Better::Higher,
    reference: OURS.name,
};

pub fn run(_: &Servers, _: Effort, _: &mut Report) {}
