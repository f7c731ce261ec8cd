//! Beside others: those who read and write the table, and those who make its partitions too.

use super::{create, server};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testbed::{Cluster, StopOnDrop, error, test, value};

#[test]
fn callers_at_once_make_each_partition_once_and_none_fails() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE customer (id integer PRIMARY KEY);
             CREATE TABLE orders (id bigint PRIMARY KEY, customer integer REFERENCES customer) PARTITION BY RANGE (id)",
        )
        .expect("a table");
    let made: Vec<String> = thread::scope(|scope| {
        let calls = (0..8).map(|nth| {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut client = cluster.connect();
                let level = if nth % 2 == 0 { "READ COMMITTED" } else { "REPEATABLE READ" };
                let mut made = Vec::new();
                for ahead in 0..20 {
                    client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).expect("a snapshot");
                    made.extend(create(&mut client, &format!("'orders', '1 day', {ahead}")));
                    client.batch_execute("COMMIT").expect("a commit");
                }
                made
            })
        });
        let calls: Vec<_> = calls.collect();
        calls.into_iter().flat_map(|call| call.join().expect("a caller that does not fail")).collect()
    });
    let mut distinct = made.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((made.len(), distinct.len()), (20, 20), "{made:?}");
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'orders'::regclass"), "20");
}

#[test]
fn a_transaction_sees_partitions_that_are_newer_than_its_snapshot() {
    let (cluster, mut client) = server();
    client.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY) PARTITION BY RANGE (id)").expect("a table");
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM pg_class").expect("a snapshot");
    assert_eq!(create(&mut cluster.connect(), "'orders', '1 day', 1").len(), 2);
    assert_eq!(
        create(&mut client, "'orders', '1 day', 2"),
        ["orders_20240301|2024-03-01 00:00:00|2024-03-02 00:00:00"]
    );
    client.batch_execute("COMMIT").expect("a commit");
}

/// Not by how long it takes: what waits for a transaction that does not end is cancelled, after far longer than it
/// needs.
#[test]
fn neither_readers_nor_writers_wait_for_new_partitions_nor_those_for_them() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, item text) PARTITION BY RANGE (id);
             CREATE INDEX ON orders (item);
             SELECT snowflake_create_partitions('orders', '1 day', 0)",
        )
        .expect("a table");
    let insert = "INSERT INTO orders VALUES (snowflake_min_id('2024-02-28Z') + nextval('number'), 'tea')";
    client.batch_execute("CREATE SEQUENCE number").expect("a sequence");
    let patient = |cluster: &Cluster| {
        let mut client = cluster.connect();
        client.batch_execute("SET statement_timeout = '30s'").expect("a setting");
        client
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients = (0..4).map(|_| {
            scope.spawn(|| {
                let mut client = patient(&cluster);
                let mut inserted = 0;
                while !stop.load(Ordering::Relaxed) {
                    client.batch_execute(insert).expect("an insert that does not wait");
                    client.simple_query("SELECT max(id) FROM orders").expect("a query that does not wait");
                    inserted += 1;
                }
                inserted
            })
        });
        let clients: Vec<_> = clients.collect();
        let stopping = StopOnDrop(&stop);
        for ahead in 1..30 {
            // A transaction that has written and one that reads stay open while partitions are made,
            let mut open = patient(&cluster);
            open.batch_execute(&format!("BEGIN; {insert}; DECLARE c CURSOR FOR SELECT * FROM orders; FETCH c"))
                .expect("a transaction");
            let mut maker = patient(&cluster);
            maker.batch_execute("BEGIN").expect("a transaction");
            assert_eq!(create(&mut maker, &format!("'orders', '1 day', {ahead}")).len(), 1, "{ahead} ahead");
            // and go on while that is not committed yet.
            open.batch_execute(&format!("{insert}; FETCH ALL c; COMMIT")).expect("a transaction that goes on");
            maker.batch_execute("COMMIT").expect("a commit");
        }
        drop(stopping);
        for client in clients {
            let inserted: u32 = client.join().expect("a client that does not fail");
            assert!(inserted > 0, "a client that was never served");
        }
    });
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'orders'::regclass"), "30");
}

/// Such a partition takes no rows any more, but PostgreSQL lets none lie over it until it is gone.
#[test]
fn a_partition_that_is_being_detached_is_not_made_a_second_time() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE log (id bigint) PARTITION BY RANGE (id);
             SELECT snowflake_create_partitions('log', '1 day', 0)",
        )
        .expect("a partition");
    client.batch_execute("BEGIN; SELECT * FROM log").expect("a reader");
    let mut other = cluster.connect();
    other.batch_execute("SET statement_timeout = '1s'").expect("a setting");
    let detach = "ALTER TABLE log DETACH PARTITION log_20240228 CONCURRENTLY";
    assert_eq!(error(&mut other, detach).code().code(), "57014", "it waits for the reader");
    assert_eq!(value(&mut other, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"), "1");
    other.batch_execute("RESET statement_timeout").expect("a setting");
    assert!(create(&mut other, "'log', '1 week', 0").iter().all(|made| !made.contains("log_20240228")));
    client.batch_execute("COMMIT").expect("the end of the reader");
}
