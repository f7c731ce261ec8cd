//! What the key of a table costs.
//!
//! Each load goes into a new table of a key and one integer, right after a CHECKPOINT, with fsync on and each commit
//! waited for. The wall clock counts, since that is what a user waits for; the CPU time of the backend is shown beside
//! it, since a disk is noisy. COPY reads a file of the server's, the same bytes for all, so that no client is measured.
//! Autovacuum is off for these tables: it would come to some contenders and not to others.

use crate::contenders::{Contender, HOSTED, OURS, SEQUENCE, UUID_4, WIDE};
use crate::effort::Effort;
use crate::measure::{Backend, cpu_time, nanoseconds, number, progress, rounds, wal_written};
use crate::servers::Servers;
use bench_report::{Better, Question, Report};
use std::time::Instant;
use testbed::postgres::Client;

pub const ROW: Question = Question {
    part: "insert",
    case: "Rows a second, INSERT of one row",
    unit: "rows/s",
    better: Better::Higher,
    reference: OURS.name,
};
pub const ROWS: Question = Question { case: "Rows a second, INSERT of 100 rows", ..ROW };
pub const SELECT: Question = Question { case: "Rows a second, INSERT ... SELECT", ..ROW };
pub const COPY: Question = Question { case: "Rows a second, COPY", ..ROW };
const SELECT_CPU: Question =
    Question { case: "CPU time of one row, INSERT ... SELECT", unit: "ns", better: Better::Lower, ..ROW };
const COPY_CPU: Question = Question { case: "CPU time of one row, COPY", ..SELECT_CPU };
pub const WAL: Question = Question { case: "WAL of one row, INSERT ... SELECT", unit: "bytes", ..SELECT_CPU };
pub const COPY_WAL: Question = Question { case: "WAL of one row, COPY", ..WAL };
pub const INDEX: Question =
    Question { case: "Size of the key's index after one long INSERT ... SELECT", unit: "MiB", ..SELECT_CPU };
pub const DENSITY: Question = Question { case: "Leaf density of the key's index", unit: "%", ..ROW };

/// What PostgreSQL gives keys by itself, the same with some values a session at once, and the older form of it.
pub const IDENTITY: &str = "identity";
const CACHED: &str = "identity, CACHE 32";
pub const BIGSERIAL: &str = "bigserial";

/// A way to give rows their key.
struct Key {
    name: &'static str,
    /// How the column is declared.
    column: String,
    /// What COPY reads.
    file: String,
    backend: Backend,
}

/// What a load has shown.
struct Load {
    rows_a_second: f64,
    cpu: f64,
    wal: f64,
}

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    let mut keys = keys(servers);
    let times = effort.pick(5, 1);

    let (single, hundreds) = (effort.pick(500, 50), effort.pick(200, 10));
    let loads = rounds(times, &mut keys, |key| {
        key.load(single, |client| {
            let insert = client.prepare("INSERT INTO filled (payload) VALUES ($1)").expect("a statement");
            for payload in 0..single {
                client.execute(&insert, &[&payload.cast_signed()]).expect("a row");
            }
        })
    });
    add(report, &ROW, &keys, &loads, |load| load.rows_a_second);
    let values = (1..=100).map(|payload| format!("({payload})")).collect::<Vec<_>>().join(", ");
    let loads = rounds(times, &mut keys, |key| {
        key.load(hundreds * 100, |client| {
            let insert = client.prepare(&format!("INSERT INTO filled (payload) VALUES {values}")).expect("a statement");
            for _ in 0..hundreds {
                client.execute(&insert, &[]).expect("rows");
            }
        })
    });
    add(report, &ROWS, &keys, &loads, |load| load.rows_a_second);

    let rows = effort.pick(1_000_000, 50_000);
    println!("    INSERT ... SELECT and COPY of {rows} rows");
    let loads = rounds(times, &mut keys, |key| key.load(rows, |client| insert_select(client, rows)));
    add(report, &SELECT, &keys, &loads, |load| load.rows_a_second);
    add(report, &SELECT_CPU, &keys, &loads, |load| load.cpu);
    add(report, &WAL, &keys, &loads, |load| load.wal);

    for key in &mut keys {
        let write = format!("COPY (SELECT generate_series(1, {rows})) TO '{}'", key.file);
        key.backend.client.batch_execute(&write).expect("a file");
    }
    let loads = rounds(times, &mut keys, |key| {
        let copy = format!("COPY filled (payload) FROM '{}'", key.file);
        key.load(rows, |client| client.batch_execute(&copy).expect("rows"))
    });
    add(report, &COPY, &keys, &loads, |load| load.rows_a_second);
    add(report, &COPY_CPU, &keys, &loads, |load| load.cpu);
    add(report, &COPY_WAL, &keys, &loads, |load| load.wal);

    // Neither the layout nor the cache changes the order in which keys come.
    keys.retain(|key| ![WIDE.name, HOSTED.name, CACHED].contains(&key.name));
    keys.push(Key::new(servers, BIGSERIAL, &SEQUENCE, "bigserial"));
    let rows = effort.pick(5_000_000, 50_000);
    println!("    indexes of {rows} rows");
    indexes(&mut keys, rows, report);
}

