//! Tests of the start table.

mod accepted;
mod leased;
mod machine;
mod wal;

use super::*;
use crate::mark::life::Life;
use crate::mark::record::LaterFields;
use crate::server::identity::Inode;

const NOW: UnixMs = 1_800_000_000_000;
const CONTEXT: StartContext = StartContext {
    now: NOW,
    start_margin_ms: 2000,
    wal: None,
    was_standby: false,
    machine: None,
    last_life: None,
    lease: None,
};
const MARK: UnixMs = NOW - 5000;
const LOGGED: UnixMs = MARK + 1000;
const PAST_THE_MARGIN: UnixMs = NOW + 2000;
const LIFE: u64 = 42;
const REVISION: u64 = 9;

fn this_server() -> Identity {
    Identity {
        system_identifier: 7,
        timeline: 3,
        directory: Inode { number: 11, born_ns: 1_700_000_000_000_000_001 },
        worker: 5,
        layout: "flat".parse().unwrap(),
    }
}

/// A record whose writer has written marks to WAL.
fn record(mark: UnixMs, identity: Identity) -> Record {
    let (life, previous_life, machine, others) = (LIFE, LIFE - 1, None, OtherMarks::default());
    let later = LaterFields::default();
    Record { revision: REVISION, life, previous_life, mark, logged: LOGGED, identity, machine, others, later }
}

/// What is decided when the record that this data directory wrote last differs from the server's own in this.
fn decided_with(differ: impl Fn(&mut Identity)) -> Result<StartPoint, MarkConflict> {
    decided_after(Some(life(LIFE)), None, differ)
}

/// What is decided in a data directory that came from elsewhere.
fn decided_elsewhere(differ: impl Fn(&mut Identity)) -> Result<StartPoint, MarkConflict> {
    decided_after(None, None, differ)
}

/// What is decided when the data directory wrote its last record in this life, and this mark is in WAL.
fn decided_after(
    last_life: Option<LastLife>,
    wal_mark: Option<UnixMs>,
    differ: impl Fn(&mut Identity),
) -> Result<StartPoint, MarkConflict> {
    let mut identity = this_server();
    differ(&mut identity);
    let wal = wal_mark.and_then(in_wal);
    decide(Some(&record(MARK, identity)), &this_server(), &StartContext { wal, last_life, ..CONTEXT })
}

/// WAL has this mark of the worker.
fn in_wal(mark: UnixMs) -> Option<InWal> {
    Some(InWal { mark: Some(mark), ..InWal::default() })
}

/// A life whose marks went through WAL, in the present state directory, and after the record that is found.
fn life(number: u64) -> LastLife {
    LastLife { life: Life { number, revision: REVISION, worker: this_server().worker, wal_mark: 1 }, elsewhere: false }
}

fn copied(identity: &mut Identity) {
    identity.directory = Inode { number: 12, born_ns: 1_700_000_000_000_000_000 };
}

fn nothing(_: &mut Identity) {}

#[test]
fn a_restart_begins_at_the_mark() {
    assert_eq!(decided_with(|_| ()), Ok(StartPoint { floor: MARK, reason: StartReason::Restart }));
}

#[test]
fn a_promotion_begins_above_the_start_margin_also_in_a_copy() {
    let beginning = |reason| Ok(StartPoint { floor: PAST_THE_MARGIN, reason });
    assert_eq!(decided_elsewhere(|old| old.timeline = 2), beginning(StartReason::Promotion));
    let promoted_copy = decided_elsewhere(|old| {
        old.timeline = 2;
        copied(old);
    });
    assert_eq!(promoted_copy, beginning(StartReason::Promotion));
}

#[test]
fn a_copy_on_the_same_timeline_is_refused() {
    assert_eq!(decided_elsewhere(copied), Err(MarkConflict::Copy));
}

#[test]
fn a_copy_with_a_worker_of_its_own_begins_above_the_start_margin() {
    let beginning = Ok(StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::OtherWorker });
    assert_eq!(decided_elsewhere(|old| old.worker = 6), beginning);
    for timeline in [2, 4] {
        let copy = decided_elsewhere(|old| {
            old.worker = 6;
            old.timeline = timeline;
            copied(old);
        });
        assert_eq!(copy, beginning);
    }
}

