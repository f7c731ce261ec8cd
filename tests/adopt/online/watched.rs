//! What `snowflake_adopt.progress` says to whoever looks.

use super::{call, launch, server};
use std::sync::mpsc;
use std::thread;
use testbed::postgres::NoTls;
use testbed::{PATIENCE, error, test, value};

#[test]
fn progress_names_the_table_and_the_process_whose_lock_a_migration_waits_for() {
    let (cluster, mut client) = server();
    let mut other = cluster.connect();
    let pid = value(&mut other, "SELECT pg_backend_pid()");
    other.batch_execute("BEGIN; SELECT FROM items LIMIT 1").expect("a lock");
    let (say, said) = mpsc::channel();
    let config = cluster.config().notice_callback(move |notice| drop(say.send(notice.message().to_owned()))).clone();
    let mut caller = config.connect(NoTls).expect("a session");
    let start = thread::spawn(move || call(&mut caller, "start('orders')"));
    let waits_for = |text: &str| {
        format!(
            "SELECT EXISTS (SELECT FROM snowflake_adopt.progress WHERE phase = 'columns' AND error LIKE '%lock timeout' AND waits_for = '{text}')"
        )
    };
    let lock = format!("a lock on public.items, which pid {pid} has (idle in transaction)");
    cluster.wait_until(&waits_for(&lock));
    let told = format!("the migration waits for {lock}");
    while said.recv_timeout(PATIENCE).expect("a notice") != told {}
    other.batch_execute("PREPARE TRANSACTION 'of others'").expect("a prepared transaction");
    cluster.wait_until(&waits_for("a lock on public.items, which the prepared transaction ''of others'' has"));
    other.batch_execute("COMMIT PREPARED 'of others'").expect("its end");
    start.join().expect("no error");
    let at_rest = "SELECT coalesce(error, waits_for) = 'a background worker: run() or finish() starts one' FROM snowflake_adopt.progress";
    cluster.wait_until(at_rest);
    // It waits for the end of a transaction that has no lock on any table.
    call(&mut client, "run('orders', share => 100)");
    other.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").expect("a snapshot");
    launch(&mut client, "orders", "adopted", "100");
    let transaction = format!("the transaction of pid {pid} (idle in transaction)");
    cluster
        .wait_until(&format!("SELECT phase = 'indexes' AND waits_for = '{transaction}' FROM snowflake_adopt.progress"));
    other.batch_execute("COMMIT").expect("no snapshot");
    call(&mut client, "finish('orders')");
}

/// Whose sessions only superusers see.
#[test]
fn progress_names_the_process_also_to_a_role_that_may_not_know_what_it_does() {
    let (cluster, mut client) = server();
    client.batch_execute("CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app").expect("a role");
    let mut app = cluster.config().user("app").connect(NoTls).expect("a session");
    app.batch_execute("CREATE TABLE t (id serial PRIMARY KEY)").expect("a table");
    client.batch_execute("BEGIN; SELECT FROM t").expect("a lock");
    let mut caller = cluster.config().user("app").connect(NoTls).expect("a session");
    let start = thread::spawn(move || call(&mut caller, "start('t')"));
    let waits_for = "SELECT max(waits_for) FROM snowflake_adopt.progress";
    let pid = value(&mut client, "SELECT pg_backend_pid()");
    let names = format!("a lock on public.t, which pid {pid} has");
    loop {
        let waits_for = value(&mut app, waits_for);
        if waits_for.starts_with(&names) {
            assert_eq!(waits_for, names);
            break;
        }
    }
    client.batch_execute("COMMIT").expect("no lock");
    start.join().expect("no error");
}

#[test]
fn the_time_left_is_that_of_all_tables_and_unknown_but_for_rows() {
    let (cluster, mut client) = server();
    let progress = "SELECT format('%s %s %s', phase, bytes_total, time_left) FROM snowflake_adopt.progress";
    call(&mut client, "start('orders')");
    assert_eq!(value(&mut client, progress), "columns  ");
    // Nobody can copy the rows of the first table.
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; LOCK TABLE orders IN EXCLUSIVE MODE").expect("a lock");
    let sizes = "SELECT sum(pg_relation_size(relation)) FROM snowflake_adopt.beside";
    let total =
        value(&mut client, "SELECT sum(pg_relation_size(t)) FROM unnest('{orders,items,other.notes}'::regclass[]) t");
    assert_ne!(value(&mut client, sizes), "");
    launch(&mut client, "orders", "copied", "100");
    let waits = "SELECT waits_for LIKE 'a lock on public.orders, which pid % has (idle in transaction)' FROM snowflake_adopt.progress";
    cluster.wait_until(waits);
    assert_eq!(value(&mut client, progress), format!("rows {total} "));
    other.batch_execute("COMMIT; BEGIN; SELECT FROM other.notes LIMIT 1 FOR UPDATE").expect("a lock of a row");
    cluster.wait_until("SELECT waits_for = 'rows that others have locked' FROM snowflake_adopt.progress");
    let left =
        "SELECT phase = 'rows' AND time_left >= '0' AND bytes_copied < bytes_total FROM snowflake_adopt.progress";
    assert_eq!(value(&mut client, left), "t");
    other.batch_execute("COMMIT; BEGIN; SELECT FROM orders LIMIT 1").expect("a lock");
    launch(&mut client, "orders", "adopted", "100");
    let at_swap = "SELECT phase = 'constraints' AND bytes_copied = bytes_total AND time_left IS NULL FROM snowflake_adopt.progress";
    cluster.wait_until(at_swap);
    other.batch_execute("COMMIT").expect("no lock");
    call(&mut client, "finish('orders')");
}

#[test]
fn whoever_waits_is_told_that_the_migration_was_undone_and_after_the_end_of_the_way_back() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE TABLE wide (key bigserial PRIMARY KEY)").expect("a table");
    for goal in ["started", "copied", "adopted"] {
        call(&mut client, "start('wide', 'key')");
        call(&mut client, "undo('wide')");
        let refused = error(&mut client, &format!("CALL snowflake_adopt.wait('wide', '{goal}', 'key')"));
        assert_eq!(refused.message(), "the migration of public.wide was undone", "{goal}");
    }
    call(&mut client, "start('wide', 'key')");
    call(&mut client, "finish('wide')");
    for goal in ["started", "copied", "adopted"] {
        call(&mut client, &format!("wait('wide', '{goal}', 'key')"));
    }
    for step in ["undo", "pause"] {
        let refused = error(&mut client, &format!("CALL snowflake_adopt.{step}('wide')"));
        assert_eq!(refused.message(), "public.wide is not being adopted");
        let back = "New rows have Snowflake IDs: snowflake_adopt.revert_plan('public.wide', 'key') has the way back.";
        assert_eq!(refused.hint(), Some(back), "{step}");
    }
}
