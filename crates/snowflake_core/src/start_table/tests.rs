//! Tests of the start table.

mod leased;

use super::*;
use crate::identity::Inode;
use crate::life::Life;

const NOW: UnixMs = 1_800_000_000_000;
const CONTEXT: StartContext =
    StartContext { now: NOW, start_margin_ms: 2000, wal: None, was_standby: false, last_life: None, lease: None };
const MARK: UnixMs = NOW - 5000;
const LOGGED: UnixMs = MARK + 1000;
const PAST_THE_MARGIN: UnixMs = NOW + 2000;
const LIFE: u64 = 42;
const REVISION: u64 = 9;

fn own() -> Identity {
    Identity {
        system_identifier: 7,
        timeline: 3,
        directory: Inode { number: 11, born_ns: 1_700_000_000_000_000_001 },
        numbers: (1, 5),
        layout: "twitter".parse().unwrap(),
    }
}

/// A record whose writer has written marks to WAL.
fn record(mark: UnixMs, identity: Identity) -> Record {
    let (life, previous_life, others) = (LIFE, LIFE - 1, OtherMarks::default());
    Record { revision: REVISION, life, previous_life, mark, logged: LOGGED, identity, others }
}

/// What is decided when the record that this data directory wrote last differs from the server's own in this.
fn found(differ: impl Fn(&mut Identity)) -> Result<StartPoint, MarkConflict> {
    found_after(Some(life(LIFE)), None, differ)
}

/// The same in a data directory that came from elsewhere.
fn found_elsewhere(differ: impl Fn(&mut Identity)) -> Result<StartPoint, MarkConflict> {
    found_after(None, None, differ)
}

/// The same, when the data directory wrote its last record in this life, and this mark is in WAL.
fn found_after(
    last_life: Option<LastLife>,
    wal_mark: Option<UnixMs>,
    differ: impl Fn(&mut Identity),
) -> Result<StartPoint, MarkConflict> {
    let mut identity = own();
    differ(&mut identity);
    let wal = wal_mark.and_then(in_wal);
    decide(Some(&record(MARK, identity)), &own(), &StartContext { wal, last_life, ..CONTEXT })
}

/// WAL has this mark of the worker.
fn in_wal(mark: UnixMs) -> Option<InWal> {
    Some(InWal { mark: Some(mark), ..InWal::default() })
}

/// A life whose marks went through WAL, in the present state directory, and after the record that is found.
fn life(number: u64) -> LastLife {
    LastLife { life: Life { number, revision: REVISION, numbers: own().numbers, wal_mark: 1 }, elsewhere: false }
}

fn copied(identity: &mut Identity) {
    identity.directory = Inode { number: 12, born_ns: 1_700_000_000_000_000_000 };
}

fn nothing(_: &mut Identity) {}

#[test]
fn a_restart_begins_at_the_mark() {
    assert_eq!(found(|_| ()), Ok(StartPoint { floor: MARK, reason: StartReason::Restart }));
}

#[test]
fn a_promotion_begins_above_the_start_margin_also_in_a_copy() {
    let beginning = |reason| Ok(StartPoint { floor: PAST_THE_MARGIN, reason });
    assert_eq!(found_elsewhere(|old| old.timeline = 2), beginning(StartReason::Promotion));
    let promoted_copy = found_elsewhere(|old| {
        old.timeline = 2;
        copied(old);
    });
    assert_eq!(promoted_copy, beginning(StartReason::Promotion));
}

#[test]
fn a_copy_on_the_same_timeline_is_refused() {
    assert_eq!(found_elsewhere(copied), Err(MarkConflict::Copy));
}

#[test]
fn a_copy_with_a_worker_of_its_own_begins_above_the_start_margin() {
    let beginning = Ok(StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::OtherWorker });
    assert_eq!(found_elsewhere(|old| old.numbers = (1, 6)), beginning);
    assert_eq!(found_elsewhere(|old| old.numbers = (2, 5)), beginning);
    for timeline in [2, 4] {
        let copy = found_elsewhere(|old| {
            old.numbers = (1, 6);
            old.timeline = timeline;
            copied(old);
        });
        assert_eq!(copy, beginning);
    }
}

