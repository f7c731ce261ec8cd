//! A poll that waits for rows.

use super::{insert, server};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Cluster, error, need_postgresql, postgresql, test, value, waits_for};

/// A poll that begins to wait in a session of its own, and what it returns.
fn wait<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    cluster: &'scope Cluster,
    after: i64,
) -> (i32, ScopedJoinHandle<'scope, Vec<String>>) {
    let mut client = cluster.connect();
    let pid: i32 = value(&mut client, "SELECT pg_backend_pid()").parse().expect("a process");
    let query = format!("SELECT note FROM snowflake_poll(NULL::orders, {after}, wait => '1 min')");
    let rows = scope.spawn(move || {
        client.query(&query, &[]).expect("rows").iter().map(|row| row.get("note")).collect::<Vec<String>>()
    });
    wait_until_waits(cluster, pid);
    (pid, rows)
}

fn wait_until_waits(cluster: &Cluster, pid: i32) {
    let waits = waits_for("SnowflakePoll");
    cluster.wait_until(&format!("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid} AND {waits})"));
}

/// What a transaction of another session has inserted and not committed.
fn open(cluster: &Cluster, note: &str) -> Client {
    let mut client = cluster.connect();
    client.batch_execute(&format!("BEGIN; INSERT INTO orders (note) VALUES ('{note}')")).expect("a row");
    client
}

#[test]
fn a_poll_that_waits_returns_when_others_commit_and_none_of_their_rows_is_missed() {
    let (cluster, mut client) = server();
    let last = insert(&mut client);
    let [mut first, mut second, mut third, mut fourth] =
        ["first", "second", "third", "fourth"].map(|note| open(&cluster, note));
    thread::scope(|scope| {
        let (pid, rows) = wait(scope, &cluster, last);
        second.batch_execute("COMMIT").expect("its end");
        // A row is there, and not below the horizon.
        wait_until_waits(&cluster, pid);
        assert!(!rows.is_finished());
        first.batch_execute("COMMIT").expect("its end");
        assert_eq!(rows.join().expect("rows"), ["first", "second"]);
    });
    let after = value(&mut client, "SELECT max(id) FROM orders").parse().expect("an ID");
    thread::scope(|scope| {
        let (_, rows) = wait(scope, &cluster, after);
        fourth.batch_execute("PREPARE TRANSACTION 'fourth'").expect("a prepared transaction");
        third.batch_execute("ROLLBACK").expect("its end");
        fourth.batch_execute("COMMIT PREPARED 'fourth'").expect("its end");
        assert_eq!(rows.join().expect("rows"), ["fourth"]);
    });
}

/// By itself, a poll looks again after a second.
#[test]
fn a_commit_wakes_a_poll_that_waits() {
    let (cluster, mut client) = server();
    let mut last = insert(&mut client);
    let quickest = (0..9).map(|_| {
        thread::scope(|scope| {
            let (_, rows) = wait(scope, &cluster, last);
            let began = Instant::now();
            last = insert(&mut client);
            assert_eq!(rows.join().expect("rows"), ["new"]);
            began.elapsed()
        })
    });
    assert!(quickest.min() < Some(Duration::from_millis(500)));
}

#[test]
fn a_poll_waits_for_as_long_as_it_may_and_can_be_cancelled() {
    let (cluster, mut client) = server();
    let last = insert(&mut client);
    let poll = |wait: &str| format!("SELECT count(*) FROM snowflake_poll(NULL::orders, {last}, wait => {wait})");
    for wait in ["NULL", "'0'", "'150 ms'"] {
        assert_eq!(value(&mut client, &poll(wait)), "0", "{wait}");
    }
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_poll(NULL::orders, 0, 2, wait => '1 min')"), "2");
    client.batch_execute("SET statement_timeout = '200 ms'").expect("a limit");
    assert_eq!(error(&mut client, &poll("'1 min'")).code().code(), "57014");
    thread::scope(|scope| {
        let mut ended = cluster.connect();
        let pid: i32 = value(&mut ended, "SELECT pg_backend_pid()").parse().expect("a process");
        let query = poll("'1 min'");
        let failed = scope.spawn(move || ended.batch_execute(&query).is_err());
        wait_until_waits(&cluster, pid);
        assert_eq!(value(&mut cluster.connect(), &format!("SELECT pg_terminate_backend({pid})")), "t");
        assert!(failed.join().expect("an error"));
    });
    assert_eq!(value(&mut cluster.connect(), "SELECT count(*) FROM snowflake_poll(NULL::orders, 0)"), "4");
}

