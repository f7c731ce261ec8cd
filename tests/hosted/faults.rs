//! No ID comes twice, whatever happens to the server, its clock or its clients.

use super::{install, server};
use std::thread;
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Cluster, Load, Signal, Witness, error, test, value};

/// Clients of each kind.
fn loads(cluster: &Cluster) -> Vec<Load> {
    [
        "SELECT snowflake_nextval() FROM generate_series(1, 20)",
        "SELECT snowflake_nextvals(3000)",
        "SELECT generate_series(first, last) FROM snowflake_nextblock(77)",
    ]
    .map(|query| Load::start(cluster, 4, query))
    .into()
}

/// How many IDs all of them have received. None came twice, and each client's ascend.
fn judge(loads: Vec<Load>) -> usize {
    let mut all = testbed::Report::default();
    for load in loads {
        all.merge(load.finish());
    }
    assert_eq!((all.duplicates(), all.inversions()), (0, 0), "twice, and out of order");
    for error in all.errors().keys() {
        assert!(error.starts_with("53400 the server's clock is too far behind"), "{:?}", all.errors());
    }
    all.ids()
}

#[test]
fn crashes_restarts_and_clocks_that_are_set_repeat_no_id() {
    let mut cluster = server(7);
    let running = loads(&cluster);
    for offset in [0.0, 3.0, -8.0, -1.0, 0.5, 0.0] {
        running[0].wait_for_some(100);
        cluster.set_clock(offset);
        cluster.kill_backend();
        running[1].wait_for_some(100);
        cluster.restart(Signal::QUIT);
    }
    cluster.restart(Signal::KILL);
    running[2].wait_for_some(100);
    let ids = judge(running);
    assert!(ids > 50_000, "{ids}");
}

#[test]
fn two_hundred_sessions_wait_for_each_other_and_none_is_refused() {
    let cluster = Cluster::builder().set("max_connections", 230).start();
    install(&mut cluster.connect(), 7);
    let load = Load::start(&cluster, 200, "SELECT snowflake_nextval()");
    load.wait_for_some(20_000);
    let report = load.finish();
    assert_eq!((report.duplicates(), report.inversions(), report.errors().len()), (0, 0, 0), "{:?}", report.errors());
}

/// IDs of all sessions ascend in the order in which they were taken, and a rollback takes none back.
#[test]
fn ids_ascend_over_sessions_rollbacks_and_prepared_transactions() {
    let cluster = Cluster::builder().set("max_prepared_transactions", 5).start();
    let mut sessions = [cluster.connect(), cluster.connect()];
    install(&mut sessions[0], 7);
    let mut last = 0;
    for round in 0..20 {
        for (nth, client) in sessions.iter_mut().enumerate() {
            let end = match round % 4 {
                0 => "ROLLBACK".to_owned(),
                1 => format!("PREPARE TRANSACTION 'of {nth} in {round}'"),
                2 => "ROLLBACK TO s; COMMIT".to_owned(),
                _ => "COMMIT; DISCARD ALL".to_owned(),
            };
            client.batch_execute("BEGIN; CREATE TABLE IF NOT EXISTS t (); SAVEPOINT s").expect("a transaction");
            for query in ["SELECT snowflake_nextval()", "SELECT max(id) FROM snowflake_nextvals(5000) id"] {
                let id: i64 = value(client, query).parse().expect("an ID");
                assert!(id > last, "{id} after {last}");
                last = id;
            }
            for command in end.split("; ") {
                client.batch_execute(command).expect("the end of a transaction");
            }
            let prepared = format!("ROLLBACK PREPARED 'of {nth} in {round}'");
            if round % 4 == 1 {
                client.batch_execute(&prepared).expect("the end of a transaction");
            }
        }
    }
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
fn sessions_that_have_issued_ids_go_on_with_the_new_worker() {
    let cluster = server(7);
    let [mut owner, mut client] = [cluster.connect(), cluster.connect()];
    let worker = "SELECT worker_id FROM snowflake_decode(snowflake_nextval())";
    // The first five calls are planned one by one.
    assert_eq!(value(&mut client, "SELECT count(snowflake_nextval()) FROM generate_series(1, 100)"), "100");
    assert_eq!(value(&mut client, worker), "7");
    for new in ["8", "1023", "0"] {
        owner.execute(&format!("SELECT snowflake_set_worker_id({new})"), &[]).expect("a worker");
        assert_eq!(value(&mut client, worker), new);
    }
}

#[test]
fn a_layout_that_cannot_issue_now_is_refused_and_another_one_is_taken_before_the_first_id() {
    let cluster = server(7);
    let mut client = cluster.connect();
    for (layout, code) in [
        ("flat epoch=2090-01-01T00:00:00Z", "22008"),
        ("t32 s31 epoch=1970-01-01T00:00:00Z", "22008"),
        ("t20 w10 s12 unit=1s epoch=2020-01-01T00:00:00Z", "22008"),
        ("t41 w10 s13", "22023"),
        ("t41 w2 s20", "22003"),
        ("tsid", "22023"),
    ] {
        assert_eq!(
            error(&mut client, &format!("SELECT snowflake_set_layout('{layout}')")).code().code(),
            code,
            "{layout}"
        );
    }
    client.batch_execute("SELECT snowflake_set_layout('game')").expect("a layout");
    let late = "SELECT abs(extract(epoch FROM clock_timestamp() - snowflake_timestamp(snowflake_nextval()))) < 6";
    assert_eq!(value(&mut client, late), "t");
    assert_eq!(refusal(&mut client, "SELECT snowflake_set_layout('flat')").0, "55000");
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
    assert!(lead < 4.5, "{lead}");
}

fn refusal(client: &mut Client, query: &str) -> (String, String) {
    let refused = error(client, query);
    (refused.code().code().to_owned(), refused.message().to_owned())
}

#[test]
fn a_standby_and_a_transaction_that_only_reads_are_refused_and_decode() {
    let mut primary = server(7);
    let mut client = primary.connect();
    let id: i64 = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
    client.batch_execute("SET default_transaction_read_only = on").expect("a setting");
    // In the middle of the expression that holds the lock.
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    for _ in 0..2 {
        assert_eq!(refusal(&mut client, "SELECT snowflake_nextval()").0, "25006");
        assert_eq!(value(&mut client, held), "0");
    }
    let standby = Cluster::builder().standby_of(&primary);
    standby.wait_for_commits_of(&primary);
    let mut reader = standby.connect();
    assert_eq!(refusal(&mut reader, "SELECT snowflake_nextval()").0, "25006");
    assert_eq!(value(&mut reader, &format!("SELECT worker_id FROM snowflake_decode({id})")), "7");
    // The promoted standby goes on above all that was committed.
    primary.stop(Signal::QUIT);
    reader.batch_execute("SELECT pg_promote()").expect("a promotion");
    let next: i64 = value(&mut standby.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
    assert!(next > id, "{next} after {id}");
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
