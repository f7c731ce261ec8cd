//! Readers that follow a table by ID miss no row, in whatever order and way the transactions of the writers end.

use super::suite::{Evidence, Fault};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Builder, Cluster, Reader, Signal, Traffic};

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
        full: 6,
        run: promoted_between_readers,
    },
];

fn server(worker: u64) -> Builder {
    Cluster::builder().worker(worker).set("max_prepared_transactions", 100).set("max_connections", 100)
}

fn killed_between_readers(rounds: usize) -> Evidence {
    let mut cluster = server(7).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let traffic = Traffic::start(&cluster, 16);
    for _ in 0..rounds {
        sleep(Duration::from_secs(3));
        // All processes at once, without a word to anybody.
        cluster.stop(Signal::KILL);
        cluster.start();
    }
    sleep(Duration::from_secs(3));
    judge(traffic, Evidence { rounds, crashes: rounds, ..Evidence::default() })
}

/// Three servers with workers of their own, and a standby of a standby. In each round, the primary crashes, then it
/// stops, the second takes its place, and the old primary comes back as the last of the row.
fn promoted_between_readers(rounds: usize) -> Evidence {
    let primary = server(7).set("wal_keep_size", "256MB").start();
    primary.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let mut traffic = Traffic::start(&primary, 16);
    let second = server(8).standby_of(&primary);
    let third = server(9).standby_of(&primary);
    let cascade = server(10).standby_of(&second);
    let standbys = [(&second, "a standby"), (&third, "another standby"), (&cascade, "a standby of a standby")];
    standbys.iter().for_each(|(standby, name)| traffic.read_from(standby, name));
    let mut row = [primary, second, third, cascade];
    for _ in 0..rounds {
        sleep(Duration::from_secs(2));
        row[0].stop(Signal::KILL);
        row[0].start();
        // A replay that is paused ends nowhere in particular.
        row[2].connect().batch_execute("SELECT pg_wal_replay_pause()").expect("a pause");
        sleep(Duration::from_secs(2));
        row[2].connect().batch_execute("SELECT pg_wal_replay_resume()").expect("its end");
        // Standbys receive all of it: a reader may have seen its last rows.
        row[0].stop(Signal::INT);
        row[1].promote();
        traffic.move_to(&row[1]);
        let [old, new, other, _] = &mut row;
        for standby in [other, old] {
            standby.stop(Signal::INT);
            standby.follow(new);
        }
        row.rotate_left(1);
    }
    sleep(Duration::from_secs(2));
    judge(traffic, Evidence { rounds, crashes: rounds, ..Evidence::default() })
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
            assert_eq!(counts, (written, 0, 0, 0, 0), "{:?} of {}", seen.reader, seen.at);
        }
    }
    Evidence { ids: written, ..evidence }
}
