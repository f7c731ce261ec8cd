//! The keeper writes the durable mark as seldom as it can, and whatever the settings of sessions are.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, Signal, issued_at, value};

const RESERVE_AHEAD: Duration = Duration::from_millis(400);

fn server() -> Cluster {
    let reserve_ahead = format!("{}ms", RESERVE_AHEAD.as_millis());
    let cluster = Cluster::builder().worker(1).set("snowflake_pg.reserve_ahead", reserve_ahead).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    value(&mut cluster.connect(), "SELECT snowflake_nextval()");
    cluster
}

/// How often the mark is written in this time. Each time it is another file.
fn writes(cluster: &Cluster, time: Duration) -> u32 {
    let file = || fs::metadata(cluster.mark_file()).map(|found| (found.ino(), found.mtime_nsec())).ok();
    let (began, mut last, mut writes) = (Instant::now(), file(), 0);
    while began.elapsed() < time {
        let now = file();
        if now != last {
            (last, writes) = (now, writes + 1);
        }
        sleep(Duration::from_millis(1));
    }
    writes
}

#[test]
fn a_server_that_nobody_asks_for_ids_writes_nothing() {
    let cluster = server();
    // The keeper has to notice first.
    sleep(Duration::from_secs(2));
    assert_eq!(writes(&cluster, Duration::from_secs(5)), 0);
}

#[test]
fn a_server_under_load_writes_once_in_half_a_reservation() {
    let cluster = server();
    let load = Load::start(&cluster, 2, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
    sleep(Duration::from_millis(500));
    let began = Instant::now();
    let writes = writes(&cluster, Duration::from_secs(4));
    let halves = began.elapsed().as_millis() / (RESERVE_AHEAD.as_millis() / 2);
    load.finish().assert_unique_and_ordered();
    assert!((2..=halves + 1).contains(&u128::from(writes)), "{writes} writes in {halves} halves of a reservation");
}

/// The keeper's transaction has to write, and no session that draws IDs has one that may.
#[test]
fn a_server_that_is_read_only_by_default_issues_ids_and_takes_its_mark_through_the_log() {
    let mut cluster = Cluster::builder()
        .worker(1)
        .set("snowflake_pg.wal_mark", "require")
        .set("snowflake_pg.reserve_ahead", format!("{}ms", RESERVE_AHEAD.as_millis()))
        .start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster.configure("default_transaction_read_only", "on");
    cluster.reload();
    for restarts in 0..2 {
        let mut client = cluster.connect();
        assert_eq!(value(&mut client, "SHOW transaction_read_only"), "on");
        for _ in 0..3 {
            let id = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
            let logged = value(&mut client, "SELECT last_value FROM snowflake_wal_mark").parse().expect("a mark");
            assert!(issued_at(id) < logged, "{id} is above the mark {logged} in the log, after {restarts} restarts");
            // Past this mark: the next ID needs another one.
            sleep(2 * RESERVE_AHEAD);
        }
        drop(client);
        cluster.restart(Signal::INT);
    }
}
