//! Readers that follow a table by ID miss no row, in whatever order and way the transactions of the writers end.

use super::suite::{Evidence, Fault};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, Reader, Signal, Traffic};

pub const FAULTS: &[Fault] = &[Fault {
    row: 47,
    promise: "readers_below_the_horizon_miss_no_row_and_repeat_none_and_others_do_miss_some",
    short: 1,
    full: 10,
    run: killed_between_readers,
}];

fn killed_between_readers(rounds: usize) -> Evidence {
    let mut cluster =
        Cluster::builder().worker(7).set("max_prepared_transactions", 100).set("max_connections", 100).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let traffic = Traffic::start(&cluster, 16);
    for _ in 0..rounds {
        sleep(Duration::from_secs(3));
        // All processes at once, without a word to anybody.
        cluster.stop(Signal::KILL);
        cluster.start();
    }
    sleep(Duration::from_secs(3));
    let (written, seen) = traffic.finish();
    assert!(written > 100, "{written} rows");
    for seen in seen {
        println!("{written} rows: {seen:?}");
        let counts = (seen.read, seen.missed, seen.repeated, seen.out_of_order, seen.vanished);
        if seen.reader == Reader::Naive {
            assert!(seen.missed > 0, "the traffic would not show a mistake: {seen:?}");
        } else {
            assert_eq!(counts, (written, 0, 0, 0, 0), "{:?}", seen.reader);
        }
    }
    Evidence { rounds, crashes: rounds, ids: written, ..Evidence::default() }
}
