//! What it costs to read IDs, and to select by time.
//!
//! Reading: `SELECT count(f(i)) FROM generate_series(…) i`, less the same without the function, beside the shift that
//! people write by hand. Selecting: an ID says when its row was made, so the primary key can do what otherwise takes a
//! column and an index of its own. The same rows are found in both ways, and both indexes have been vacuumed. CPU time
//! of the backend in both.

use crate::contenders::OURS;
use crate::effort::Effort;
use crate::measure::{Backend, rounds};
use crate::servers::Servers;
use bench_report::{Better, Question, Report};
use testbed::postgres::Statement;
use testbed::value;

pub const CPU: Question = Question {
    part: "decoding",
    case: "CPU time of one call",
    unit: "ns",
    better: Better::Lower,
    reference: TIMESTAMP,
};
pub const RANGE: Question = Question {
    part: "decoding",
    case: "CPU time of selecting an hour out of 30 days",
    unit: "us",
    better: Better::Lower,
    reference: WITHIN,
};

/// Reads one ID in the shortest way.
pub const TIMESTAMP: &str = "snowflake_timestamp(i)";
/// Reads one ID by hand, as a number of milliseconds.
pub const SHIFT: &str = "(i >> 22) + 1288834974657";
/// Selects by the primary key.
pub const WITHIN: &str = "snowflake_within(id, a, b), primary key";
/// Selects by a column of its own.
pub const CREATED_AT: &str = "created_at >= a AND created_at < b, own index";

/// IDs to be read, of which the first is published in Wikipedia, and times to be looked for.
const IDS: &str = "generate_series(1541815603606036480, 1541815603606036480 + 99999) i";
const TIMES: &str = "generate_series(timestamptz '2022-06-28Z', '2022-06-28 00:01:39.999Z', '1 ms') i";
const CALLS: u32 = 100_000;

/// Expressions over `i`, and what that is.
const READERS: [(&str, &str); 8] = [
    (TIMESTAMP, IDS),
    (SHIFT, IDS),
    ("to_timestamp(((i >> 22) + 1288834974657) / 1000.0)", IDS),
    ("snowflake_timestamp(i, 'twitter')", IDS),
    ("snowflake_decode(i)", IDS),
    ("snowflake_to_text(i, 'base62')", IDS),
    ("snowflake_within(i, '2022-06-28Z', '2022-06-29Z')", IDS),
    ("snowflake_min_id(i)", TIMES),
];

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    read(servers, effort, report);
    select(servers, effort, report);
}

fn read(servers: &Servers, effort: Effort, report: &mut Report) {
    let mut backend = Backend::of(servers, &OURS);
    let mut entries = READERS.map(|(expression, series)| {
        ["i", expression].map(|counted| {
            backend.client.prepare(&format!("SELECT count({counted}) FROM {series}")).expect("a statement")
        })
    });
    let times = effort.pick(4, 1);
    // The loop itself is taken off within a round.
    let costs = rounds(effort.pick(25, 5), &mut entries, |[nothing, statement]| {
        let the_loop = backend.cost(nothing, times, CALLS);
        backend.cost(statement, times, CALLS) - the_loop
    });
    for ((reader, _), values) in READERS.into_iter().zip(costs) {
        report.add(&CPU, reader, values);
    }
}

fn select(servers: &Servers, effort: Effort, report: &mut Report) {
    const FROM: &str = "timestamptz '2026-01-01Z'";
    const WAYS: [(&str, &str); 2] = [
        (WITHIN, "snowflake_within(id, '2026-01-15 12:00Z', '2026-01-15 13:00Z')"),
        (CREATED_AT, "created_at >= '2026-01-15 12:00Z' AND created_at < '2026-01-15 13:00Z'"),
    ];
    let rows = effort.pick(1_000_000, 100_000);
    let mut backend = Backend::of(servers, &OURS);
    backend
        .client
        .batch_execute(&format!(
            "CREATE TABLE event (id bigint PRIMARY KEY, created_at timestamptz NOT NULL, payload integer NOT NULL)
                 WITH (autovacuum_enabled = off);
             INSERT INTO event SELECT snowflake_compose(at, 0, i % 4, i % 4096), date_trunc('milliseconds', at), i
                 FROM (SELECT i, {FROM} + i * (interval '30 days' / {rows}) AS at
                       FROM generate_series(0, {rows} - 1) i) rows;
             CREATE INDEX ON event (created_at)"
        ))
        .expect("a table");
    backend.client.batch_execute("VACUUM ANALYZE event").expect("a vacuum");
    let queries = WAYS.map(|(_, condition)| format!("SELECT count(*), sum(payload) FROM event WHERE {condition}"));
    let [by_id, by_column] =
        queries.each_ref().map(|query| value(&mut backend.client, &format!("SELECT q::text FROM ({query}) q")));
    assert_eq!(by_id, by_column, "both ways find the same rows");

    let mut statements: [Statement; 2] = queries.map(|query| backend.client.prepare(&query).expect("a statement"));
    let times = effort.pick(40, 10);
    let costs = rounds(effort.pick(25, 5), &mut statements, |statement| backend.cost(statement, times, 1) / 1e3);
    for ((way, _), values) in WAYS.into_iter().zip(costs) {
        report.add(&RANGE, way, values);
    }
    backend.client.batch_execute("DROP TABLE event").expect("no table");
}
