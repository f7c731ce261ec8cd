//! Readers that follow a table by ID miss no row, in whatever order and way the transactions of the writers end.

use super::suite::{Evidence, Fault};
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::runner::in_full;
use testbed::{Builder, Cluster, PATIENCE, Reader, Signal, Traffic, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 47,
        promise: "readers_below_the_horizon_miss_no_row_and_repeat_none_and_others_do_miss_some",
        short: 1,
        full: 10,
        run: killed_between_readers,
    },
    Fault {
        row: 47,
        promise: "readers_of_standbys_miss_no_row_and_repeat_none_across_failovers",
        short: 1,
        full: 12,
        run: promoted_between_readers,
    },
    Fault {
        row: 47,
        promise: "readers_of_a_server_restored_to_a_point_in_time_miss_no_row_below_its_horizon",
        short: 1,
        full: 6,
        run: restored_between_readers,
    },
];

fn writers() -> usize {
    if in_full() { 64 } else { 16 }
}

fn server(worker: u64) -> Builder {
    Cluster::builder().worker(worker).set("max_prepared_transactions", 200).set("max_connections", 120)
}

fn create_extension(server: &Cluster) {
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
}

fn killed_between_readers(rounds: usize) -> Evidence {
    let mut cluster = server(7).start();
    create_extension(&cluster);
    let traffic = Traffic::start(&cluster, writers());
    for _ in 0..rounds {
        sleep(Duration::from_secs(3));
        // All processes at once, without a word to anybody.
        cluster.stop(Signal::KILL);
        cluster.start();
    }
    sleep(Duration::from_secs(3));
    judge(traffic, Evidence { rounds, crashes: rounds, ..Evidence::default() })
}

/// Three servers and a standby of a standby. In each round, the primary crashes and comes back. Then it crashes again
/// or stops, and the second takes its place, with the same worker or another one. After a crash, the others have more
/// WAL than the second, which also crashes, and are rewound. The old primary becomes the last of the row.
fn promoted_between_readers(rounds: usize) -> Evidence {
    // Of two servers with one worker, only one is ever a primary.
    let of = [("a", 7, "b"), ("b", 7, "c"), ("c", 8, "d"), ("d", 8, "a")].map(|(name, worker, next)| {
        let server = server(worker).set("wal_keep_size", "256MB").set("wal_log_hints", "on");
        // A commit waits for the server that takes over next: readers of the others are to see no row that is lost.
        server.set("cluster_name", name).set("synchronous_standby_names", next)
    });
    let [a, b, c, d] = of;
    let primary = a.start();
    // As long as there is no standby, nothing may wait for it.
    primary
        .connect()
        .batch_execute("SET synchronous_commit = local; CREATE EXTENSION snowflake_pg")
        .expect("the extension");
    let second = b.standby_of(&primary);
    let mut traffic = Traffic::start(&primary, writers());
    let third = c.standby_of(&primary);
    let cascade = d.standby_of(&second);
    let standbys = [(&second, "a standby"), (&third, "another standby"), (&cascade, "a standby of a standby")];
    standbys.iter().for_each(|(standby, name)| traffic.read_from(standby, name));
    let mut row = [primary, second, third, cascade];
    let mut crashes = 0;
    for round in 0..rounds {
        sleep(Duration::from_secs(2));
        row[0].stop(Signal::KILL);
        row[0].start();
        crashes += 1;
        // A replay that is paused ends nowhere in particular.
        row[2].connect().batch_execute("SELECT pg_wal_replay_pause()").expect("a pause");
        sleep(Duration::from_secs(2));
        row[2].connect().batch_execute("SELECT pg_wal_replay_resume()").expect("its end");
        // After a crash, a server shows commits that no standby has acknowledged.
        row[1].wait_for_commits_of(&row[0]);
        // Each of the four combinations with the same worker and another one.
        let is_crash = matches!(round % 4, 0 | 3);
        if is_crash {
            let [primary, behind, ahead, _] = &mut row;
            lose(primary, behind, ahead);
            crashes += 2;
        } else {
            row[0].stop(Signal::INT);
        }
        row[1].promote();
        traffic.move_to(&row[1]);
        let [old, new, other, _] = &mut row;
        other.stop(Signal::INT);
        if is_crash {
            assert_eq!([&*other, &*old].map(|server| server.rewind_if_ahead(new)), [true; 2]);
        }
        other.follow(new);
        old.follow(other);
        row.rotate_left(1);
    }
    sleep(Duration::from_secs(2));
    judge(traffic, Evidence { rounds, crashes, ..Evidence::default() })
}

