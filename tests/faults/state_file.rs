//! The state file: writes that are cut off.

use super::fixture::{assert_kept, server};
use super::nodes::{assert_above, some_ids_without_errors};
use super::suite::{Evidence, Fault};
use snowflake_core::mark::state_file::SLOT;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, Order, PATIENCE, Report};

pub const FAULTS: &[Fault] = &[Fault {
    row: 42,
    promise: "a_write_of_the_mark_that_is_cut_off_at_any_byte_leaves_the_one_before",
    short: 8,
    full: 2 * (SLOT + 1),
    run: cut_off,
}];

/// The process that writes dies in the middle of it, and all others with it. Each cut is tried twice, as
/// there are two slots.
fn cut_off(rounds: usize) -> Evidence {
    let builder = Cluster::builder().worker(1).faulty_disk().set("restart_after_crash", "on");
    let cluster = server(builder.set("snowflake_pg.reserve_ahead", "100ms"));
    let mut all = Report::default();
    for round in 0..rounds {
        let before = some_ids_without_errors(&cluster);
        let starts = || cluster.log().matches("ready to accept connections").count();
        let started = starts();
        cluster.disk().obey(Order::CutOff((round / 2) * SLOT / (rounds / 2).max(1)));
        let load = Load::start(&cluster, 2, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
        let deadline = Instant::now() + PATIENCE;
        while starts() == started {
            assert!(Instant::now() < deadline, "nobody has written:\n{}", cluster.log());
            sleep(Duration::from_millis(5));
        }
        assert_eq!(cluster.disk().order(), Order::Work, "the write was cut off");
        let meanwhile = load.finish();
        let after = some_ids_without_errors(&cluster);
        assert_above(&after, &before);
        [before, meanwhile, after].into_iter().for_each(|report| all.merge(report));
        cluster.keep_trace();
    }
    assert!(!cluster.log().contains("is damaged"), "{}", cluster.log());
    assert_kept(rounds, &all, 0).crashes(rounds)
}