impl Key {
    fn new(servers: &Servers, name: &'static str, contender: &Contender, column: &str) -> Self {
        let file = servers.cluster(contender.setting).host().join("rows").display().to_string();
        Self { name, column: column.to_owned(), file, backend: Backend::of(servers, contender) }
    }

    /// Measures a load into a new table, which is dropped afterwards.
    fn load(&mut self, rows: u32, load: impl FnOnce(&mut Client)) -> Load {
        self.create();
        let before = wal_written(&mut self.backend.client);
        let (cpu, since) = (cpu_time(self.backend.process()), Instant::now());
        load(&mut self.backend.client);
        let (wall, cpu) = (since.elapsed(), cpu_time(self.backend.process()) - cpu);
        let wal = wal_written(&mut self.backend.client) - before;
        self.backend.client.batch_execute("DROP TABLE filled").expect("no table");
        let rows = f64::from(rows);
        Load { rows_a_second: rows / wall.as_secs_f64(), cpu: nanoseconds(cpu) / rows, wal: wal / rows }
    }

    /// A new table, and all that was written before on disk.
    fn create(&mut self) {
        let create = format!(
            "CREATE TABLE filled (id {} PRIMARY KEY, payload integer NOT NULL) WITH (autovacuum_enabled = off)",
            self.column
        );
        self.backend.client.batch_execute(&create).expect("a table");
        self.backend.client.batch_execute("CHECKPOINT").expect("a checkpoint");
    }
}

fn keys(servers: &Servers) -> Vec<Key> {
    let drawn = |contender: &Contender| {
        let column = format!("{} DEFAULT {}", contender.key, contender.expression);
        Key::new(servers, contender.name, contender, &column)
    };
    let own = |name, column| Key::new(servers, name, &SEQUENCE, column);
    let mut keys = vec![
        drawn(&OURS),
        drawn(&WIDE),
        drawn(&HOSTED),
        own(IDENTITY, "bigint GENERATED ALWAYS AS IDENTITY"),
        own(CACHED, "bigint GENERATED ALWAYS AS IDENTITY (CACHE 32)"),
        drawn(&UUID_4),
    ];
    keys.extend(servers.peers().iter().map(drawn));
    keys
}

fn insert_select(client: &mut Client, rows: u32) {
    let insert = format!("INSERT INTO filled (payload) SELECT generate_series(1, {rows})");
    client.batch_execute(&insert).expect("rows");
}

fn add(report: &mut Report, question: &Question, keys: &[Key], loads: &[Vec<Load>], what: impl Fn(&Load) -> f64) {
    for (key, loads) in keys.iter().zip(loads) {
        report.add(question, key.name, loads.iter().map(&what).collect());
    }
}

/// How large an index gets does not vary: one load is enough.
fn indexes(keys: &mut [Key], rows: u32, report: &mut Report) {
    let count = keys.len();
    for (nth, key) in keys.iter_mut().enumerate() {
        progress(nth, count);
        key.create();
        let client = &mut key.backend.client;
        insert_select(client, rows);
        let bytes = number(client, "SELECT pg_relation_size('filled_pkey')");
        report.add(&INDEX, key.name, vec![bytes / f64::from(1 << 20)]);
        if client.batch_execute("CREATE EXTENSION IF NOT EXISTS pgstattuple").is_ok() {
            let density = number(client, "SELECT avg_leaf_density FROM pgstatindex('filled_pkey')");
            report.add(&DENSITY, key.name, vec![density]);
        } else if nth == 0 {
            println!("    pgstattuple is not installed, and leaf density left out");
        }
        client.batch_execute("DROP TABLE filled").expect("no table");
    }
    progress(count, count);
}
