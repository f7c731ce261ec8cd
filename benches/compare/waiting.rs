//! Readers that wait for rows: how soon they have one, and what they cost those who commit.

use crate::effort::Effort;
use crate::measure;
use crate::pgbench::{Clients, Until};
use bench_report::{Better, Question, Report};
use std::iter::repeat_n;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::Cluster;
use testbed::postgres::Client;
use testbed::postgres::fallible_iterator::FallibleIterator;

const WAIT: &str = "snowflake_poll() with wait";
const LISTEN: &str = "LISTEN, then snowflake_poll()";
const OFTEN: &str = "snowflake_poll() every 10 ms";
const NOBODY: &str = "nobody waits";
const WAITING: &str = "16 polls wait for another table";
const LISTENING: &str = "NOTIFY, 16 listen to another channel";

const DELAY: Question = Question {
    part: "waiting",
    case: "From an INSERT to the reader",
    unit: "us",
    better: Better::Lower,
    reference: WAIT,
};
const P99: Question = Question { case: "From an INSERT to the reader, p99", ..DELAY };
const RATE: Question = Question {
    case: "Transactions of 16 clients, a row each",
    unit: "transactions/s",
    better: Better::Higher,
    reference: NOBODY,
    ..DELAY
};

const TPC_B: Question = Question { case: "Transactions of TPC-B, of 16 clients, whose history has IDs", ..RATE };
const FOLLOWED: &str = "a poll waits for its rows";

/// As pgbench's own, of ten branches.
const TPC_B_SCRIPT: &str = "\\set aid random(1, 1000000)
\\set bid random(1, 10)
\\set tid random(1, 100)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END";

const INSERT: &str = "INSERT INTO busy DEFAULT VALUES";
const NOTIFY: &str = "WITH row AS (INSERT INTO busy DEFAULT VALUES RETURNING id) SELECT pg_notify('busy', '') FROM row";

/// A reader of each new row.
struct Reader {
    name: &'static str,
    /// What the writer does.
    insert: &'static str,
    /// How long the poll waits.
    wait: &'static str,
    /// What the reader does after a poll without rows.
    next: fn(&mut Client),
}

const READERS: [Reader; 3] = [
    Reader { name: WAIT, insert: INSERT, wait: "1 min", next: |_| () },
    Reader { name: LISTEN, insert: NOTIFY, wait: "0", next: listen },
    Reader { name: OFTEN, insert: INSERT, wait: "0", next: |_| sleep(Duration::from_millis(10)) },
];

pub fn run(effort: Effort, report: &mut Report) {
    let cluster = Cluster::builder().worker(0).start();
    let row = "id bigint PRIMARY KEY DEFAULT snowflake_nextval()";
    let tables = format!("CREATE EXTENSION snowflake_pg; CREATE TABLE busy ({row}); CREATE TABLE quiet ({row})");
    cluster.connect().batch_execute(&tables).expect("tables");
    // After the wait of a new server.
    cluster.connect().batch_execute(INSERT).expect("a row");
    let rows = effort.pick(2000, 50);
    for reader in READERS {
        let delays = reader.delays(&cluster, rows);
        report.add(&P99, reader.name, vec![delays[(delays.len() * 99).div_ceil(100) - 1]]);
        report.add(&DELAY, reader.name, delays);
    }
    let mut contenders = [
        (NOBODY, INSERT, None),
        (WAITING, INSERT, Some(wait_quietly as fn(&mut Client))),
        (LISTENING, NOTIFY, Some(listen_quietly as fn(&mut Client))),
    ];
    let seconds = effort.pick(10, 1);
    let rates = measure::rounds(effort.pick(5, 1), &mut contenders, |&mut (_, statement, idle)| {
        beside(&cluster, idle, 16, || {
            Clients { cluster: &cluster, count: 16, statement, until: Until::Seconds(seconds) }.rate()
        })
    });
    for ((name, ..), rates) in contenders.into_iter().zip(rates) {
        report.add(&RATE, name, rates);
    }
    tpc_b(&cluster, effort, report);
}

