//! State directories that two servers share.

use super::nodes::{
    IDS, NEWER, assert_only_errors, assert_refused, assert_unique, ids_after_start_margin, in_separate_rounds, outside,
    some_ids_without_errors, start, together_above,
};
use super::suite::{Evidence, Fault};
use std::os::unix::fs::symlink;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, Load, Report, Signal, Volume, error, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 37,
        promise: "a_base_backup_beside_its_original_with_one_absolute_state_directory_is_refused",
        short: 1,
        full: 3,
        run: |rounds| beside_its_original(rounds, backed_up),
    },
    Fault {
        row: 38,
        promise: "a_copy_beside_its_original_whose_state_directory_is_one_symlink_is_refused",
        short: 1,
        full: 3,
        run: |rounds| beside_its_original(rounds, copied_with_its_symlink),
    },
    Fault {
        row: 39,
        promise: "a_server_recovered_beside_its_original_with_one_state_directory_is_refused",
        short: 1,
        full: 3,
        run: recovered_beside_its_original,
    },
];

/// How long the two servers of a row work side by side.
const SIDE_BY_SIDE: Duration = Duration::from_secs(8);

const IN_USE: &str = "in use by another server";

/// A running original, its copy, which was not started yet, and the volume of the state directory that they share.
struct Pair {
    volume: Volume,
    original: Cluster,
    copy: Cluster,
}

/// By pg_basebackup, with the same absolute state directory.
fn backed_up() -> Pair {
    let volume = Volume::empty();
    let original = start(outside(&volume));
    let copy = Cluster::builder().backup_of(&original);
    Pair { volume, original, copy }
}

/// By `cp -a` while the original was stopped. The state directory is relative, and leads outside.
fn copied_with_its_symlink() -> Pair {
    let volume = Volume::empty();
    let mut original = Cluster::builder().worker(1).create();
    symlink(volume.make_directory("state"), original.data().join("snowflake_pg")).expect("a symlink");
    original.start();
    original.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    some_ids_without_errors(&original);
    original.stop(Signal::INT);
    let copy = Cluster::builder().copy_of(&original);
    original.start();
    Pair { volume, original, copy }
}

/// A server is refused because this other one runs, whose data directory a superuser is told.
fn assert_in_use(refused: &Cluster, by: &Cluster) {
    assert_refused(refused, IN_USE);
    let refused = error(&mut refused.connect(), "SELECT snowflake_nextval()");
    let data = by.data().display().to_string();
    assert!(refused.detail().is_some_and(|detail| detail.contains(&data)), "not {data}: {refused:?}");
}

/// Clients have seen no other error than this one.
fn assert_only_in_use(report: &Report) {
    let errors = report.errors();
    let expected = |error: &&str| error.starts_with("55000") && error.contains(IN_USE);
    assert!(errors.keys().all(expected), "{errors:?}");
}

/// A server begins beside another one that works with its state directory. What clients of the latter have received,
/// who notice nothing; those of the former receive nothing.
fn side_by_side(what: &str, first: &Cluster, second: &mut Cluster, begin: impl FnOnce(&mut Cluster)) -> Report {
    let load = Load::start(first, 2, IDS);
    load.wait_for_ids();
    begin(second);
    let refused = Load::start(second, 2, IDS);
    sleep(SIDE_BY_SIDE);
    let (ids, refused) = (load.finish(), refused.finish());
    assert_unique(what, &[&ids, &refused]);
    assert_only_errors(&ids, &[]);
    assert_eq!((ids.outages(), refused.ids()), (0, 0), "{what}");
    assert_only_in_use(&refused);
    assert_in_use(second, first);
    ids
}

fn beside_its_original(rounds: usize, pair: fn() -> Pair) -> Evidence {
    let evidence = in_separate_rounds(rounds, |_| {
        // In this order, so that the volume outlives the servers.
        let Pair { volume: _volume, mut original, mut copy } = pair();
        let what = "an original, and its copy beside it";
        let ids = side_by_side(what, &original, &mut copy, Cluster::start);

        // A lock goes with its owner, whatever becomes of that.
        let load = Load::start(&copy, 2, IDS);
        original.kill_all();
        load.wait_for_ids();
        let taken_over = load.finish();
        assert_only_in_use(&taken_over);
        let ids = together_above("an original that was killed, and its copy", ids, taken_over);

        let what = "a copy that took over, and the original beside it";
        let alone = side_by_side(what, &copy, &mut original, Cluster::start);
        let ids = together_above("the copy, before and after", ids, alone);

        original.stop(Signal::INT);
        copy.stop(Signal::INT);
        // Its directory has a newer mark than it knows of, and a copy was the writer.
        let logged = original.log().len();
        original.start();
        let what = "the original, after its copy";
        let ids = together_above(what, ids, ids_after_start_margin(&original));
        assert!(original.log()[logged..].contains(NEWER), "{what}: {}", original.log());
        original.restart(Signal::INT);
        together_above("the original, later", ids, some_ids_without_errors(&original))
    });
    evidence.crashes(rounds)
}

fn recovered_beside_its_original(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let mut original = outside(&volume).create();
        original.archive();
        original.start();
        let mut client = original.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let before = some_ids_without_errors(&original);
        let mut copy = Cluster::builder().backup_of(&original);
        let moment = value(&mut client, "SELECT clock_timestamp()");
        client.batch_execute("CREATE TABLE mistake ()").expect("a table");
        original.wait_for_archive();
        let what = "an original, and its copy of another time beside it";
        let ids = side_by_side(what, &original, &mut copy, |copy| copy.recover(&original, &moment));
        together_above("the original, before and after", before, ids)
    })
}