#[test]
fn another_layout_is_refused_whatever_else_has_changed_and_does_not_hide_a_copy() {
    let epoch = |old: &mut Identity| old.layout = "twitter epoch=2024-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(decided_elsewhere(epoch), Err(MarkConflict::OtherLayout));
    let worker_too = decided_elsewhere(|old| {
        epoch(old);
        old.worker = 6;
    });
    assert_eq!(worker_too, Err(MarkConflict::OtherLayout));
    let too = |differ: fn(&mut Identity)| {
        decided_elsewhere(|old| {
            epoch(old);
            differ(old);
        })
    };
    assert_eq!(too(copied), Err(MarkConflict::Copy));
    assert_eq!(too(|old| old.timeline = 4), Err(MarkConflict::NewerTimeline));
    assert_eq!(too(|old| old.system_identifier = 8), Err(MarkConflict::OtherCluster));
    assert_eq!(too(|old| old.timeline = 2), Err(MarkConflict::OtherLayout));
}

#[test]
fn another_clusters_mark_is_refused_where_its_ids_or_its_directory_are_ours() {
    assert_eq!(decided_elsewhere(|old| old.system_identifier = 8), Err(MarkConflict::OtherCluster));
    for timeline in [2, 3, 4] {
        let foreign = decided_elsewhere(|old| {
            old.system_identifier = 8;
            old.timeline = timeline;
            copied(old);
        });
        assert_eq!(foreign, Err(MarkConflict::OtherCluster));
    }
    let shared = decided_elsewhere(|old| {
        old.system_identifier = 8;
        old.worker = 6;
    });
    assert_eq!(shared, Err(MarkConflict::OtherCluster));
    let brought_along = decided_elsewhere(|old| {
        old.system_identifier = 8;
        old.worker = 6;
        copied(old);
    });
    assert_eq!(brought_along, Ok(StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::OtherWorker }));
}

#[test]
fn a_mark_of_a_newer_timeline_is_refused() {
    assert_eq!(decided_elsewhere(|old| old.timeline = 4), Err(MarkConflict::NewerTimeline));
}

#[test]
fn a_missing_mark_begins_above_the_start_margin() {
    assert_eq!(
        decide(None, &this_server(), &CONTEXT),
        Ok(StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::Missing })
    );
}

#[test]
fn a_promotion_never_begins_below_the_mark_and_some_in_a_row_do_not_add_up() {
    let record = |mark| record(mark, Identity { timeline: 2, ..this_server() });
    assert_eq!(decide(Some(&record(NOW + 60_000)), &this_server(), &CONTEXT).unwrap().floor, NOW + 60_000);
    assert_eq!(decide(Some(&record(NOW + 2000)), &this_server(), &CONTEXT).unwrap().floor, PAST_THE_MARGIN);
}

/// Its record can be as old as the data directory.
#[test]
fn a_data_directory_that_was_restored_with_its_state_directory_begins_above_the_start_margin() {
    let restored = |floor| Ok(StartPoint { floor, reason: StartReason::Restored });
    assert_eq!(decided_elsewhere(nothing), restored(PAST_THE_MARGIN));
    assert_eq!(decided_after(None, Some(NOW + 9000), nothing), restored(NOW + 11_000));
}

/// A reboot, a remount or another host must never look like a copy.
#[test]
fn a_directory_is_the_same_if_its_birth_is_and_its_inode_number_where_that_is_kept() {
    let born = this_server().directory;
    assert!(born.same_inode(&Inode { number: 0, ..born }), "a file system that assigns new numbers");
    assert!(Inode { number: 0, ..born }.same_inode(&born), "whichever of them is read first");
    assert!(!born.same_inode(&Inode { number: 12, ..born }), "made in the same instant");
    assert!(!born.same_inode(&Inode { born_ns: born.born_ns + 1, ..born }), "the number was used again");
    let unborn = |number| Inode { number, born_ns: 0 };
    assert!(unborn(1).same_inode(&unborn(1)) && !unborn(1).same_inode(&unborn(2)));
    assert!(unborn(11).same_inode(&this_server().directory), "a file system that has begun to tell");
}

#[test]
fn a_worker_that_comes_back_begins_above_the_mark_that_it_has_left() {
    let left = OtherMarks::new([(5, NOW + 20_000)], 0);
    let identity = Identity { worker: 6, ..this_server() };
    let record = Record { others: left, ..record(NOW + 90_000, identity) };
    let beginning = StartPoint { floor: NOW + 20_000, reason: StartReason::OtherWorker };
    assert_eq!(decide(Some(&record), &this_server(), &CONTEXT), Ok(beginning), "and not above the other worker's");
}