#[test]
fn another_layout_is_refused_whatever_else_has_changed_and_does_not_hide_a_copy() {
    let epoch = |old: &mut Identity| old.layout = "twitter epoch=2024-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(found_elsewhere(epoch), Err(MarkConflict::OtherLayout));
    let worker_too = found_elsewhere(|old| {
        epoch(old);
        old.numbers = (1, 6);
    });
    assert_eq!(worker_too, Err(MarkConflict::OtherLayout));
    let too = |differ: fn(&mut Identity)| {
        found_elsewhere(|old| {
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
    assert_eq!(found_elsewhere(|old| old.system_identifier = 8), Err(MarkConflict::OtherCluster));
    for timeline in [2, 3, 4] {
        let foreign = found_elsewhere(|old| {
            old.system_identifier = 8;
            old.timeline = timeline;
            copied(old);
        });
        assert_eq!(foreign, Err(MarkConflict::OtherCluster));
    }
    let shared = found_elsewhere(|old| {
        old.system_identifier = 8;
        old.numbers = (1, 6);
    });
    assert_eq!(shared, Err(MarkConflict::OtherCluster));
    let brought_along = found_elsewhere(|old| {
        old.system_identifier = 8;
        old.numbers = (1, 6);
        copied(old);
    });
    assert_eq!(brought_along, Ok(StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::OtherWorker }));
}

#[test]
fn a_mark_of_a_newer_timeline_is_refused() {
    assert_eq!(found_elsewhere(|old| old.timeline = 4), Err(MarkConflict::NewerTimeline));
}

#[test]
fn a_missing_mark_begins_above_the_start_margin() {
    assert_eq!(decide(None, &own(), &CONTEXT), Ok(StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::Missing }));
}

#[test]
fn the_mark_of_the_write_ahead_log_counts_where_the_own_one_is_missing_or_of_an_older_timeline() {
    let context = &StartContext { wal: in_wal(NOW + 9000), ..CONTEXT };
    assert_eq!(decide(None, &own(), context).unwrap().floor, NOW + 11_000);
    let mut record = record(MARK, own());
    record.identity.timeline = 2;
    assert_eq!(decide(Some(&record), &own(), context).unwrap().floor, NOW + 11_000);
    let old = &StartContext { wal: in_wal(NOW - 9000), ..CONTEXT };
    assert_eq!(decide(Some(&record), &own(), old).unwrap().floor, PAST_THE_MARGIN);
}

#[test]
fn no_worker_begins_below_what_counts_for_all_in_wal() {
    let wal = Some(InWal { rest: NOW + 9000, ..InWal::default() });
    let context = StartContext { wal, ..CONTEXT };
    let beginning = StartPoint { floor: NOW + 11_000, reason: StartReason::Missing };
    assert_eq!(decide(None, &own(), &context), Ok(beginning));
}

#[test]
fn a_promotion_never_begins_below_the_mark_and_some_in_a_row_do_not_add_up() {
    let record = |mark| record(mark, Identity { timeline: 2, ..own() });
    assert_eq!(decide(Some(&record(NOW + 60_000)), &own(), &CONTEXT).unwrap().floor, NOW + 60_000);
    assert_eq!(decide(Some(&record(NOW + 2000)), &own(), &CONTEXT).unwrap().floor, PAST_THE_MARGIN);
}

/// Its marks are known from WAL up to one that it has written itself, or that it found there.
#[test]
fn a_restart_finds_the_mark_of_somebody_who_has_continued_from_its_own_one_in_wal() {
    let begins_at = |wal_mark, mark| {
        let context = StartContext { wal: in_wal(wal_mark), last_life: Some(life(LIFE)), ..CONTEXT };
        decide(Some(&record(mark, own())), &own(), &context).unwrap()
    };
    let restart = StartPoint { floor: MARK, reason: StartReason::Restart };
    assert_eq!(begins_at(LOGGED, MARK), restart, "the mark was lowered at a planned stop");
    let continued = |floor| StartPoint { floor, reason: StartReason::Continued };
    assert_eq!(begins_at(LOGGED + 1, MARK), continued(LOGGED + 1), "a write that was cut off");
    assert_eq!(begins_at(NOW + 9000, MARK), continued(NOW + 9000));
    let ahead = StartPoint { floor: NOW + 9000, reason: StartReason::Restart };
    assert_eq!(begins_at(NOW + 9000, NOW + 9000), ahead);
}

/// The lowest marks are left out of a full page, and count for all that are not on it.
#[test]
fn a_restart_of_a_worker_that_is_not_listed_in_wal_begins_at_its_mark() {
    let begins_at = |rest| {
        let (wal, last_life) = (Some(InWal { rest, ..InWal::default() }), Some(life(LIFE)));
        let context = StartContext { wal, last_life, ..CONTEXT };
        let with = |logged| decide(Some(&Record { logged, ..record(MARK, own()) }), &own(), &context).unwrap();
        [LOGGED, 0].map(with)
    };
    let start = |reason| move |floor| StartPoint { floor, reason };
    let (restart, continued) = (start(StartReason::Restart), start(StartReason::Continued));
    assert_eq!(begins_at(NOW + 9000), [continued(NOW + 9000); 2]);
    assert_eq!(begins_at(LOGGED), [restart(MARK), continued(LOGGED)]);
    let lost = start(StartReason::WalSetBack)(PAST_THE_MARGIN);
    assert_eq!(begins_at(0), [lost, restart(MARK)], "nothing is in WAL");
}

/// The other server may have gone on with the same worker, and nobody knows how far.
#[test]
fn a_promoted_server_without_a_mark_in_wal_is_refused_unless_the_registry_knows() {
    let nothing = Some(InWal::default());
    let decided = |wal, differ: fn(&mut Identity), last_life| {
        let mut identity = Identity { timeline: 2, ..own() };
        differ(&mut identity);
        decide(Some(&record(MARK, identity)), &own(), &StartContext { wal, last_life, ..CONTEXT })
    };
    for differ in [|_: &mut Identity| (), copied] {
        assert_eq!(decided(nothing, differ, None), Err(MarkConflict::Promoted));
        assert!(decided(in_wal(NOW), differ, None).is_ok());
        assert!(decided(None, differ, None).is_ok(), "leased");
    }
    assert_eq!(decided(nothing, |_| (), Some(life(LIFE))), Err(MarkConflict::Promoted), "in place");
    let with = decided(nothing, |old| old.numbers = (1, 6), None);
    assert_eq!(with.map(|start| start.reason), Ok(StartReason::OtherWorker), "with a worker of its own");
    let context = StartContext { wal: nothing, ..CONTEXT };
    let promoted = StartContext { was_standby: true, ..context };
    assert_eq!(decide(None, &own(), &promoted), Err(MarkConflict::Promoted), "without a record");
    assert_eq!(decide(None, &own(), &context).map(|start| start.reason), Ok(StartReason::Missing), "a new server");
    let others = Some(InWal { layout: Some(own().layout), ..InWal::default() });
    let beside = StartContext { wal: others, ..promoted };
    assert_eq!(decide(None, &own(), &beside).map(|start| start.reason), Ok(StartReason::Missing), "its own worker");
    let here = StartContext { last_life: Some(life(LIFE)), ..promoted };
    assert_eq!(decide(None, &own(), &here).map(|start| start.reason), Ok(StartReason::Missing), "removed on purpose");
}

/// Somebody may have continued from there.
#[test]
fn a_restart_with_an_older_wal_than_its_writer_knew_begins_above_the_start_margin() {
    let begins_at = |wal_mark, logged| {
        let last_life = Some(life(LIFE));
        let context = StartContext { wal: in_wal(wal_mark), last_life, ..CONTEXT };
        decide(Some(&Record { logged, ..record(MARK, own()) }), &own(), &context).unwrap()
    };
    let by_registry = StartContext { last_life: Some(life(LIFE)), ..CONTEXT };
    let restart = StartPoint { floor: MARK, reason: StartReason::Restart };
    assert_eq!(decide(Some(&record(MARK, own())), &own(), &by_registry), Ok(restart), "WAL does not count");
    let set_back = |floor| StartPoint { floor, reason: StartReason::WalSetBack };
    assert_eq!(begins_at(MARK - 1, LOGGED), set_back(PAST_THE_MARGIN));
    assert_eq!(begins_at(NOW + 9000, u64::MAX), set_back(NOW + 11_000), "WAL was ahead once");
}

/// Its record can be as old as the data directory.
#[test]
fn a_data_directory_that_was_restored_with_its_state_directory_begins_above_the_start_margin() {
    let restored = |floor| Ok(StartPoint { floor, reason: StartReason::Restored });
    assert_eq!(found_elsewhere(nothing), restored(PAST_THE_MARGIN));
    assert_eq!(found_after(None, Some(NOW + 9000), nothing), restored(NOW + 11_000));
    let version_2 = Record { life: 0, previous_life: 0, logged: 0, ..record(MARK, own()) };
    let restart = StartPoint { floor: MARK, reason: StartReason::Restart };
    assert_eq!(decide(Some(&version_2), &own(), &CONTEXT), Ok(restart), "had no life yet");
}

/// A reboot, a remount or another host must never look like a copy.
#[test]
fn a_directory_is_the_same_if_its_birth_is_and_its_inode_number_where_that_is_kept() {
    let born = own().directory;
    assert!(born.same_inode(&Inode { number: 0, ..born }), "a file system that assigns new numbers");
    assert!(!born.same_inode(&Inode { number: 12, ..born }), "made in the same instant");
    assert!(!born.same_inode(&Inode { born_ns: born.born_ns + 1, ..born }), "the number was used again");
    let unborn = |number| Inode { number, born_ns: 0 };
    assert!(unborn(1).same_inode(&unborn(1)) && !unborn(1).same_inode(&unborn(2)));
    assert!(unborn(11).same_inode(&own().directory), "a file system that has begun to tell");
}

#[test]
fn a_worker_that_comes_back_begins_above_the_mark_that_it_has_left() {
    let left = OtherMarks::new([((1, 5), NOW + 20_000)], 0);
    let identity = Identity { numbers: (1, 6), ..own() };
    let record = Record { others: left, ..record(NOW + 90_000, identity) };
    let beginning = StartPoint { floor: NOW + 20_000, reason: StartReason::OtherWorker };
    assert_eq!(decide(Some(&record), &own(), &CONTEXT), Ok(beginning), "and not above the other worker's");
}

#[test]
fn a_record_that_this_data_directory_wrote_last_is_its_own() {
    let restart = Ok(StartPoint { floor: MARK, reason: StartReason::Restart });
    for last in [LIFE, LIFE - 1] {
        assert_eq!(found_after(Some(life(last)), None, nothing), restart);
        assert_eq!(found_after(Some(life(last)), None, copied), restart, "a crash before the directory was kept");
    }
    let promotion = found_after(Some(life(LIFE)), None, |old| old.timeline = 2).unwrap();
    assert_eq!(promotion, StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::Promotion });
}

