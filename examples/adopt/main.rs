//! `make demo NAME=adopt`: gives Snowflake IDs to a table of a million rows with two children, by the plan and while
//! they are in use, beside a writer; then the plan back. Shows how long the writer waited, how long it took, and how much WAL
//! was written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::error::SqlState;
use testbed::postgres::{Client, SimpleQueryMessage};
use testbed::{Cluster, value};

const ROWS: &str = "1000000";

fn main() {
    let rows = std::env::args().nth(1).filter(|rows| !rows.is_empty()).unwrap_or_else(|| ROWS.to_owned());
    let rows: u32 = rows.parse().expect("a number of rows");
    println!("A table of {rows} rows with an integer key, and two that refer to it, with as many rows each.\n");
    println!("{:<34} {:>12} {:>12} {:>10}", "", "writer waits", "in all", "WAL");
    for way in ["snowflake_adopt.plan()", "start(), run(), finish()"] {
        let cluster = Cluster::builder().worker(1).set("max_wal_size", "8GB").start();
        let mut client = cluster.connect();
        set_up(&mut client, rows);
        let written = measured(&cluster, way, || match way {
            "snowflake_adopt.plan()" => run_plan(&mut cluster.connect(), "plan"),
            _ => call_procedures(&mut cluster.connect()),
        });
        check(&mut client, rows, written);
        if way == "snowflake_adopt.plan()" {
            measured(&cluster, "snowflake_adopt.revert_plan()", || run_plan(&mut cluster.connect(), "revert_plan"));
        }
    }
}

fn set_up(client: &mut Client, rows: u32) {
    client
        .batch_execute(&format!(
            "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; SELECT snowflake_nextval();
             CREATE TABLE orders (id serial PRIMARY KEY, item text, at timestamptz DEFAULT now());
             CREATE TABLE items (order_id integer REFERENCES orders, item text);
             CREATE TABLE notes (order_id integer REFERENCES orders, note text);
             INSERT INTO orders (item) SELECT 'item ' || n FROM generate_series(1, {rows}) n;
             INSERT INTO items SELECT id, item FROM orders; CREATE INDEX ON items (order_id);
             INSERT INTO notes SELECT id, item FROM orders; CREATE INDEX ON notes (order_id)"
        ))
        .expect("tables");
    client.batch_execute("VACUUM ANALYZE").expect("a table at rest");
}

/// Runs something beside a writer, and prints how it went. Returns how many rows the writer has written.
fn measured(cluster: &Cluster, what: &str, work: impl FnOnce()) -> u32 {
    let mut client = cluster.connect();
    let lsn = "SELECT pg_current_wal_insert_lsn() - '0/0'";
    let before: u64 = value(&mut client, lsn).parse().expect("a number");
    let writer = Writer::start(cluster);
    sleep(Duration::from_millis(500));
    let began = Instant::now();
    work();
    let took = began.elapsed();
    sleep(Duration::from_millis(500));
    let (written, longest) = writer.stop();
    let after: u64 = value(&mut client, lsn).parse().expect("a number");
    println!(
        "{what:<34} {:>9} ms {:>10.1} s {:>7} MB",
        longest.as_millis(),
        took.as_secs_f64(),
        (after - before) / 1_000_000
    );
    written
}

/// As `\gexec` does, and again if a lock was not to be had.
fn run_plan(client: &mut Client, which: &str) {
    loop {
        let plan = format!("SELECT command FROM snowflake_adopt.{which}('orders')");
        let rows = client.simple_query(&plan).expect("a plan");
        let commands = rows.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let Some(error) = commands.map(|command| client.batch_execute(command)).find_map(Result::err) else { return };
        assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{error:?}");
        client.batch_execute("ROLLBACK; RESET lock_timeout").expect("the end of a transaction");
    }
}

fn call_procedures(client: &mut Client) {
    for procedure in ["start('orders')", "run('orders', share => 100)", "finish('orders')"] {
        client.batch_execute(&format!("CALL snowflake_adopt.{procedure}")).expect("a migration");
    }
}

/// Nothing is lost, and everything fits together.
fn check(client: &mut Client, rows: u32, written: u32) {
    let found = value(
        client,
        "SELECT count(*) FROM orders o JOIN items i ON i.order_id = o.id JOIN notes n ON n.order_id = o.id",
    );
    assert_eq!(found, (rows + written).to_string(), "rows and those of the writer");
    let new = "SELECT pg_typeof(max(id)) || ' ' || (max(id) > snowflake_min_id(now() - interval '1 hour')) FROM orders";
    assert_eq!(value(client, new), "bigint true");
}

/// A client that inserts an order with its item and its note, again and again.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Duration)>,
}

impl Writer {
    fn start(cluster: &Cluster) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut client, told) = (cluster.connect(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let (mut written, mut longest) = (0, Duration::ZERO);
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                client
                    .batch_execute(
                        "WITH o AS (INSERT INTO orders (item) VALUES ('new') RETURNING id),
                              i AS (INSERT INTO items (order_id, item) SELECT id, 'new' FROM o)
                         INSERT INTO notes (order_id, note) SELECT id, 'new' FROM o",
                    )
                    .expect("a row");
                longest = longest.max(began.elapsed());
                written += 1;
                sleep(Duration::from_millis(2));
            }
            (written, longest)
        });
        Self { stop, thread }
    }

    fn stop(self) -> (u32, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a writer")
    }
}
