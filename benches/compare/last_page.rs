//! What it costs that keys in order all go to the last page of an index, when many clients insert at once.
//!
//! pgbench's clients insert 100 rows a statement into a new table, until it has as many rows as that of each other key,
//! so that indexes can be compared. Commits do not wait for the disk, which would hide all else. Meanwhile, another
//! session looks every ten milliseconds at what the clients wait for. Partitions have a last page each. A table that is
//! partitioned by PostgreSQL's own hash of the same IDs is beside those of an operator class, to show which of it is
//! the class's.

use crate::contenders::{OURS, UUID_4};
use crate::effort::Effort;
use crate::measure::{number, rounds, wal_written};
use crate::pgbench::{Clients, Until};
use crate::servers::Servers;
use crate::settings::Setting;
use crate::{insert, retries};
use bench_report::{Better, Question, Report};
use std::thread::{self, sleep};
use std::time::Duration;
use testbed::postgres::Client;

const RATE: Question = Question {
    part: "last_page",
    case: "Rows of all clients a second, synchronous_commit = off",
    unit: "rows/s",
    better: Better::Higher,
    reference: insert::IDENTITY,
};
const WAL: Question = Question { case: "WAL of one row", unit: "bytes", better: Better::Lower, ..RATE };
const INDEX: Question =
    Question { case: "Size of the key's indexes after the same number of rows", unit: "MiB", ..WAL };

/// What clients wait for while they insert, and how pg_stat_activity says it, which PostgreSQL has changed at times.
const WAITS: [(Question, &str); 4] = [
    (wait("Time for a page of an index or a table"), "wait_event = 'BufferContent' OR wait_event_type = 'Buffer'"),
    (wait("Time for room in the WAL buffers"), "wait_event = 'WALInsert'"),
    (wait("Time for a file to grow"), "wait_event = 'extend'"),
    (Question { better: Better::Higher, ..wait("Time for nothing but a processor") }, "wait_event IS NULL"),
];

const fn wait(case: &'static str) -> Question {
    Question { case, unit: "%", ..WAL }
}

const CLIENTS: [u32; 4] = [2, 4, 16, 64];
const ROWS_A_STATEMENT: u32 = 100;

/// A way to give rows their key, and into how many partitions they go by which operator class.
struct Key {
    name: &'static str,
    column: String,
    partitions: Option<(u32, &'static str)>,
}

/// What a load has shown.
struct Load {
    rows_a_second: f64,
    wal: f64,
    index: f64,
    waits: [f64; WAITS.len()],
}

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    let mut client = servers.connect(Setting::Default);
    let mut keys = keys(servers);
    client.batch_execute("ALTER ROLE ALL SET synchronous_commit = off").expect("a setting");
    // Each client runs as many statements.
    let statements = effort.pick(5_120, 256);
    for count in effort.pick(CLIENTS.to_vec(), vec![4, 64]) {
        println!("    {count} clients");
        let loads = rounds(effort.pick(3, 1), &mut keys, |key| key.load(servers, &mut client, count, statements));
        for (key, loads) in keys.iter().zip(loads) {
            let mut add = |question, what: &dyn Fn(&Load) -> f64| {
                report.add_at(question, key.name, count.into(), loads.iter().map(what).collect());
            };
            add(&RATE, &|load| load.rows_a_second);
            add(&WAL, &|load| load.wal);
            add(&INDEX, &|load| load.index);
            for (nth, (question, _)) in WAITS.iter().enumerate() {
                add(question, &|load| load.waits[nth]);
            }
        }
    }
    client.batch_execute("ALTER ROLE ALL RESET synchronous_commit").expect("a setting");
    retries::run(effort, report);
}

fn keys(servers: &Servers) -> Vec<Key> {
    let peers = servers.peers().iter().filter(|peer| peer.key == UUID_4.key).cloned();
    let mut keys = vec![Key {
        name: insert::IDENTITY,
        column: "bigint GENERATED ALWAYS AS IDENTITY".to_owned(),
        partitions: None,
    }];
    keys.extend([OURS].into_iter().chain(peers).chain([UUID_4]).map(|contender| Key {
        name: contender.name,
        column: format!("{} DEFAULT {}", contender.key, contender.expression),
        partitions: None,
    }));
    keys.extend(
        [
            ("snowflake_nextval(), 4 by sequence", 4, "by_sequence"),
            ("snowflake_nextval(), 16 by sequence", 16, "by_sequence"),
            ("snowflake_nextval(), 16 by hash", 16, "int8_ops"),
        ]
        .map(|(name, count, class)| Key {
            name,
            column: format!("{} DEFAULT {}", OURS.key, OURS.expression),
            partitions: Some((count, class)),
        }),
    );
    keys
}

impl Key {
    /// Measures a load by so many clients into a new table, which is dropped afterwards.
    fn load(&self, servers: &Servers, client: &mut Client, count: u32, statements: u32) -> Load {
        client.batch_execute(&self.create()).expect("a table");
        client.batch_execute("CHECKPOINT").expect("a checkpoint");
        let before = wal_written(client);
        let statement = format!("INSERT INTO filled (payload) SELECT generate_series(1, {ROWS_A_STATEMENT})");
        let until = Until::Statements(statements);
        let clients = Clients { cluster: servers.cluster(Setting::Default), count, statement: &statement, until };
        let mut samples = [0; WAITS.len() + 1];
        let rate = thread::scope(|scope| {
            let pgbench = scope.spawn(|| clients.rate());
            while !pgbench.is_finished() {
                sample(client, &mut samples);
                sleep(Duration::from_millis(10));
            }
            pgbench.join().expect("pgbench")
        });
        let wal = wal_written(client) - before;
        let rows = number(client, "SELECT count(*) FROM filled");
        assert!((rows - f64::from(statements * ROWS_A_STATEMENT)).abs() < 0.5, "{rows} rows");
        let index = number(client, "SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relname LIKE 'filled%pkey'");
        client.batch_execute("DROP TABLE filled").expect("no table");
        let [all, waits @ ..] = samples.map(f64::from);
        Load {
            rows_a_second: rate * f64::from(ROWS_A_STATEMENT),
            wal: wal / rows,
            index: index / f64::from(1 << 20),
            waits: waits.map(|samples| samples / all.max(1.0) * 100.0),
        }
    }

    fn create(&self) -> String {
        let columns = format!("(id {} PRIMARY KEY, payload integer NOT NULL)", self.column);
        let options = "WITH (autovacuum_enabled = off)";
        let Some((count, class)) = self.partitions else { return format!("CREATE TABLE filled {columns} {options}") };
        let partition = |nth| {
            let values = format!("FOR VALUES WITH (MODULUS {count}, REMAINDER {nth})");
            format!("; CREATE TABLE filled_{nth} PARTITION OF filled {values} {options}")
        };
        let partitions: String = (0..count).map(partition).collect();
        format!("CREATE TABLE filled {columns} PARTITION BY HASH (id {class}){partitions}")
    }
}

/// Counts the clients that are busy, and those of them that wait for each of the things.
fn sample(client: &mut Client, samples: &mut [i32; WAITS.len() + 1]) {
    let waits: String = WAITS.iter().map(|(_, wait)| format!(", count(*) FILTER (WHERE {wait})")).collect();
    let query = format!(
        "SELECT ARRAY[count(*){waits}]::integer[] FROM pg_stat_activity
         WHERE application_name = 'pgbench' AND state = 'active' AND query LIKE 'INSERT%'"
    );
    let counts: Vec<i32> = client.query_one(&query, &[]).expect("the activity").get(0);
    samples.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}