/// The mark of the directory from which it came may have moved on since.
#[test]
fn an_own_record_in_another_directory_begins_above_the_start_margin_unless_wal_knows() {
    let moved = Some(LastLife { elsewhere: true, ..life(LIFE) });
    let beginning = StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::Moved };
    assert_eq!(found_after(moved, None, copied), Ok(beginning));
    assert_eq!(found_after(moved, None, nothing), Ok(beginning));
    assert!(beginning.reason.relies_on_clock());
    let by_wal = StartPoint { floor: NOW + 11_000, reason: StartReason::WalMark };
    assert_eq!(found_after(moved, Some(NOW + 9000), copied), Ok(by_wal));
}

#[test]
fn a_record_that_is_not_the_last_one_of_this_data_directory_is_refused_whatever_it_says() {
    let not_the_last = Err(MarkConflict::NotTheLast);
    let last = Some(life(7));
    assert_eq!(found_after(last, None, nothing), not_the_last);
    assert_eq!(found_after(last, None, |old| old.numbers = (1, 6)), not_the_last);
    assert_eq!(found_after(last, None, |old| old.timeline = 2), not_the_last);
    assert_eq!(found_after(last, None, copied), not_the_last);
    assert_eq!(found_after(last, None, |old| old.system_identifier = 8), Err(MarkConflict::OtherCluster));
}

