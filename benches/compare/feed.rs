//! One feed of several servers: how soon it has a row, and how many rows a second it returns.
//!
//! A poll reads one server alone. A merge of logical streams reads all, and has its rows in the order of their IDs once
//! it has all: it does not know which are still to come.

use crate::effort::Effort;
use crate::measure;
use bench_report::{Better, Question, Report};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::Cluster;
use testbed::postgres::Client;

const POLL: &str = "snowflake_poll() of one server";
const FEED: &str = "snowflake_feed.read()";
const STREAMS: &str = "a merge of logical streams";

const DELAY: Question = Question {
    part: "feed",
    case: "From a commit until a reader of several servers has the row",
    unit: "ms",
    better: Better::Lower,
    reference: POLL,
};
const P99: Question = Question { case: "From a commit until a reader of several servers has the row, p99", ..DELAY };
const RATE: Question = Question {
    case: "Rows that a reader of several servers gets, 1,000 from each at once",
    unit: "rows/s",
    better: Better::Higher,
    ..DELAY
};

const READ: &str = "SELECT id FROM snowflake_feed.read(NULL::written, 'all', 1000)";
const POLLS: &str = "SELECT id FROM snowflake_poll(NULL::written, $1, 1000)";
const CHANGES: &str = "SELECT substring(data FROM 'id\\[bigint\\]:(\\d+)')::bigint
    FROM pg_logical_slot_get_changes('merge', NULL, 1000) WHERE data LIKE 'table%'";

pub fn run(effort: Effort, report: &mut Report) {
    let members: Vec<_> = (0..effort.pick(8, 2)).map(member).collect();
    let reader = Cluster::builder().set("shared_preload_libraries", "").start();
    let mut client = reader.connect();
    client
        .batch_execute("CREATE EXTENSION dblink; CREATE EXTENSION snowflake_feed; CREATE TABLE written (id bigint)")
        .expect("the feed");
    for count in [2, 4, 8].into_iter().filter(|&count| count <= members.len()) {
        let at = count as u64;
        feed_of(&mut client, &members[..count]);
        let rows = effort.pick(2000, 50);
        for name in [POLL, FEED] {
            let written = if name == POLL { &members[..1] } else { &members[..count] };
            let mut reader = if name == POLL { members[0].connect() } else { reader.connect() };
            let mut delays = delays(written, rows, |after| match name {
                POLL => ids(reader.query(POLLS, &[&after])),
                _ => ids(reader.query(READ, &[])),
            });
            delays.sort_by(f64::total_cmp);
            report.add_at(&P99, name, at, vec![delays[(delays.len() * 99).div_ceil(100) - 1]]);
            report.add_at(&DELAY, name, at, delays);
        }
        let rows = effort.pick(100_000, 2_000);
        let mut contenders = [POLL, FEED, STREAMS];
        let rates = measure::rounds(effort.pick(5, 1), &mut contenders, |name| match *name {
            POLL => poll_all(&members[..1], rows),
            FEED => read_all(&mut client, &members[..count], rows),
            _ => merge_all(&members[..count], rows),
        });
        contenders.into_iter().zip(rates).for_each(|(name, rates)| report.add_at(&RATE, name, at, rates));
    }
}

/// A server with the table, and a slot whose stream has its rows.
fn member(nth: usize) -> Cluster {
    let cluster =
        Cluster::builder().worker(nth).set("wal_level", "logical").set("snowflake_pg.max_borrow", "10ms").start();
    let mut client = cluster.connect();
    let table = "CREATE EXTENSION snowflake_pg;
                 CREATE TABLE written (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text DEFAULT repeat('x', 100))";
    client.batch_execute(table).expect("a table");
    cluster
}

/// Makes the feed anew, of these servers.
fn feed_of(client: &mut Client, members: &[Cluster]) {
    let again = "DROP EXTENSION snowflake_feed; DROP SERVER IF EXISTS s0, s1, s2, s3, s4, s5, s6, s7 CASCADE;
                 CREATE EXTENSION snowflake_feed; SELECT snowflake_feed.create('all', 'public.written')";
    client.batch_execute(again).expect("a feed");
    for (nth, member) in members.iter().enumerate() {
        let add = format!(
            "CREATE SERVER s{nth} FOREIGN DATA WRAPPER dblink_fdw
                 OPTIONS (host '{}', dbname 'postgres', connect_timeout '10', tcp_user_timeout '10000');
             CREATE USER MAPPING FOR postgres SERVER s{nth} OPTIONS (user 'postgres');
             SELECT snowflake_feed.add_server('all', 's{nth}')",
            member.host().display()
        );
        client.batch_execute(&add).expect("a server");
    }
}