#[test]
fn a_record_that_this_data_directory_wrote_last_is_its_own() {
    let restart = Ok(StartPoint { floor: MARK, reason: StartReason::Restart });
    for last in [LIFE, LIFE - 1] {
        assert_eq!(decided_after(Some(life(last)), None, nothing), restart);
        assert_eq!(decided_after(Some(life(last)), None, copied), restart, "a crash before the directory was kept");
    }
    let promotion = decided_after(Some(life(LIFE)), None, |old| old.timeline = 2).unwrap();
    assert_eq!(promotion, StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::Promotion });
}

/// The mark of the directory from which it came may have moved on since.
#[test]
fn an_last_record_in_another_directory_begins_above_the_start_margin_unless_wal_knows() {
    let moved = Some(LastLife { elsewhere: true, ..life(LIFE) });
    let beginning = StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::Moved };
    assert_eq!(decided_after(moved, None, copied), Ok(beginning));
    assert_eq!(decided_after(moved, None, nothing), Ok(beginning));
    assert!(beginning.reason.relies_on_clock());
    let by_wal = StartPoint { floor: NOW + 11_000, reason: StartReason::WalMark };
    assert_eq!(decided_after(moved, Some(NOW + 9000), copied), Ok(by_wal));
    assert!(!by_wal.reason.relies_on_clock());
}

#[test]
fn a_record_that_is_not_the_last_one_of_this_data_directory_is_refused_whatever_it_says() {
    let not_the_last = Err(MarkConflict::NotTheLast);
    let last = Some(life(7));
    assert_eq!(decided_after(last, None, nothing), not_the_last);
    assert_eq!(decided_after(last, None, |old| old.worker = 6), not_the_last);
    assert_eq!(decided_after(last, None, |old| old.timeline = 2), not_the_last);
    assert_eq!(decided_after(last, None, copied), not_the_last);
    assert_eq!(decided_after(last, None, |old| old.system_identifier = 8), Err(MarkConflict::OtherCluster));
}

/// The data directory is back at an earlier state, or another server has written here meanwhile.
#[test]
fn a_newer_record_in_the_same_directory_begins_above_the_start_margin() {
    let older = LastLife { life: Life { revision: REVISION - 1, ..life(7).life }, elsewhere: false };
    let beginning = |reason| Ok(StartPoint { floor: PAST_THE_MARGIN, reason });
    assert_eq!(decided_after(Some(older), None, nothing), beginning(StartReason::NewerRecord));
    assert_eq!(decided_after(Some(older), None, |old| old.timeline = 2), beginning(StartReason::NewerRecord));
    assert_eq!(decided_after(Some(older), None, |old| old.timeline = 4), Err(MarkConflict::NewerTimeline));
    assert_eq!(decided_after(Some(older), None, copied), Err(MarkConflict::NotTheLast), "a copy of another directory");
    let elsewhere = LastLife { elsewhere: true, ..older };
    assert_eq!(decided_after(Some(elsewhere), None, nothing), Err(MarkConflict::NotTheLast));
    let oldest = Record { revision: 1, life: 8, ..record(MARK, this_server()) };
    for stored in [None, Some(&oldest)] {
        let revision = LastLife::revision_of_next(Some(older), stored);
        let next = LastLife { life: Life { number: 9, revision, ..older.life }, ..older };
        let restored = decided_after(Some(next), None, nothing);
        assert_eq!(restored, Err(MarkConflict::NotTheLast), "the file that was lost, or replaced by an older one");
    }
    assert_eq!(LastLife::revision_of_next(Some(life(LIFE)), Some(&record(MARK, this_server()))), REVISION, "a restart");
    assert_eq!(LastLife::revision_of_next(None, Some(&record(MARK, this_server()))), REVISION, "a copy");
    let ahead = record(NOW + 60_000, this_server());
    let context = StartContext { last_life: Some(older), ..CONTEXT };
    assert_eq!(decide(Some(&ahead), &this_server(), &context).unwrap().floor, NOW + 60_000);
}

#[test]
fn a_mark_that_was_left_in_another_directory_is_missed() {
    let decided = |elsewhere, wal_mark: Option<UnixMs>| {
        let last_life = Some(LastLife { elsewhere, ..life(7) });
        let wal = wal_mark.and_then(in_wal);
        decide(None, &this_server(), &StartContext { last_life, wal, ..CONTEXT })
    };
    assert_eq!(decided(true, None), Err(MarkConflict::LeftBehind));
    assert_eq!(decided(true, Some(NOW)).unwrap().reason, StartReason::WalMark);
    let missing = StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::Missing };
    assert_eq!(decided(false, None), Ok(missing), "removed on purpose");
}