/// The data directory is back at an earlier state, or another server has written here meanwhile.
#[test]
fn a_newer_record_in_the_same_directory_begins_above_the_start_margin() {
    let older = LastLife { life: Life { revision: REVISION - 1, ..life(7).life }, elsewhere: false };
    let beginning = |reason| Ok(StartPoint { floor: PAST_THE_MARGIN, reason });
    assert_eq!(found_after(Some(older), None, nothing), beginning(StartReason::NewerRecord));
    assert_eq!(found_after(Some(older), None, |old| old.timeline = 2), beginning(StartReason::NewerRecord));
    assert_eq!(found_after(Some(older), None, |old| old.timeline = 4), Err(MarkConflict::NewerTimeline));
    assert_eq!(found_after(Some(older), None, copied), Err(MarkConflict::NotTheLast), "a copy of another directory");
    let elsewhere = LastLife { elsewhere: true, ..older };
    assert_eq!(found_after(Some(elsewhere), None, nothing), Err(MarkConflict::NotTheLast));
    let oldest = Record { revision: 1, life: 8, ..record(MARK, own()) };
    for found in [None, Some(&oldest)] {
        let revision = LastLife::revision_of_next(Some(older), found);
        let next = LastLife { life: Life { number: 9, revision, ..older.life }, ..older };
        let restored = found_after(Some(next), None, nothing);
        assert_eq!(restored, Err(MarkConflict::NotTheLast), "the file that was lost, or replaced by an older one");
    }
    assert_eq!(LastLife::revision_of_next(Some(life(LIFE)), Some(&record(MARK, own()))), REVISION, "a restart");
    assert_eq!(LastLife::revision_of_next(None, Some(&record(MARK, own()))), REVISION, "a copy");
    let ahead = record(NOW + 60_000, own());
    let context = StartContext { last_life: Some(older), ..CONTEXT };
    assert_eq!(decide(Some(&ahead), &own(), &context).unwrap().floor, NOW + 60_000);
}