fn tpc_b(cluster: &Cluster, effort: Effort, report: &mut Report) {
    let made = Command::new(cluster.bindir().join("pgbench"))
        .args(["--initialize", "--quiet", "--scale=10"])
        .envs(cluster.environment())
        .output()
        .expect("pgbench");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let add = "ALTER TABLE pgbench_history ADD id bigint PRIMARY KEY DEFAULT snowflake_nextval()";
    cluster.connect().batch_execute(add).expect("a column");
    let mut contenders = [
        (NOBODY, None, 0),
        (FOLLOWED, Some(follow as fn(&mut Client)), 1),
        (WAITING, Some(wait_quietly as fn(&mut Client)), 16),
    ];
    let seconds = effort.pick(10, 1);
    let rates = measure::rounds(effort.pick(5, 1), &mut contenders, |&mut (_, idle, count)| {
        beside(cluster, idle, count, || {
            Clients { cluster, count: 16, statement: TPC_B_SCRIPT, until: Until::Seconds(seconds) }.rate()
        })
    });
    for ((name, ..), rates) in contenders.into_iter().zip(rates) {
        report.add(&TPC_B, name, rates);
    }
}

impl Reader {
    /// How long each row took to it, the shortest first.
    fn delays(&self, cluster: &Cluster, rows: usize) -> Vec<f64> {
        let (sender, seen) = channel();
        let mut reader = cluster.connect();
        reader.batch_execute("LISTEN busy").expect("a channel");
        let mut last: i64 = reader.query_one("SELECT coalesce(max(id), 0) FROM busy", &[]).expect("an ID").get(0);
        let poll = format!("SELECT id FROM snowflake_poll(NULL::busy, $1, wait => '{}')", self.wait);
        let poll = reader.prepare(&poll).expect("a statement");
        let mut writer = cluster.connect();
        let insert = writer.prepare(self.insert).expect("a statement");
        let next = self.next;
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut read = 0;
                while read < rows {
                    let found = reader.query(&poll, &[&last]).expect("rows");
                    let at = Instant::now();
                    for row in &found {
                        last = row.get(0);
                        read += 1;
                        sender.send(at).expect("somebody counts");
                    }
                    if found.is_empty() {
                        next(&mut reader);
                    }
                }
            });
            let mut delays: Vec<_> = (0..rows)
                .map(|_| {
                    sleep(Duration::from_micros(fastrand::u64(2000..20_000)));
                    let began = Instant::now();
                    writer.execute(&insert, &[]).expect("a row");
                    measure::nanoseconds(seen.recv().expect("a reader") - began) / 1e3
                })
                .collect();
            delays.sort_by(f64::total_cmp);
            delays
        })
    }
}

fn listen(client: &mut Client) {
    let mut notifications = client.notifications();
    drop(notifications.timeout_iter(Duration::from_secs(60)).next().expect("a notification"));
}

fn wait_quietly(client: &mut Client) {
    let poll = "SELECT id FROM snowflake_poll(NULL::quiet, 0, wait => '2 s')";
    client.query(poll, &[]).expect("no rows");
}

fn listen_quietly(client: &mut Client) {
    client.batch_execute("LISTEN quiet").expect("a channel");
    let mut notifications = client.notifications();
    drop(notifications.timeout_iter(Duration::from_secs(2)).next().expect("no notification"));
}

/// Reads the next rows, once there are some.
fn follow(client: &mut Client) {
    let horizon: i64 = client.query_one("SELECT snowflake_horizon()", &[]).expect("a horizon").get(0);
    let poll = "SELECT id FROM snowflake_poll(NULL::pgbench_history, $1, wait => '2 s')";
    client.query(poll, &[&horizon]).expect("rows");
}

/// Measures while so many sessions wait in this way.
fn beside<T>(cluster: &Cluster, idle: Option<fn(&mut Client)>, count: usize, measure: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for idle in idle.into_iter().flat_map(|idle| repeat_n(idle, count)) {
            let (mut client, is_done) = (cluster.connect(), &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    idle(&mut client);
                }
            });
        }
        let measured = measure();
        is_done.store(true, Ordering::Relaxed);
        measured
    })
}
