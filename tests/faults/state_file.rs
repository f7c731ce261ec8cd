//! The state file: writes that are cut off, and files of the version before.

use super::fixture::{assert_kept, server};
use super::nodes::{assert_above, crash, lead_ms, some_ids_without_errors, start};
use super::suite::{Evidence, Fault};
use snowflake_core::state_file::SLOT;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, Order, Report, Signal, in_version_2, record_in};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 42,
        promise: "a_write_of_the_mark_that_is_cut_off_at_any_byte_leaves_the_one_before",
        short: 8,
        full: 2 * (SLOT + 1),
        run: cut_off,
    },
    Fault {
        row: 43,
        promise: "a_state_file_of_the_version_before_is_read_and_replaced",
        short: 1,
        full: 5,
        run: version_before,
    },
];

/// How long something may take that is sure to happen. Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

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
    }
    assert!(!cluster.log().contains("is damaged"), "{}", cluster.log());
    assert_kept(rounds, &all, 0).crashes(rounds)
}

/// Without the file of lives, too, which servers of that version did not have.
fn version_before(rounds: usize) -> Evidence {
    let mut cluster = start(Cluster::builder().worker(1));
    let mut all = Report::default();
    for round in 0..rounds {
        all.merge(some_ids_without_errors(&cluster));
        cluster.stop(if round % 2 == 0 { Signal::INT } else { Signal::QUIT });
        let record = record_in(&cluster.mark_file());
        fs::write(cluster.mark_file(), in_version_2(&record)).expect("a state file");
        fs::remove_file(cluster.data().join("snowflake_pg.life")).expect("the file of lives");
        cluster.start();
        let after = some_ids_without_errors(&cluster);
        assert_above(&after, &all);
        all.merge(after);
        let replaced = record_in(&cluster.mark_file());
        assert!(replaced.revision > 0 && replaced.mark >= record.mark, "{replaced:?}");
        crash(&mut cluster);
    }
    all.merge(some_ids_without_errors(&cluster));
    all.assert_unique_and_ordered();
    Evidence::new(rounds, &all).crashes(rounds).lead_ms(lead_ms(&all, 0))
}