#[test]
fn a_poll_that_would_wait_too_long_or_for_its_own_transaction_is_refused() {
    let (_cluster, mut client) = server();
    for (wait, shown) in [("-1 ms", "-00:00:00.001"), ("61 s", "00:01:01"), ("1 month", "1 mon"), ("-1 day", "-1 days")]
    {
        let refused = error(&mut client, &format!("SELECT snowflake_poll(NULL::orders, 0, wait => '{wait}')"));
        assert_eq!((refused.code().code(), refused.detail()), ("22023", Some(&*format!("The value is {shown}."))));
    }
    let poll = "SELECT snowflake_poll(NULL::orders, 9223372036854775807, wait => '1 min')";
    client.batch_execute("BEGIN").expect("a transaction");
    insert(&mut client);
    assert_eq!(error(&mut client, poll).code().code(), "25001");
    // Even if only a parallel worker has drawn it.
    let parallel = if postgresql() < 16 { "force_parallel_mode" } else { "debug_parallel_query" };
    client
        .batch_execute(&format!("ROLLBACK; SET {parallel} = on; BEGIN; SELECT snowflake_nextval() > 0"))
        .expect("an ID");
    assert_eq!(error(&mut client, poll).code().code(), "25001");
}

#[test]
fn a_poll_that_waits_makes_way_for_whoever_waits_for_a_lock_of_its_table() {
    let (cluster, mut client) = server();
    let last = insert(&mut client);
    thread::scope(|scope| {
        let (_, rows) = wait(scope, &cluster, last);
        client.batch_execute("SET lock_timeout = '30 s'; ALTER TABLE orders ADD COLUMN more integer").expect("a lock");
        assert_eq!(rows.join().expect("no row"), [""; 0]);
    });
}

#[test]
fn who_may_not_read_a_table_is_told_even_if_nothing_is_to_be_read() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE ROLE stranger; SET ROLE stranger").expect("a role");
    for after in ["0", "9223372036854775806", "9223372036854775807"] {
        let refused = error(&mut client, &format!("SELECT snowflake_poll(NULL::orders, {after}, wait => '1 min')"));
        assert_eq!(refused.code().code(), "42501", "{after}");
    }
}

#[test]
fn a_poll_waits_a_second_at_most_on_a_standby_for_what_it_replays() {
    let (primary, mut client) = server();
    let standby = Cluster::builder().worker(8).set("max_prepared_transactions", 10);
    let standby = standby.set("snowflake_pg.track_writers", "off").standby_of(&primary);
    let last = insert(&mut client);
    super::standby::wait_for(&standby, last);
    thread::scope(|scope| {
        let (_, rows) = wait(scope, &standby, last);
        // Its snapshot could hold back replay.
        assert_eq!(rows.join().expect("no row"), [""; 0]);
    });
    insert(&mut client);
    let poll = format!("SELECT note FROM snowflake_poll(NULL::orders, {last}, wait => '1 min')");
    let mut reader = standby.connect();
    while reader.query(&poll, &[]).expect("rows").is_empty() {}
}

/// The tag is above the sequence, so the row is above the horizon until its tick has passed.
#[test]
fn a_poll_that_waits_returns_a_row_whatever_its_tag_is() {
    let layout = "t41 w5 h8 s9";
    let cluster = Cluster::builder().worker(7).set("snowflake_pg.layout", layout).start();
    let mut client = cluster.connect();
    client
        .batch_execute("CREATE EXTENSION snowflake_pg; CREATE TABLE orders (id bigint PRIMARY KEY, note text)")
        .expect("a table");
    value(&mut client, "SELECT snowflake_nextval()");
    thread::scope(|scope| {
        let (_, rows) = wait(scope, &cluster, 0);
        client.batch_execute("INSERT INTO orders VALUES (snowflake_nextval_tagged(255), 'last')").expect("a row");
        assert_eq!(rows.join().expect("rows"), ["last"]);
    });
}

#[test]
fn a_standby_that_has_waited_for_a_position_of_the_primary_has_all_rows_below_the_horizon_before_it() {
    need_postgresql(19);
    let (primary, mut client) = server();
    let standby = Cluster::builder().worker(8).set("max_prepared_transactions", 10).standby_of(&primary);
    let mut reader = standby.connect();
    for _ in 0..20 {
        insert(&mut client);
        let horizon = super::horizon(&mut client).expect("a horizon");
        let position = value(&mut client, "SELECT pg_current_wal_insert_lsn()");
        assert_eq!(value(&mut reader, &format!("WAIT FOR LSN '{position}'")), "success");
        let below = format!("SELECT count(*) FROM orders WHERE id < {horizon}");
        assert_eq!(value(&mut reader, &below), value(&mut client, &below));
    }
}
