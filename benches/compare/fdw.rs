//! What it costs to select by time over postgres_fdw.
//!
//! The shard is another database of the same server, so that no network hides the rest. What counts is the time of the
//! whole statement as its client sees it, since two backends work for it. All ways find the same rows. postgres_fdw
//! sends a condition whose bounds are constants or parameters. If the bounds depend on `now()`, the router reads all
//! rows.

use crate::effort::Effort;
use crate::measure::{nanoseconds, rounds};
use crate::servers::Servers;
use crate::settings::Setting;
use bench_report::{Better, Question, Report};
use std::time::Instant;
use testbed::postgres::{Client, NoTls, Statement};
use testbed::value;

const RANGE: Question = Question {
    part: "fdw",
    case: "time of selecting an hour out of 30 days over postgres_fdw",
    unit: "us",
    better: Better::Lower,
    reference: "snowflake_within(id, a, b)",
};

/// Conditions, where `a` and `b` are constants.
const WAYS: [(&str, &str); 5] = [
    (RANGE.reference, "snowflake_within(id, '{a}', '{b}')"),
    (
        "id >= (SELECT snowflake_min_id(a)) AND id < (SELECT snowflake_min_id(b))",
        "id >= (SELECT snowflake_min_id('{a}' + (now() - now()))) AND id < (SELECT snowflake_min_id('{b}' + (now() - now())))",
    ),
    (
        "snowflake_within(id, a, b), a and b by now()",
        "snowflake_within(id, '{a}' + (now() - now()), '{b}' + (now() - now()))",
    ),
    ("created_at >= a AND created_at < b, own index", "created_at >= '{a}' AND created_at < '{b}'"),
    ("the same, a and b by now()", "created_at >= '{a}' + (now() - now()) AND created_at < '{b}' + (now() - now())"),
];

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    let mut client = servers.connect(Setting::Default);
    create(servers, &mut client, effort.pick(300_000, 30_000));
    let queries = WAYS.map(|(_, condition)| {
        let condition = condition.replace("{a}", "2026-01-15 12:00Z").replace("{b}", "2026-01-15 13:00Z");
        let condition = condition.replace("Z' +", "Z'::timestamptz +");
        format!("SELECT count(*), sum(payload) FROM far_event WHERE {condition}")
    });
    let rows = queries.each_ref().map(|query| value(&mut client, &format!("SELECT q::text FROM ({query}) q")));
    assert!(rows.iter().all(|found| *found == rows[0]), "all ways find the same rows: {rows:?}");

    let mut statements: [Statement; 5] = queries.map(|query| client.prepare(&query).expect("a statement"));
    let times = rounds(effort.pick(15, 5), &mut statements, |statement| {
        let since = Instant::now();
        client.execute(statement, &[]).expect("a measurement");
        nanoseconds(since.elapsed()) / 1e3
    });
    for ((way, _), values) in WAYS.into_iter().zip(times) {
        report.add(&RANGE, way, values);
    }
    client.batch_execute("DROP SERVER shard CASCADE").expect("no server");
    client.batch_execute("DROP DATABASE shard WITH (FORCE)").expect("no database");
}

/// A table with as many rows in another database, and a foreign table for it here.
fn create(servers: &Servers, client: &mut Client, rows: u32) {
    let cluster = servers.cluster(Setting::Default);
    client.batch_execute("CREATE DATABASE shard").expect("a database");
    let mut shard = cluster.config().dbname("shard").connect(NoTls).expect("a session");
    let columns = "id bigint NOT NULL, created_at timestamptz NOT NULL, payload integer NOT NULL";
    shard
        .batch_execute(&format!(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE event ({columns}, PRIMARY KEY (id)) WITH (autovacuum_enabled = off);
             INSERT INTO event SELECT snowflake_compose(at, 0, i % 4, i % 4096), date_trunc('milliseconds', at), i
                 FROM (SELECT i, timestamptz '2026-01-01Z' + i * (interval '30 days' / {rows}) AS at
                       FROM generate_series(0, {rows} - 1) i) rows;
             CREATE INDEX ON event (created_at)"
        ))
        .expect("a table");
    shard.batch_execute("VACUUM ANALYZE event").expect("a vacuum");
    client
        .batch_execute(&format!(
            "CREATE EXTENSION IF NOT EXISTS postgres_fdw;
             CREATE SERVER shard FOREIGN DATA WRAPPER postgres_fdw
                 OPTIONS (host '{}', dbname 'shard', extensions 'snowflake_pg');
             CREATE USER MAPPING FOR CURRENT_USER SERVER shard OPTIONS (user 'postgres');
             CREATE FOREIGN TABLE far_event ({columns}) SERVER shard OPTIONS (table_name 'event')",
            cluster.host().display()
        ))
        .expect("a foreign table");
}