#[test]
fn a_mark_in_wal_makes_up_for_a_record_that_is_not_the_last_one() {
    let beginning = Ok(StartPoint { floor: NOW + 11_000, reason: StartReason::WalMark });
    let wal_mark = Some(NOW + 9000);
    assert_eq!(found_after(Some(life(7)), wal_mark, nothing), beginning);
    assert_eq!(found_after(None, wal_mark, |old| old.numbers = (1, 6)), beginning);
    assert_eq!(found_after(None, wal_mark, copied), Err(MarkConflict::Copy), "not for a copy beside its original");
}

#[test]
fn a_mark_in_wal_from_before_the_last_life_makes_up_for_nothing() {
    let with = |wal_mark| LastLife { life: Life { wal_mark, ..life(7).life }, elsewhere: true };
    let context = StartContext { wal: in_wal(NOW), ..CONTEXT };
    for (logged, is_known) in [(0, false), (1, true), (NOW, true), (NOW + 1, false)] {
        let last = Some(with(logged));
        let context = StartContext { last_life: last, ..context };
        assert_eq!(decide(None, &own(), &context).is_ok(), is_known, "{logged}");
        assert_eq!(found_after(last, Some(NOW), nothing).is_ok(), is_known, "{logged}");
    }
    let of_another_worker = Life { numbers: (1, 6), ..with(1).life };
    let last_life = Some(LastLife { life: of_another_worker, elsewhere: true });
    assert_eq!(decide(None, &own(), &StartContext { last_life, ..context }), Err(MarkConflict::LeftBehind));
}

#[test]
fn a_mark_that_was_left_in_another_directory_is_missed() {
    let decided = |elsewhere, wal_mark: Option<UnixMs>| {
        let last_life = Some(LastLife { elsewhere, ..life(7) });
        let wal = wal_mark.and_then(in_wal);
        decide(None, &own(), &StartContext { last_life, wal, ..CONTEXT })
    };
    assert_eq!(decided(true, None), Err(MarkConflict::LeftBehind));
    assert_eq!(decided(true, Some(NOW)).unwrap().reason, StartReason::WalMark);
    let missing = StartPoint { floor: PAST_THE_MARGIN, reason: StartReason::Missing };
    assert_eq!(decided(false, None), Ok(missing), "removed on purpose");
}

