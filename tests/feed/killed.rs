//! Whatever is killed, the rows that are applied are those of the servers, each once.

use super::fixture::Fleet;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;
use testbed::postgres::{self, Config, NoTls};
use testbed::{Cluster, Signal, Traffic, test};

/// Applies what it reads, in one transaction, until it has reached the end.
fn consume(config: &Config, arguments: &str, finished: &AtomicBool) {
    let query =
        format!("INSERT INTO applied (id) SELECT id FROM snowflake_feed.read(NULL::outbox, 'all', {arguments})");
    let session = || -> Result<(), postgres::Error> {
        let mut client = config.connect(NoTls)?;
        let mut empty = 0;
        loop {
            let is_last = finished.load(Ordering::Relaxed);
            client.batch_execute("BEGIN")?;
            let rows = client.execute(&query, &[])?;
            client.batch_execute(if fastrand::u8(0..10) == 0 { "ROLLBACK" } else { "COMMIT" })?;
            empty = if rows == 0 && is_last { empty + 1 } else { 0 };
            // A server that was away is asked again after a while.
            let behind = "SELECT count(*) FROM snowflake_feed.member WHERE problem IS NOT NULL";
            if empty > 3 && client.query_one(behind, &[])?.get::<_, i64>(0) == 0 {
                return Ok(());
            }
        }
    };
    while session().is_err() {
        sleep(Duration::from_millis(20));
    }
}

/// What was missed, repeated, and returned after a greater ID.
fn killed(arguments: &str) -> [usize; 3] {
    let mut fleet = Fleet::of((1..=3).map(|worker| {
        Cluster::builder().worker(worker).set("max_prepared_transactions", 100).set("max_connections", 100)
    }));
    let traffics: Vec<_> = fleet.members.iter().map(|member| Traffic::start(member, 4)).collect();
    let mut dba = fleet.reader.connect();
    dba.batch_execute("SELECT snowflake_feed.drop('all'); SELECT snowflake_feed.create('all', 'public.written')")
        .expect("a feed");
    for nth in 0..3 {
        dba.batch_execute(&format!("SELECT snowflake_feed.add_server('all', 's{nth}', '-infinity')"))
            .expect("a server");
    }
    dba.batch_execute("ALTER TABLE outbox RENAME note TO other; ALTER TABLE outbox DROP other").expect("a table");
    drop(dba);
    let finished = AtomicBool::new(false);
    let config = fleet.reader.config();
    let tables = thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(&config, arguments, &finished));
        for round in 0..6 {
            sleep(Duration::from_millis(500));
            if round % 3 == 2 {
                fleet.reader.restart(Signal::KILL);
            } else {
                let kill =
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO applied%'";
                fleet.reader.connect().batch_execute(kill).expect("a kill");
                fleet.members[round % 3].restart(Signal::KILL);
            }
        }
        traffics.into_iter().for_each(|traffic| drop(traffic.finish()));
        let mut tables = Vec::new();
        for member in &fleet.members {
            let rows = member.connect().query("SELECT id FROM written", &[]).expect("rows");
            tables.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        }
        finished.store(true, Ordering::Relaxed);
        consumer.join().expect("a consumer");
        tables
    });
    let rows = fleet.reader.connect().query("SELECT id FROM applied ORDER BY nth", &[]).expect("rows");
    let applied: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let distinct: HashSet<i64> = applied.iter().copied().collect();
    assert!(distinct.iter().all(|id| tables.contains(id)), "a row that is nowhere");
    println!("{} rows of 3 servers, {} applied", tables.len(), applied.len());
    assert!(tables.len() > 100, "{} rows", tables.len());
    [
        tables.iter().filter(|id| !distinct.contains(id)).count(),
        applied.len() - distinct.len(),
        applied.windows(2).filter(|pair| pair[0] > pair[1]).count(),
    ]
}

#[test]
fn no_row_is_missed_repeated_or_out_of_order_while_servers_and_the_reader_are_killed() {
    assert_eq!(killed("100"), [0, 0, 0], "missed, repeated, out of order");
}

#[test]
fn a_reader_without_patience_loses_the_order_alone() {
    let [missed, repeated, _] = killed("100, patience => '10 ms'");
    assert_eq!([missed, repeated], [0, 0], "missed, repeated");
}
