//! What an ID costs when many are taken at once.
//!
//! A call of `snowflake_nextvals(n)` takes its IDs a tick at a time, and should not cost more than n calls. What counts
//! is the CPU time of the whole statement, with nothing taken off, and its rows are sent to the client: that is what a
//! user runs. With `count()` nothing is sent, which shows how much of the rest is the sending.
//!
//! Batches of 1,000 at most, a millisecond apart, are far below the 4,096 IDs a millisecond of the default layout. A
//! batch of 100,000 would wait for the clock, so all of that size are taken from a server with the layout `t41 w2 s20`.

use crate::contenders::{Contender, OURS, SEQUENCE, WIDE};
use crate::effort::Effort;
use crate::measure::{Backend, rounds};
use crate::servers::Servers;
use bench_report::{Better, Question, Report};
use testbed::postgres::Statement;

pub const CPU: Question = Question {
    part: "batches",
    case: "CPU time of one ID, by the size of the batch",
    unit: "ns",
    better: Better::Lower,
    reference: BATCH,
};

/// The function that takes many at once, as it is meant to be called.
pub const BATCH: &str = "SELECT id FROM snowflake_nextvals(n) id";
/// What it has to be at least as good as.
pub const SERIES: &str = "SELECT snowflake_nextval() FROM generate_series(1, n)";

/// Statements, `n` being the size of the batch, and whose IDs they take.
const STATEMENTS: [(&str, Contender); 7] = [
    (BATCH, OURS),
    ("SELECT snowflake_nextvals(n)", OURS),
    (SERIES, OURS),
    ("SELECT nextval('plain') FROM generate_series(1, n)", SEQUENCE),
    ("SELECT count(id) FROM snowflake_nextvals(n) id", OURS),
    ("SELECT count(snowflake_nextval()) FROM generate_series(1, n)", OURS),
    ("SELECT count(nextval('plain')) FROM generate_series(1, n)", SEQUENCE),
];

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    // How many IDs, and how often a round.
    for (size, times) in [(10, 40), (100, 40), (1_000, 40), (100_000, 4)] {
        let mut entries: Vec<(Backend, Statement)> = STATEMENTS
            .iter()
            .map(|(statement, contender)| {
                let contender = if contender.name == OURS.name && size > 1_000 { &WIDE } else { contender };
                let mut backend = Backend::of(servers, contender);
                let query = statement.replace("(n)", &format!("({size})")).replace(" n)", &format!(" {size})"));
                let statement = backend.client.prepare(&query).expect("a statement");
                (backend, statement)
            })
            .collect();
        let times = effort.pick(times, times / 4);
        let costs =
            rounds(effort.pick(45, 5), &mut entries, |(backend, statement)| backend.cost(statement, times, size));
        for ((statement, _), values) in STATEMENTS.iter().zip(costs) {
            report.add_at(&CPU, statement, size.into(), values);
        }
    }
}
