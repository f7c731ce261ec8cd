//! Somebody changes the goal of a migration while a step is under way: the last goal counts, or it is too late for it.

use super::{call, dump, launch, server};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testbed::{error, test, value};

#[test]
fn undo_while_the_swap_waits_for_a_lock_undoes_the_migration() {
    let (cluster, mut client) = server();
    let before = dump(&cluster);
    call(&mut client, "start('orders')");
    call(&mut client, "run('orders', share => 100)");
    cluster.wait_until("SELECT snowflake_adopt.carrier('orders'::regclass) IS NULL");
    client.batch_execute("SELECT snowflake_adopt.aim('orders', 'adopted', 100, NULL)").expect("a goal");
    // All that comes before, by hand.
    let next = "SELECT command FROM snowflake_adopt.next('orders'::regclass, true)";
    let mut command = value(&mut client, next);
    while !command.contains("snowflake_adopt.swap(") {
        client.batch_execute(&command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
        command = value(&mut client, next);
    }
    let mut reader = cluster.connect();
    reader.batch_execute("BEGIN; LOCK TABLE other.notes IN ACCESS SHARE MODE").expect("a transaction");
    client.batch_execute("SELECT snowflake_adopt.launch('orders'::regclass)").expect("a worker");
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'other.notes'::regclass)";
    while value(&mut client, waits) != "t" {}
    client.batch_execute("SELECT snowflake_adopt.aim('orders', 'undone', NULL, NULL)").expect("another goal");
    reader.batch_execute("COMMIT").expect("no lock");
    call(&mut client, "wait('orders', 'undone')");
    assert_eq!(dump(&cluster), before);
}

#[test]
fn finish_while_undo_waits_for_a_lock_adopts_the_table() {
    let (cluster, mut client) = server();
    call(&mut client, "start('orders')");
    call(&mut client, "run('orders', share => 100)");
    let mut reader = cluster.connect();
    reader.batch_execute("BEGIN; LOCK TABLE items IN ACCESS SHARE MODE").expect("a transaction");
    launch(&mut client, "orders", "undone", "NULL");
    cluster.wait_until("SELECT failures > 0 FROM snowflake_adopt.migration");
    let removed = "SELECT count(*) FROM pg_attribute WHERE attname = 'snowflake_adopt_order_id'";
    assert_eq!(value(&mut client, removed), "1", "the other table's is removed");
    client.batch_execute("SELECT snowflake_adopt.aim('orders', 'adopted', NULL, NULL)").expect("another goal");
    reader.batch_execute("COMMIT").expect("no lock");
    call(&mut client, "wait('orders', 'adopted')");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(order_id)) FROM other.notes"), "bigint");
    assert_eq!(value(&mut client, "SELECT count(*) FROM other.notes JOIN orders ON id = order_id"), "5000");
}

#[test]
fn whoever_waits_for_a_goal_is_told_if_somebody_else_has_called_for_another_one() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE TABLE wide (id bigserial PRIMARY KEY)").expect("a table");
    call(&mut client, "start('wide')");
    client.batch_execute("SELECT snowflake_adopt.aim('wide', 'undone', NULL, NULL)").expect("a goal");
    assert_eq!(
        error(&mut client, "CALL snowflake_adopt.start('wide')").message(),
        "the migration of public.wide is being undone"
    );
    call(&mut client, "finish('wide')");
    let refused = error(&mut client, "CALL snowflake_adopt.wait('wide', 'undone')");
    assert_eq!(refused.message(), "the migration of public.wide was finished");
}