fn ids(rows: Result<Vec<testbed::postgres::Row>, testbed::postgres::Error>) -> Vec<i64> {
    rows.expect("rows").iter().map(|row| row.get(0)).collect()
}

/// How long a reader waits for each row, in milliseconds, when one is inserted every few milliseconds, on one server
/// after the other.
fn delays(members: &[Cluster], rows: usize, mut read: impl FnMut(i64) -> Vec<i64>) -> Vec<f64> {
    let last = AtomicI64::new(i64::MAX);
    let began: i64 =
        members[0].connect().query_one("INSERT INTO written DEFAULT VALUES RETURNING id", &[]).expect("a row").get(0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut clients: Vec<_> = members.iter().map(Cluster::connect).collect();
            let mut committed = HashMap::new();
            for nth in 0..rows {
                sleep(Duration::from_micros(fastrand::u64(2000..20_000)));
                let client = &mut clients[nth % members.len()];
                let row = client.query_one("INSERT INTO written DEFAULT VALUES RETURNING id", &[]).expect("a row");
                committed.insert(row.get(0), Instant::now());
            }
            last.store(*committed.keys().max().expect("a row"), Ordering::Relaxed);
            committed
        });
        let (mut seen, mut after) = (Vec::new(), began);
        while after < last.load(Ordering::Relaxed) {
            let found = read(after);
            let now = Instant::now();
            after = found.last().copied().unwrap_or(after);
            seen.extend(found.into_iter().map(|id| (id, now)));
            sleep(Duration::from_millis(1));
        }
        let committed = writer.join().expect("a writer");
        let delay = |(id, at): (i64, Instant)| {
            let committed = committed.get(&id)?;
            Some(measure::nanoseconds(at.saturating_duration_since(*committed)) / 1e6)
        };
        seen.into_iter().filter_map(delay).collect()
    })
}

/// Inserts so many rows in all, some on each server in turn, while nobody reads.
fn fill(members: &[Cluster], rows: usize) {
    const SOME: usize = 100;
    let mut clients: Vec<_> = members.iter().map(Cluster::connect).collect();
    for _ in 0..rows / members.len() / SOME {
        for client in &mut clients {
            let some = format!("INSERT INTO written SELECT FROM generate_series(1, {SOME})");
            client.batch_execute(&some).expect("rows");
        }
    }
}

/// How many rows a second come until there are so many.
fn rate(rows: usize, mut read: impl FnMut() -> usize) -> f64 {
    let (began, mut seen) = (Instant::now(), 0);
    while seen < rows {
        seen += read();
    }
    seen as f64 / began.elapsed().as_secs_f64()
}

fn poll_all(members: &[Cluster], rows: usize) -> f64 {
    let mut client = members[0].connect();
    let mut after: i64 = client.query_one("SELECT coalesce(max(id), 0) FROM written", &[]).expect("an ID").get(0);
    fill(members, rows);
    rate(rows, || {
        let found = ids(client.query(POLLS, &[&after]));
        after = found.last().copied().unwrap_or(after);
        found.len()
    })
}

fn read_all(client: &mut Client, members: &[Cluster], rows: usize) -> f64 {
    while !ids(client.query(READ, &[])).is_empty() {}
    fill(members, rows);
    rate(rows, || ids(client.query(READ, &[])).len())
}

/// Each server's changes since the fill, 1,000 at once, and then all in the order of their IDs.
fn merge_all(members: &[Cluster], rows: usize) -> f64 {
    let mut clients: Vec<_> = members.iter().map(Cluster::connect).collect();
    for client in &mut clients {
        client.batch_execute("SELECT pg_create_logical_replication_slot('merge', 'test_decoding')").expect("a slot");
    }
    fill(members, rows);
    let mut all = Vec::new();
    let rate = rate(rows, || {
        let found = thread::scope(|scope| {
            let asked: Vec<_> =
                clients.iter_mut().map(|client| scope.spawn(|| ids(client.query(CHANGES, &[])))).collect();
            asked.into_iter().flat_map(|asked| asked.join().expect("changes")).collect::<Vec<_>>()
        });
        let count = found.len();
        all.extend(found);
        if all.len() >= rows {
            all.sort_unstable();
        }
        count
    });
    for client in &mut clients {
        client.batch_execute("SELECT pg_drop_replication_slot('merge')").expect("no slot");
    }
    rate
}