fn accepted_mark(found: &Record, own: &Identity) -> Option<UnixMs> {
    accept(Some(found), own, &CONTEXT, false).map(|(mark, _)| mark)
}

#[test]
fn an_accepted_mark_begins_above_the_start_margin() {
    let record = record(NOW + 100, Identity { system_identifier: 8, ..own() });
    assert_eq!(accepted_mark(&record, &own()), Some(PAST_THE_MARGIN));
    assert_eq!(accept(None, &own(), &CONTEXT, false).unwrap().0, PAST_THE_MARGIN);
}

#[test]
fn an_acceptance_keeps_the_marks_of_other_workers() {
    let record = record(NOW + 90_000, Identity { numbers: (1, 6), ..own() });
    let (mark, others) = accept(Some(&record), &own(), &CONTEXT, false).unwrap();
    assert_eq!((mark, others.of((1, 6))), (PAST_THE_MARGIN, NOW + 90_000));
}

#[test]
fn another_layout_is_accepted_only_where_new_ids_are_greater_than_all_old_ones() {
    let accepted = |old: &str, new: &str| {
        let own = Identity { layout: new.parse().unwrap(), ..own() };
        accepted_mark(&record(NOW + 100, Identity { layout: old.parse().unwrap(), ..own }), &own).is_some()
    };
    assert!(accepted("twitter", "flat"), "the same bits under other names");
    assert!(accepted("twitter epoch=2024-01-01T00:00:00Z", "twitter"), "an earlier epoch makes IDs greater");
    assert!(!accepted("twitter", "twitter epoch=2024-01-01T00:00:00Z"), "a later one, smaller");
}

#[test]
fn another_layout_begins_above_the_marks_of_all_workers() {
    let identity = Identity { layout: "flat".parse().unwrap(), numbers: (0, 6), ..own() };
    let others = OtherMarks::new([((0, 7), NOW + 20_000)], 0);
    let record = Record { others, ..record(NOW + 9000, identity) };
    for forced in [false, true] {
        let (mark, others) = accept(Some(&record), &own(), &CONTEXT, forced).unwrap();
        assert_eq!([mark, others.of((0, 6)), others.of((0, 7)), others.of((0, 8))], [NOW + 20_000; 4]);
    }
}

/// A standby with a state directory of its own has no record when it is promoted.
#[test]
fn a_server_with_another_layout_than_its_cluster_issues_nothing_before_that_is_accepted() {
    let later: Layout = "twitter epoch=2012-01-01T00:00:00Z".parse().unwrap();
    let earlier: Layout = "twitter epoch=2009-01-01T00:00:00Z".parse().unwrap();
    let with = |mark, layout| Some(InWal { mark: Some(mark), layout: Some(layout), rest: 0 });
    let context = |layout| StartContext { wal: with(NOW, layout), ..CONTEXT };
    let own_record = record(MARK, own());
    for found in [None, Some(&own_record)] {
        assert_eq!(decide(found, &own(), &context(earlier)), Err(MarkConflict::OtherLayoutInWal(earlier)), "{found:?}");
        assert!(decide(found, &own(), &context(own().layout)).is_ok(), "its own layout");
        let accepted = |layout, forced| accept(found, &own(), &context(layout), forced).map(|(mark, _)| mark);
        let begins = Some(NOW + CONTEXT.start_margin_ms);
        assert_eq!(accepted(later, false), begins, "IDs are above those with a later epoch");
        assert_eq!(accepted(earlier, false), None, "IDs of that layout are greater");
        assert_eq!(accepted(earlier, true), begins, "forced");
    }
    let accepted = StartContext { wal: with(MARK, earlier), last_life: Some(life(LIFE)), ..CONTEXT };
    let record = Record { logged: 0, ..own_record };
    assert_eq!(decide(Some(&record), &own(), &accepted).map(|start| start.reason), Ok(StartReason::Restart));
}
