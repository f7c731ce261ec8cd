//! Processes that end without warning.

use crate::suite::{Evidence, Fault};
use snowflake_core::layout::Layout;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, Load};

pub const FAULTS: &[Fault] =
    &[Fault { row: 1, promise: "ids_stay_unique_when_backends_are_killed", short: 10, full: 50, run: backends_killed }];

/// How far the durable mark runs ahead, and so how far a server may be ahead of its clock after a crash.
const RESERVE_AHEAD_MS: i64 = 2000;

fn backends_killed(rounds: usize) -> Evidence {
    let cluster = Cluster::builder().worker(1).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let load = Load::start(&cluster, 4, "SELECT snowflake_nextval() FROM generate_series(1, 500)");
    for _ in 0..rounds {
        sleep(Duration::from_millis(100));
        cluster.kill_backend();
    }
    sleep(Duration::from_millis(100));
    let report = load.finish();
    report.assert_unique_and_ordered();
    assert!(report.errors().is_empty(), "{:?}", report.errors());
    assert!(report.outages() > 0, "the crashes were noticed");
    let layout: Layout = "twitter".parse().expect("a preset");
    let lead = report.largest_lead_ms(&layout, 0);
    assert!(lead <= RESERVE_AHEAD_MS, "{lead} ms ahead");
    Evidence::new(rounds, &report).crashes(rounds).lead_ms(lead)
}
