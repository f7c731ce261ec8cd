//! The lock of a call: no call keeps it, and nobody else can take it.

use super::{LOCKED, install, server};
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Load, error, test, value};

/// The state of the session with this process ID, seen by one that needs no catalog for it.
fn is_waiting(monitor: &mut Client, pid: &str) -> bool {
    value(monitor, &format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {pid}")) == "1"
}

/// How a call ends that waits.
#[derive(Clone, Copy)]
enum End {
    StatementTimeout,
    LockTimeout,
    Cancel,
}

/// As `VACUUM FULL` locks catalogs, behind a transaction such as pg_dump's.
#[test]
fn no_call_keeps_the_lock_or_holds_up_others_that_ends_while_a_catalog_is_locked() {
    let cluster = server(7);
    let mut monitor = cluster.connect();
    let mut others = cluster.connect();
    value(&mut others, "SELECT snowflake_nextval()");
    let catalogs =
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'pg_catalog'::regnamespace ORDER BY 1";
    let catalogs: Vec<String> = monitor.query(catalogs, &[]).expect("catalogs").iter().map(|row| row.get(0)).collect();
    value(&mut monitor, LOCKED);
    let ends = [End::StatementTimeout, End::LockTimeout, End::Cancel];
    let mut waited = Vec::new();
    let mut left: VecDeque<_> =
        catalogs.iter().zip(ends.into_iter().cycle()).map(|(name, end)| (name, end, 300)).collect();
    while let Some((catalog, end, timeout)) = left.pop_front() {
        let mut session = cluster.connect();
        let pid = value(&mut session, "SELECT pg_backend_pid()");
        let setting = match end {
            End::StatementTimeout => format!("SET statement_timeout = {timeout}"),
            End::LockTimeout => format!("SET lock_timeout = {timeout}"),
            End::Cancel => "SET statement_timeout = '60s'".into(),
        };
        session.batch_execute(&setting).expect("a setting");
        let cancel = session.cancel_token();
        monitor
            .batch_execute(&format!("BEGIN; LOCK TABLE pg_catalog.{catalog} IN ACCESS EXCLUSIVE MODE"))
            .expect("a lock");
        let call = thread::spawn(move || {
            let ended = session.simple_query("SELECT snowflake_nextval()").err();
            (session, ended.map(|error| error.as_db_error().expect("an error").code().code().to_owned()))
        });
        while !call.is_finished() && !is_waiting(&mut monitor, &pid) {
            thread::sleep(Duration::from_millis(1));
        }
        let waits = !call.is_finished();
        // Others are not held up meanwhile.
        others.batch_execute("SET statement_timeout = '20s'").expect("a setting");
        value(&mut others, "SELECT snowflake_nextval()");
        if matches!(end, End::Cancel) {
            while !call.is_finished() {
                cancel.cancel_query(NoTls).expect("a cancel request");
                thread::sleep(Duration::from_millis(10));
            }
        }
        let (session, ended) = call.join().expect("a call");
        assert_eq!(value(&mut monitor, LOCKED), "0", "{catalog}, {ended:?}");
        value(&mut others, "SELECT snowflake_nextval()");
        monitor.batch_execute("ROLLBACK").expect("no lock");
        if waits {
            waited.push((catalog, ended));
        } else if ended.is_some() {
            // A busy machine: the time was over before the call came to the lock.
            left.push_front((catalog, end, 2 * timeout));
        }
        drop(session);
    }
    let of = |name: &str| waited.iter().any(|(catalog, ended)| *catalog == name && ended.is_some());
    assert!(of("pg_sequence") && of("pg_proc") && waited.len() > 5, "{waited:?}");
}

#[test]
fn a_call_that_is_cancelled_leaves_no_lock_behind() {
    let cluster = server(7);
    let load = Load::start(&cluster, 6, "SELECT snowflake_nextval() FROM generate_series(1, 300)");
    let mut client = cluster.connect();
    let until = Instant::now() + Duration::from_secs(3);
    let mut cancelled = 0;
    while Instant::now() < until || cancelled < 100 {
        let query = "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND state = 'active' AND backend_type = 'client backend'";
        cancelled += value(&mut client, query).parse::<u32>().expect("a number");
    }
    load.wait_for_some(1000);
    let report = load.finish();
    assert_eq!((report.duplicates(), report.inversions()), (0, 0));
    assert_eq!(value(&mut client, LOCKED), "0");
}

/// Anybody can take an advisory lock, and keep it over restarts by a prepared transaction.
#[test]
fn a_role_without_rights_cannot_hold_up_ids_by_a_lock_that_it_may_take() {
    let cluster = Cluster::builder().set("max_prepared_transactions", 5).start();
    let mut client = cluster.connect();
    install(&mut client, 7);
    client.batch_execute("SET lock_timeout = '20s'").expect("a setting");
    let mut stranger = cluster.connect();
    stranger.batch_execute("CREATE ROLE stranger; SET ROLE stranger").expect("a role");
    for relation in ["snowflake_lock", "snowflake_database"] {
        for mode in ["ACCESS SHARE", "SHARE UPDATE EXCLUSIVE", "ACCESS EXCLUSIVE"] {
            let refused = error(&mut stranger, &format!("BEGIN; LOCK TABLE {relation} IN {mode} MODE"));
            assert_eq!(refused.code().code(), "42501", "{relation}, {mode}");
            stranger.batch_execute("ROLLBACK").expect("the end");
        }
    }
    // All advisory locks there could be, as far as a function names one.
    let uses = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'snowflake%' AND prosrc ~ 'advisory'";
    assert_eq!(value(&mut client, uses), "0");
    // To read is allowed to many, and holds up nobody.
    client.batch_execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO stranger").expect("a privilege");
    stranger
        .batch_execute("BEGIN; SELECT snowflake_nextval(); TABLE snowflake_lock; TABLE snowflake_database; PREPARE TRANSACTION 'of a stranger'")
        .expect("a transaction");
    value(&mut client, "SELECT snowflake_nextval()");
    // Nor what a view of the stranger's locks.
    stranger.batch_execute("BEGIN; CREATE TEMP VIEW mine AS SELECT FROM snowflake_lock FOR UPDATE").expect("a view");
    client.batch_execute("SELECT snowflake_set_worker_id(8)").expect("a worker");
    value(&mut client, "SELECT snowflake_nextval()");
}

/// The owner's transaction, which changes what is configured.
#[test]
fn who_holds_ids_up_is_seen_as_for_every_lock_and_waiting_ends_by_every_timeout() {
    let cluster = server(7);
    let [mut owner, mut client, mut monitor] = [cluster.connect(), cluster.connect(), cluster.connect()];
    let pid = value(&mut client, "SELECT pg_backend_pid() FROM snowflake_nextval()");
    let holder = value(&mut owner, "SELECT pg_backend_pid()");
    owner.batch_execute("BEGIN; SELECT snowflake_set_worker_id(8)").expect("a worker");
    for (setting, code) in [("statement_timeout", "57014"), ("lock_timeout", "55P03")] {
        client.batch_execute(&format!("SET {setting} = '200ms'")).expect("a setting");
        assert_eq!(error(&mut client, "SELECT snowflake_nextval()").code().code(), code);
        client.batch_execute(&format!("RESET {setting}")).expect("a setting");
    }
    let call = thread::spawn(move || value(&mut client, "SELECT worker_id FROM snowflake_decode(snowflake_nextval())"));
    let blockers = format!("SELECT pg_blocking_pids({pid})::text");
    while value(&mut monitor, &blockers) != format!("{{{holder}}}") {
        thread::sleep(Duration::from_millis(1));
    }
    owner.batch_execute("COMMIT").expect("the worker");
    assert_eq!(call.join().expect("an ID"), "8");
}
