//! `make demo NAME=adopt`: a table and three that reference it get Snowflake IDs while clients use them; beside it, the
//! same load without a migration, and by the plan.
//!
//! Shows how long clients waited and for how long tables were locked, and compares every row with what the clients have
//! done.

mod load;
mod watch;

use load::{Load, PAUSE, REFERRING, Seen};
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::error::SqlState;
use testbed::postgres::{Client, SimpleQueryMessage};
use testbed::{Cluster, value};
use watch::{Watch, Watched};

/// The n-th argument, which may be empty.
fn argument(n: usize, default: i64) -> i64 {
    let given = std::env::args().nth(n).filter(|text| !text.is_empty());
    given.map_or(default, |text| text.parse().expect("a number"))
}

fn main() {
    let show = Show { rows: argument(1, 1_000_000), clients: argument(2, 16) };
    println!(
        "orders has {} rows and an integer key. items, notes and payments reference it, with as many rows each.\n\
         {} clients read, insert, update and delete; each rests {PAUSE:?} after each operation.\n",
        show.rows, show.clients
    );
    let adopted = show.set_up();
    let before = size(&adopted);
    let migration = show.measured(&adopted, Seen::default(), || call_procedures(&adopted, show.rows));
    println!("The phases took: {}.", migration.watched.times());
    let after = size(&adopted);
    adopted.connect().batch_execute("VACUUM").expect("a vacuum");
    println!(
        "The tables and their indexes had {before} MB before, {after} MB after, and {} MB after VACUUM, which can be used again.\n",
        size(&adopted)
    );
    println!(
        "{:<26} {:>12} {:>8} {:>10} {:>6} {:>16} {:>8} {:>7}",
        "", "longest wait", "99.9 %", "operations", "errors", "ACCESS EXCLUSIVE", "in all", "WAL"
    );
    let time = migration.took.min(Duration::from_secs(60));
    let migration = migration.shown("start(), run(), finish()");
    let other = show.set_up();
    let seen = show.measured(&other, Seen::default(), || sleep(time)).shown("no migration");
    let planned = show.measured(&other, seen, || run_plan(&mut other.connect())).shown("snowflake_adopt.plan()");
    println!("\nEach row of the four tables, compared with what the clients have done:");
    show.compare(&adopted, "start(), run(), finish()", migration);
    show.compare(&other, "snowflake_adopt.plan()", planned);
}

struct Show {
    rows: i64,
    clients: i64,
}

/// What a way to adopt the tables has cost.
struct Measured {
    seen: Seen,
    watched: Watched,
    took: Duration,
    wal: u64,
}

impl Show {
    fn set_up(&self) -> Cluster {
        let cluster = Cluster::builder().worker(1).set("max_wal_size", "8GB").start();
        let mut client = cluster.connect();
        client
            .batch_execute(&format!(
                "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; SELECT snowflake_nextval();
                 CREATE TABLE orders (id serial PRIMARY KEY, value bigint, note text, at timestamptz DEFAULT now());
                 INSERT INTO orders (value, note) SELECT n, 'order ' || n FROM generate_series(1, {}) n",
                self.rows
            ))
            .expect("a table");
        for table in REFERRING {
            client
                .batch_execute(&format!(
                    "CREATE TABLE {table} (order_id integer NOT NULL, value bigint, note text);
                     INSERT INTO {table} SELECT id, value, note FROM orders; CREATE INDEX ON {table} (order_id);
                     ALTER TABLE {table} ADD FOREIGN KEY (order_id) REFERENCES orders ON DELETE CASCADE"
                ))
                .expect("a table that references it");
        }
        client.batch_execute("VACUUM ANALYZE").expect("tables at rest");
        client.batch_execute("CHECKPOINT").expect("a checkpoint");
        cluster
    }

    /// Does something beside clients.
    fn measured(&self, cluster: &Cluster, before: Seen, work: impl FnOnce()) -> Measured {
        let mut client = cluster.connect();
        let mut lsn =
            || value(&mut client, "SELECT pg_current_wal_insert_lsn() - '0/0'").parse::<u64>().expect("a number");
        let written = lsn();
        let (watch, load) = (Watch::start(cluster), Load::start(cluster, self.clients, self.rows, &before.changed));
        sleep(Duration::from_millis(500));
        let began = Instant::now();
        work();
        let took = began.elapsed();
        sleep(Duration::from_millis(500));
        let mut seen = load.finish();
        seen.inserted.extend(before.inserted);
        seen.misread += before.misread;
        Measured { seen, watched: watch.finish(), took, wal: lsn() - written }
    }

