//! How long it takes until a row can be read on a standby.
//!
//! A query shows it once its commit was replayed; `snowflake_poll()` does once a horizon above it was replayed, too,
//! which the primary writes to WAL about once a second. Each pause between rows has servers of its own, so that all can
//! be measured at the same time.

use crate::effort::Effort;
use crate::measure;
use bench_report::{Better, Question, Report};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::Cluster;
use testbed::postgres::Client;

pub const POLL: &str = "snowflake_poll()";
const QUERY: &str = "a query";

const READERS: [(&str, &str); 2] = [
    (QUERY, "SELECT id FROM written WHERE id > $1 ORDER BY id"),
    (POLL, "SELECT id FROM snowflake_poll(NULL::written, $1)"),
];

const MEDIAN: Question = Question {
    part: "standby",
    case: "From a commit until a standby shows the row",
    unit: "ms",
    better: Better::Lower,
    reference: QUERY,
};
pub const P99: Question = Question { case: "From a commit until a standby shows the row, p99", ..MEDIAN };

pub fn run(effort: Effort, report: &mut Report) {
    let time = effort.pick(Duration::from_secs(120), Duration::from_secs(12));
    let pauses: &[u64] = effort.pick(&[10, 100, 3000], &[10, 3000]);
    let seen: Vec<_> = thread::scope(|scope| {
        let began: Vec<_> = pauses.iter().map(|&pause| scope.spawn(move || (pause, delays(pause, time)))).collect();
        began.into_iter().map(|pause| pause.join().expect("a pause")).collect()
    });
    for (pause, readers) in seen {
        for ((name, _), mut delays) in READERS.into_iter().zip(readers) {
            delays.sort_by(f64::total_cmp);
            let p99 = delays[(delays.len() * 99).div_ceil(100) - 1];
            report.add_at(&P99, name, pause, vec![p99]);
            report.add_at(&MEDIAN, name, pause, delays);
        }
    }
}

/// How long each reader of a standby waits for each row, in milliseconds, when rows come with this pause.
fn delays(pause: u64, time: Duration) -> Vec<Vec<f64>> {
    let primary = Cluster::builder().worker(0).start();
    let mut client = primary.connect();
    let table = "CREATE EXTENSION snowflake_pg;
                 CREATE TABLE written (id bigint PRIMARY KEY DEFAULT snowflake_nextval())";
    client.batch_execute(table).expect("a table");
    let standby = Cluster::builder().worker(1).standby_of(&primary);
    let last = AtomicI64::new(i64::MAX);
    thread::scope(|scope| {
        let readers = READERS.map(|(_, query)| {
            let (reader, last) = (standby.connect(), &last);
            scope.spawn(move || follow(reader, query, last))
        });
        let committed = write(&mut client, Duration::from_millis(pause), time);
        last.store(*committed.keys().max().expect("a row"), Ordering::Relaxed);
        let delay = |(id, at): (i64, Instant)| measure::nanoseconds(at.saturating_duration_since(committed[&id])) / 1e6;
        let seen = readers.map(|reader| reader.join().expect("a reader"));
        seen.into_iter().map(|seen| seen.into_iter().map(delay).collect()).collect()
    })
}

/// Inserts rows, and says when each was committed.
fn write(client: &mut Client, pause: Duration, time: Duration) -> HashMap<i64, Instant> {
    let began = Instant::now();
    let mut committed = HashMap::new();
    while began.elapsed() < time {
        sleep(pause);
        let row = client.query_one("INSERT INTO written DEFAULT VALUES RETURNING id", &[]).expect("a row");
        committed.insert(row.get(0), Instant::now());
    }
    committed
}

/// Reads rows until the last, and says when each was read. A standby has no horizon before it has replayed the first.
fn follow(mut client: Client, query: &str, last: &AtomicI64) -> Vec<(i64, Instant)> {
    let (mut seen, mut after) = (Vec::new(), 0_i64);
    while after < last.load(Ordering::Relaxed) {
        let rows = client.query(query, &[&after]).unwrap_or_default();
        let now = Instant::now();
        seen.extend(rows.iter().map(|row| (row.get(0), now)));
        after = seen.last().map_or(0, |&(id, _)| id);
        sleep(Duration::from_millis(1));
    }
    seen
}
