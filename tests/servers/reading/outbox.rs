//! The outbox of docs/reading.md.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;
use testbed::postgres::Client;
use testbed::{Cluster, StopOnDrop, project, test, value};

#[test]
fn consumers_that_are_killed_apply_each_event_of_an_outbox_exactly_once() {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    let example = fs::read_to_string(project().join("examples/sql/outbox.sql")).expect("the example");
    client.batch_execute(&format!("CREATE EXTENSION snowflake_pg; {example}")).expect("an outbox");
    let (stop, committed) = (AtomicBool::new(false), AtomicI64::new(0));
    scope(|scope| {
        for _ in 0..4 {
            let mut producer = cluster.connect();
            let (stop, committed) = (&stop, &committed);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    produce(&mut producer, committed);
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Until it is killed.
                    let mut consumer = cluster.connect();
                    while consumer.query("SELECT count_topics(50)", &[]).is_ok() && !stop.load(Ordering::Relaxed) {}
                }
            });
        }
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE query LIKE 'SELECT count_topics%' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1";
        let _stopping = StopOnDrop(&stop);
        for _ in 0..100 {
            client.batch_execute(kill).expect("a kill");
            sleep(Duration::from_millis(30));
        }
    });
    while value(&mut client, "SELECT count_topics()") != "0" {}
    let committed = committed.load(Ordering::Relaxed);
    assert!(committed > 100, "{committed} events");
    assert_eq!(value(&mut client, "SELECT sum(events) FROM topics"), committed.to_string());
    let wrong = "SELECT count(*) FROM topics FULL JOIN (SELECT topic, count(*) FROM outbox GROUP BY topic) outbox \
                 USING (topic) WHERE events IS DISTINCT FROM count";
    assert_eq!(value(&mut client, wrong), "0");
}

/// A transaction of one or two events, which takes a while, and may be rolled back.
fn produce(client: &mut Client, committed: &AtomicI64) {
    let count = fastrand::i64(1..=2);
    let insert = "INSERT INTO outbox (topic, body) SELECT 'topic ' || i, '{}'";
    client.batch_execute(&format!("BEGIN; {insert} FROM generate_series(1, {count}) i")).expect("events");
    sleep(Duration::from_micros(fastrand::u64(0..5_000)));
    if fastrand::u8(0..5) == 0 {
        client.batch_execute("ROLLBACK").expect("a rollback");
    } else {
        client.batch_execute("COMMIT").expect("a commit");
        committed.fetch_add(count, Ordering::Relaxed);
    }
}