/// Each of them waits behind the first lock of the swap, with a lock that the swap needs then.
#[test]
fn a_swap_ends_beside_readers_who_hold_locks_of_a_view_and_of_joined_tables_all_the_time() {
    let (cluster, mut client) = server();
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let queries = [
        "sizes",
        "orders JOIN items ON items.order_id = orders.id",
        "orders JOIN other.notes ON notes.order_id = orders.id",
    ];
    // So many that there is no moment without one.
    let readers = queries.repeat(4).into_iter().map(|tables| {
        let (mut client, stop) = (cluster.connect(), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                client
                    .batch_execute(&format!("SELECT pg_sleep(0.03) FROM (SELECT FROM {tables} LIMIT 1) one"))
                    .unwrap_or_else(|error| panic!("{tables}: {error:?}"));
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    client.batch_execute("SET statement_timeout = '1min'").expect("a setting");
    call(&mut client, "finish('orders')");
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().expect("no error"));
}

/// Callers ask ten times a second, and the tables of a migration are those that its worker changes.
#[test]
fn whoever_waits_for_a_goal_reads_what_the_worker_has_noted_and_no_catalog_of_the_tables() {
    let (cluster, mut client) = server();
    call(&mut client, "start('orders')");
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; LOCK TABLE snowflake_adopt.beside, snowflake_adopt.copying").expect("locks");
    client.batch_execute("SELECT snowflake_adopt.aim('orders', 'copied', 100, NULL)").expect("a goal");
    let reached = "SELECT snowflake_adopt.has_reached('orders', 'copied', 'id')";
    assert_eq!(value(&mut client, reached), "f");
    other.batch_execute("COMMIT").expect("no locks");
    call(&mut client, "wait('orders', 'copied')");
    assert_eq!(value(&mut client, reached), "t");
    assert_eq!(value(&mut client, "SELECT snowflake_adopt.has_reached('orders', 'started', 'id')"), "t");
    assert_eq!(value(&mut client, "SELECT snowflake_adopt.has_reached('orders', 'adopted', 'id')"), "f");
}

#[test]
fn a_goal_that_was_reached_is_not_reached_any_more_for_who_calls_after_a_foreign_key_came() {
    let (cluster, mut client) = server();
    call(&mut client, "start('orders')");
    call(&mut client, "run('orders', share => 100)");
    for (nth, step) in ["start('orders')", "run('orders')"].into_iter().enumerate() {
        client
            .batch_execute(&format!(
                "CREATE TABLE late{nth} (order_id integer REFERENCES orders); INSERT INTO late{nth} SELECT id FROM orders"
            ))
            .expect("a table");
        call(&mut client, step);
        let beside = format!(
            "SELECT count(*) FROM pg_attribute WHERE attrelid = 'late{nth}'::regclass AND attname = 'snowflake_adopt_order_id'"
        );
        assert_eq!(value(&mut client, &beside), "1", "{step}");
    }
    let left = "SELECT count(*) FROM late1 WHERE order_id IS DISTINCT FROM snowflake_adopt_order_id";
    assert_eq!(value(&mut client, left), "0", "all rows are copied");

    // The worker looks while a key comes, and notes what it has seen when it is there.
    cluster.wait_until("SELECT snowflake_adopt.carrier('orders'::regclass) IS NULL");
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; LOCK TABLE snowflake_adopt.copying").expect("a lock");
    let [mut worker, mut caller] = [cluster.connect(), cluster.connect()];
    let looks = thread::spawn(move || {
        worker.batch_execute("SELECT snowflake_adopt.next('orders'::regclass, true)").expect("a look");
    });
    cluster.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)");
    client.batch_execute("CREATE TABLE last (order_id integer REFERENCES orders)").expect("a table");
    let calls = thread::spawn(move || {
        caller.batch_execute("SELECT snowflake_adopt.aim('orders', 'copied', NULL, NULL)").expect("a goal");
    });
    while !calls.is_finished()
        && value(&mut client, "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted") != "2"
    {}
    other.batch_execute("COMMIT").expect("no lock");
    [looks, calls].into_iter().for_each(|done| done.join().expect("no error"));
    assert_eq!(value(&mut client, "SELECT snowflake_adopt.has_reached('orders', 'copied', 'id')"), "f");
    call(&mut client, "wait('orders', 'copied')");
    let beside = "SELECT count(*) FROM snowflake_adopt.beside WHERE relation = 'last'::regclass";
    assert_eq!(value(&mut client, beside), "1");
}
