//! What a `created_at` costs beside a column for the time of the ID, and what queries are planned by.
//!
//! Rows go into a new table by one INSERT ... SELECT, right after a CHECKPOINT. Sizes do not vary: one load says them.
//! Planning is that of EXPLAIN, which plans a query and prints a short plan.

use crate::effort::Effort;
use crate::measure::{Backend, cpu_time, nanoseconds, number, rounds, wal_written};
use crate::servers::Servers;
use crate::settings::Setting;
use bench_report::{Better, Question, Report};
use std::time::Instant;

const ROWS: Question = Question {
    part: "created_at",
    case: "Rows a second, INSERT ... SELECT",
    unit: "rows/s",
    better: Better::Higher,
    reference: "created_at with an index",
};
const CPU: Question = Question { case: "CPU time of one row", unit: "ns", better: Better::Lower, ..ROWS };
const WAL: Question = Question { case: "WAL of one row", unit: "bytes", ..CPU };
const TABLE: Question = Question { case: "Bytes of one row in the table", ..WAL };
const INDEXES: Question = Question { case: "Bytes of one row in all indexes", ..WAL };
const PLANNING: Question = Question {
    case: "CPU time of planning a query",
    unit: "ns",
    reference: "WHERE n = 1, enable_time_ranges = off",
    ..CPU
};

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    load(servers, effort, report);
    plan(servers, effort, report);
}

fn load(servers: &Servers, effort: Effort, report: &mut Report) {
    let rows = effort.pick(5_000_000, 50_000);
    let mut backend = Backend::of_setting(servers, Setting::Default);
    let is_virtual = number(&mut backend.client, "SHOW server_version_num") >= 180_000.0;
    let computed = if is_virtual { "virtual created_at" } else { "stored created_at of the ID, without an index" };
    let mut kinds = [
        (
            ROWS.reference,
            ", created_at timestamptz NOT NULL DEFAULT now()",
            "CREATE INDEX ON filled (created_at)".to_owned(),
        ),
        (computed, "", format!("SELECT snowflake_add_created_at('filled', stored => {})", !is_virtual)),
        ("no created_at", "", String::new()),
    ];
    let loads = rounds(effort.pick(3, 1), &mut kinds, |(_, column, after)| {
        let create = format!(
            "CREATE TABLE filled (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer NOT NULL{column})
                 WITH (autovacuum_enabled = off); {after}"
        );
        backend.client.batch_execute(&create).expect("a table");
        backend.client.batch_execute("CHECKPOINT").expect("a checkpoint");
        let before = wal_written(&mut backend.client);
        let (cpu, since) = (cpu_time(backend.process()), Instant::now());
        let insert = format!("INSERT INTO filled (n) SELECT generate_series(1, {rows})");
        backend.client.batch_execute(&insert).expect("rows");
        let (wall, cpu) = (since.elapsed(), cpu_time(backend.process()) - cpu);
        let wal = wal_written(&mut backend.client) - before;
        let [table, indexes] = ["relation", "indexes"]
            .map(|part| number(&mut backend.client, &format!("SELECT pg_{part}_size('filled')")));
        backend.client.batch_execute("DROP TABLE filled").expect("no table");
        let rows = f64::from(rows);
        [rows / wall.as_secs_f64(), nanoseconds(cpu) / rows, wal / rows, table / rows, indexes / rows]
    });
    for ((kind, ..), loads) in kinds.iter().zip(&loads) {
        for (nth, question) in [ROWS, CPU, WAL, TABLE, INDEXES].iter().enumerate() {
            report.add(question, kind, loads.iter().map(|load| load[nth]).collect());
        }
    }
}

fn plan(servers: &Servers, effort: Effort, report: &mut Report) {
    let mut backend = Backend::of_setting(servers, Setting::Default);
    backend
        .client
        .batch_execute("CREATE TABLE planned (id bigint PRIMARY KEY, n integer, at timestamptz)")
        .expect("a table");
    let mut queries = [
        (PLANNING.reference, "n = 1", "off"),
        ("WHERE n = 1", "n = 1", "on"),
        ("WHERE at > now(), a column, enable_time_ranges = off", "at > now()", "off"),
        ("WHERE at > now(), a column", "at > now()", "on"),
        ("WHERE id > snowflake_min_id(now())", "id > snowflake_min_id(now())", "on"),
        ("WHERE snowflake_timestamp(id) > now(), enable_time_ranges = off", "snowflake_timestamp(id) > now()", "off"),
        ("WHERE snowflake_timestamp(id) > now()", "snowflake_timestamp(id) > now()", "on"),
    ];
    let times = effort.pick(400, 100);
    let costs = rounds(effort.pick(15, 3), &mut queries, |(_, condition, setting)| {
        backend.client.batch_execute(&format!("SET snowflake_pg.enable_time_ranges = {setting}")).expect("a setting");
        let explain = format!("EXPLAIN SELECT n FROM planned WHERE {condition}");
        let statement = backend.client.prepare(&explain).expect("a statement");
        backend.cost(&statement, times, 1)
    });
    for ((query, ..), values) in queries.into_iter().zip(costs) {
        report.add(&PLANNING, query, values);
    }
    backend.client.batch_execute("DROP TABLE planned").expect("no table");
}
