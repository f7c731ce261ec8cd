//! No ID comes twice, whatever happens to the server, its clock or its clients.

use super::{install, server};
use std::thread;
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, Signal, Witness, error, test, value};

#[test]
fn two_hundred_sessions_wait_for_each_other_and_none_is_refused() {
    let cluster = Cluster::builder().set("max_connections", 230).start();
    install(&mut cluster.connect(), 7);
    let load = Load::start(&cluster, 200, "SELECT snowflake_nextval()");
    load.wait_for_some(20_000);
    let report = load.finish();
    assert_eq!((report.duplicates(), report.inversions(), report.errors().len()), (0, 0, 0), "{:?}", report.errors());
}

/// As if the extension had a durable mark: positions that are committed are in WAL.
#[test]
fn a_clock_that_is_set_back_over_a_restart_is_noticed_and_ids_go_on_when_it_has_caught_up() {
    let mut cluster = server(7);
    let mut witness = Witness::of(&cluster);
    let before = witness.next_id().expect("an ID");
    cluster.stop(Signal::QUIT);
    cluster.set_clock(-60.0);
    cluster.start();
    witness.connect(&cluster);
    let refused = witness.refusal();
    assert_eq!(refused.code().code(), "53400", "{refused:?}");
    assert_eq!(refused.message(), "the server's clock is too far behind the last ID issued");
    assert_eq!(value(witness.session(), "SELECT state FROM snowflake_status"), "behind");
    cluster.set_clock(0.0);
    assert!(witness.next_id().expect("an ID") > before);
}

#[test]
fn a_call_that_is_cancelled_leaves_no_lock_behind() {
    let cluster = server(7);
    let load = Load::start(&cluster, 6, "SELECT snowflake_nextval() FROM generate_series(1, 300)");
    let mut client = cluster.connect();
    let until = Instant::now() + Duration::from_secs(3);
    let mut cancelled = 0;
    while Instant::now() < until {
        let query = "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND state = 'active' AND backend_type = 'client backend'";
        cancelled += value(&mut client, query).parse::<u32>().expect("a number");
    }
    assert!(cancelled > 100, "{cancelled}");
    load.wait_for_some(1000);
    let report = load.finish();
    assert_eq!((report.duplicates(), report.inversions()), (0, 0));
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
}

/// Anybody can take an advisory lock, also of this name.
#[test]
fn a_session_that_keeps_the_lock_is_named_after_ten_seconds() {
    let cluster = server(7);
    let [mut holder, mut client] = [cluster.connect(), cluster.connect()];
    let pid = value(&mut holder, "SELECT pg_backend_pid() FROM pg_advisory_lock(1936617329, 1)");
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "55P03");
    assert_eq!(refused.detail(), Some(&*format!("It is the session with the process ID {pid}.")), "{refused:?}");
    // The holder itself is not held up, and no call gives its lock away.
    for _ in 0..2 {
        value(&mut holder, "SELECT snowflake_nextval()");
    }
    assert_eq!(value(&mut holder, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "1");
    drop(holder);
    value(&mut client, "SELECT snowflake_nextval()");
}

#[test]
fn crash_after_crash_does_not_drive_ids_away_from_the_clock() {
    let cluster = server(7);
    for _ in 0..8 {
        value(&mut cluster.connect(), "SELECT snowflake_nextval()");
        cluster.kill_backend();
    }
    let lead = "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())";
    let lead: f64 = value(&mut cluster.connect(), lead).parse().expect("seconds");
    assert!(lead <= 2.0, "{lead}");
}

#[test]
fn ids_of_the_first_seconds_after_a_start_are_at_most_two_seconds_ahead_and_then_of_their_time() {
    let cluster = server(7);
    let mut client = cluster.connect();
    let lead = "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())";
    let first: f64 = value(&mut client, lead).parse().expect("seconds");
    // Above what a crash or a failover could have lost.
    assert!(first > 1.0 && first <= 2.0, "{first}");
    let deadline = Instant::now() + Duration::from_secs(30);
    while value(&mut client, lead).parse::<f64>().expect("seconds") > 0.0 {
        assert!(Instant::now() < deadline, "still ahead");
        thread::sleep(Duration::from_millis(50));
    }
}