/// Kills a primary when one of its standbys has replayed more than the other has received. That one crashes, too: a
/// process that receives WAL and is told to end may first take what waits for it.
fn lose(primary: &mut Cluster, behind: &Cluster, ahead: &Cluster) {
    let mut client = behind.connect();
    let receiver = value(&mut client, "SELECT pid FROM pg_stat_wal_receiver").parse().expect("a process ID");
    testbed::send(receiver, Signal::STOP);
    let sent = value(&mut primary.connect(), "SELECT pg_current_wal_insert_lsn()");
    // Writers may all wait.
    primary.connect().batch_execute("CHECKPOINT").expect("more in WAL");
    ahead.wait_until(&format!("SELECT pg_last_wal_replay_lsn() > '{sent}'::pg_lsn"));
    primary.stop(Signal::KILL);
    testbed::send(receiver, Signal::KILL);
    while client.batch_execute("").is_ok() {}
    let deadline = Instant::now() + PATIENCE;
    while behind.try_connect().is_err() {
        assert!(Instant::now() < deadline, "the standby does not come back:\n{}", behind.log());
        sleep(Duration::from_millis(20));
    }
}

/// In each round, a base backup of the primary recovers to a moment before the primary's crash, and pauses there. Then
/// it is promoted, with a worker of its own.
fn restored_between_readers(rounds: usize) -> Evidence {
    let mut primary = server(7).create();
    primary.archive();
    primary.start();
    create_extension(&primary);
    let mut traffic = Traffic::start(&primary, writers());
    for _ in 0..rounds {
        sleep(Duration::from_secs(1));
        let mut backup = server(8).backup_of(&primary);
        sleep(Duration::from_secs(2));
        let moment = value(&mut primary.connect(), "SELECT clock_timestamp()");
        sleep(Duration::from_secs(1));
        primary.stop(Signal::KILL);
        primary.start();
        primary.wait_for_archive();
        backup.recover_and_pause(&primary, &moment);
        let read = traffic.read_copy(&backup, "a server restored to a point in time");
        go_on(&backup, read);
    }
    judge(traffic, Evidence { rounds, crashes: rounds, ..Evidence::default() })
}

/// Promotes a restored server, and lets a reader go on there: it gets each row once that is not below what it has read.
fn go_on(restored: &Cluster, read: i64) {
    let mut client = restored.connect();
    client.batch_execute("SELECT pg_wal_replay_resume()").expect("the end of recovery");
    restored.wait_until("SELECT NOT pg_is_in_recovery()");
    client.batch_execute("INSERT INTO written (note) VALUES ('after the restore')").expect("a row");
    for gid in client.query("SELECT gid FROM pg_prepared_xacts", &[]).expect("prepared transactions") {
        client.batch_execute(&format!("COMMIT PREPARED '{}'", gid.get::<_, &str>(0))).expect("its end");
    }
    let mut ids = |query: &str| -> Vec<i64> {
        client.query(query, &[&(read - 1)]).expect("rows").iter().map(|row| row.get(0)).collect()
    };
    let polled = ids("SELECT id FROM snowflake_poll(NULL::written, $1, 1000000)");
    let rows: BTreeSet<_> = ids("SELECT id FROM written WHERE id > $1").into_iter().collect();
    println!("{} rows at or above the horizon of the restored server, which are read after its promotion", rows.len());
    assert_eq!(polled, rows.into_iter().collect::<Vec<_>>());
}

fn judge(traffic: Traffic, evidence: Evidence) -> Evidence {
    let (written, seen) = traffic.finish();
    assert!(written > 100, "{written} rows");
    for seen in seen {
        println!("{written} rows: {seen:?}");
        let counts = (seen.read, seen.missed, seen.repeated, seen.out_of_order, seen.vanished);
        if seen.reader == Reader::Naive {
            assert!(seen.missed > 0, "the traffic would not show a mistake: {seen:?}");
        } else {
            assert_eq!(counts, (seen.due, 0, 0, 0, 0), "{:?} of {}", seen.reader, seen.at);
            assert!(seen.due > 100, "{seen:?}");
        }
    }
    Evidence { ids: written, ..evidence }
}