    /// Each row is there once, with the right value, and nothing else; and no ID came twice.
    fn compare(&self, cluster: &Cluster, what: &str, mut seen: Seen) {
        let began_with = usize::try_from(self.rows).expect("a number");
        let was_there = |id: &i64| (1..=self.rows).contains(id);
        let value_of = |id: i64| seen.changed.get(&id).copied().unwrap_or_else(|| was_there(&id).then_some(id));
        let (mut compared, mut differences) = (0, 0);
        for (table, key) in [("orders", "id")].into_iter().chain(REFERRING.map(|table| (table, "order_id"))) {
            let mut client = cluster.connect();
            let rows = client.copy_out(&format!("COPY {table} ({key}, value) TO STDOUT")).expect("rows");
            let mut found = HashSet::new();
            for line in BufReader::new(rows).lines().map(|line| line.expect("a row")) {
                let (id, value) = line.split_once('\t').expect("two columns");
                let (id, value) = (id.parse().expect("an ID"), value.parse().expect("a value"));
                compared += 1;
                differences += usize::from(value_of(id) != Some(value) || !found.insert(id));
            }
            let changed = seen.changed.iter();
            let expected = changed
                .fold(began_with, |rows, (id, value)| rows + usize::from(value.is_some()) - usize::from(was_there(id)));
            differences += expected.saturating_sub(found.len());
        }
        let inserted = seen.inserted.len();
        seen.inserted.sort_unstable();
        seen.inserted.dedup();
        let twice = inserted - seen.inserted.len() + seen.inserted.iter().filter(|id| was_there(id)).count();
        println!(
            "{what:<26} {compared} rows, {differences} differences; {inserted} IDs issued, {twice} twice; {} reads wrong",
            seen.misread
        );
        for error in seen.errors.iter().take(3) {
            println!("    {error}");
        }
    }
}

impl Measured {
    fn shown(mut self, what: &str) -> Seen {
        let (when, longest) = self.seen.longest.expect("an operation");
        let (locked, locked_in) = &self.watched.locked;
        let at_most = if locked.is_zero() { String::new() } else { format!("<= {} ms", locked.as_millis()) };
        println!(
            "{what:<26} {:>9} ms {:>5.1} ms {:>10} {:>6} {at_most:>16} {:>6.1} s {:>4} MB",
            longest.as_millis(),
            self.seen.quantile(999),
            self.seen.took.len(),
            self.seen.errors.len(),
            self.took.as_secs_f64(),
            self.wal / 1_000_000
        );
        let phase = self.watched.phase_at(when);
        if !phase.is_empty() {
            println!("    The longest wait began in phase {phase}, the longest lock in phase {locked_in}.");
        }
        self.seen
    }
}

/// The size of the tables and their indexes, in MB.
fn size(cluster: &Cluster) -> String {
    let size = "SELECT sum(pg_total_relation_size(oid))::bigint / 1000000 FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    value(&mut cluster.connect(), size)
}

/// As psql shows it.
fn show_in_psql(cluster: &Cluster, query: &str) {
    println!("postgres=# {query} \\gx");
    let status = cluster.psql().args(["--expanded", "--command", query]).status().expect("psql");
    assert!(status.success(), "{query}");
}

fn call(cluster: &Cluster, command: &str) -> Duration {
    println!("postgres=# CALL snowflake_adopt.{command};");
    let began = Instant::now();
    cluster.connect().batch_execute(&format!("CALL snowflake_adopt.{command}")).expect("a migration");
    began.elapsed()
}

fn call_procedures(cluster: &Cluster, rows: i64) {
    call(cluster, "start('orders')");
    let copying = thread::scope(|scope| {
        let run = scope.spawn(|| call(cluster, "run('orders')"));
        wait_until(
            cluster,
            &format!("SELECT coalesce(max(rows_copied) > {rows}, false) FROM snowflake_adopt.progress"),
        );
        show_in_psql(cluster, "SELECT * FROM snowflake_adopt.progress");
        run.join().expect("a call")
    });
    let done = "SELECT concat_ws(' ', sum(blocks) * 8192, extract(epoch FROM sum(busy))) FROM snowflake_adopt.copying";
    let done = value(&mut cluster.connect(), done);
    let mut numbers = done.split(' ').map(|number| number.parse::<f64>().expect("a number"));
    let [bytes, busy] = [(); 2].map(|()| numbers.next().expect("a number"));
    let finishing = thread::scope(|scope| {
        let finish = scope.spawn(|| call(cluster, "finish('orders')"));
        wait_until(cluster, "SELECT coalesce(max(phase) = 'indexes', false) FROM snowflake_adopt.progress");
        show_in_psql(cluster, "SELECT goal, phase, waits_for, error, pid FROM snowflake_adopt.progress");
        finish.join().expect("a call")
    });
    let hours = |time: f64| time * 1e12 / bytes / 3600.0;
    println!(
        "\n{:.0} MB of tables were copied in {:.1} s, {busy:.1} s of which were work: {:.1} MB/s with share 50, {:.1} with 100.\n\
         By extrapolation, tables of a terabyte without indexes would take {:.0} hours to copy, or {:.0} with share 100, and\n\
         {:.0} hours for finish().",
        bytes / 1e6,
        copying.as_secs_f64(),
        bytes / 1e6 / copying.as_secs_f64(),
        bytes / 1e6 / busy,
        hours(copying.as_secs_f64()),
        hours(busy),
        hours(finishing.as_secs_f64())
    );
}

fn wait_until(cluster: &Cluster, query: &str) {
    let mut client = cluster.connect();
    while value(&mut client, query) != "t" {
        sleep(Duration::from_millis(10));
    }
}

/// As `\gexec` does, and again if a lock was not to be had.
fn run_plan(client: &mut Client) {
    loop {
        let rows = client.simple_query("SELECT command FROM snowflake_adopt.plan('orders')").expect("a plan");
        let commands = rows.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let Some(error) = commands.map(|command| client.batch_execute(command)).find_map(Result::err) else { return };
        assert_eq!(error.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{error:?}");
        client.batch_execute("ROLLBACK; RESET lock_timeout").expect("the end of a transaction");
    }
}
