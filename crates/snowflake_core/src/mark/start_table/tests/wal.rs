//! With marks in WAL.

use super::*;

#[test]
fn the_mark_of_the_write_ahead_log_counts_where_the_own_one_is_missing_or_of_an_older_timeline() {
    let context = &StartContext { wal: in_wal(NOW + 9000), ..CONTEXT };
    assert_eq!(decide(None, &this_server(), context).unwrap().floor, NOW + 11_000);
    let mut record = record(MARK, this_server());
    record.identity.timeline = 2;
    assert_eq!(decide(Some(&record), &this_server(), context).unwrap().floor, NOW + 11_000);
    let old = &StartContext { wal: in_wal(NOW - 9000), ..CONTEXT };
    assert_eq!(decide(Some(&record), &this_server(), old).unwrap().floor, PAST_THE_MARGIN);
}

/// A right clock explains such a mark, and so no ID is further ahead than the margin, however often servers begin.
#[test]
fn a_mark_in_wal_within_the_start_margin_of_the_clock_takes_a_promotion_no_further_ahead() {
    let floor = |wal_mark| {
        let context = StartContext { wal: in_wal(wal_mark), was_standby: true, ..CONTEXT };
        decide(None, &this_server(), &context).unwrap().floor
    };
    assert_eq!(floor(NOW + 1000), PAST_THE_MARGIN);
    assert_eq!(floor(PAST_THE_MARGIN), PAST_THE_MARGIN);
    let borrowed = StartContext { wal: in_wal(NOW + 4000), was_standby: true, start_margin_ms: 5000, ..CONTEXT };
    let ahead = decide(None, &this_server(), &borrowed).unwrap().floor;
    assert_eq!(ahead, NOW + 5000, "as far as another server can be ahead");
    assert_eq!(floor(PAST_THE_MARGIN + 1), PAST_THE_MARGIN + 1 + CONTEXT.start_margin_ms, "a clock was ahead");
}

#[test]
fn no_worker_begins_below_what_counts_for_all_in_wal() {
    let wal = Some(InWal { common: NOW + 9000, ..InWal::default() });
    let context = StartContext { wal, ..CONTEXT };
    let beginning = StartPoint { floor: NOW + 11_000, reason: StartReason::Missing };
    assert_eq!(decide(None, &this_server(), &context), Ok(beginning));
}

/// Its marks are known from WAL up to one that it has written itself, or that it found there.
#[test]
fn a_restart_finds_the_mark_of_somebody_who_has_continued_from_its_own_one_in_wal() {
    let begins_at = |wal_mark, mark| {
        let context = StartContext { wal: in_wal(wal_mark), last_life: Some(life(LIFE)), ..CONTEXT };
        decide(Some(&record(mark, this_server())), &this_server(), &context).unwrap()
    };
    let restart = StartPoint { floor: MARK, reason: StartReason::Restart };
    assert_eq!(begins_at(LOGGED, MARK), restart, "the mark was lowered at a planned stop");
    let continued = |floor| StartPoint { floor, reason: StartReason::Continued };
    assert_eq!(begins_at(LOGGED + 1, MARK), continued(LOGGED + 1), "a write that was cut off");
    assert_eq!(begins_at(NOW + 9000, MARK), continued(NOW + 9000));
    let ahead = StartPoint { floor: NOW + 9000, reason: StartReason::Restart };
    assert_eq!(begins_at(NOW + 9000, NOW + 9000), ahead);
}

#[test]
fn a_page_of_marks_that_has_the_one_of_the_worker_refuses_no_restart() {
    let wal = in_wal(LOGGED).map(|wal| InWal { layout: Some(this_server().layout), ..wal });
    let context = StartContext { wal, last_life: Some(life(LIFE)), ..CONTEXT };
    let restart = StartPoint { floor: MARK, reason: StartReason::Restart };
    assert_eq!(decide(Some(&record(MARK, this_server())), &this_server(), &context), Ok(restart));
}

/// The lowest marks are left out of a full page, and count for all that are not on it.
#[test]
fn a_restart_of_a_worker_that_is_not_listed_in_wal_begins_at_its_mark() {
    let begins_at = |common| {
        let (wal, last_life) = (Some(InWal { common, ..InWal::default() }), Some(life(LIFE)));
        let context = StartContext { wal, last_life, ..CONTEXT };
        let with =
            |logged| decide(Some(&Record { logged, ..record(MARK, this_server()) }), &this_server(), &context).unwrap();
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
        let mut identity = Identity { timeline: 2, ..this_server() };
        differ(&mut identity);
        decide(Some(&record(MARK, identity)), &this_server(), &StartContext { wal, last_life, ..CONTEXT })
    };
    for differ in [|_: &mut Identity| (), copied] {
        assert_eq!(decided(nothing, differ, None), Err(MarkConflict::NotInWal));
        assert!(decided(in_wal(NOW), differ, None).is_ok());
        assert!(decided(None, differ, None).is_ok(), "leased");
    }
    assert_eq!(decided(nothing, |_| (), Some(life(LIFE))), Err(MarkConflict::NotInWal), "in place");
    let with = decided(nothing, |old| old.worker = 6, None);
    assert_eq!(with.map(|start| start.reason), Ok(StartReason::OtherWorker), "with a worker of its own");
    let context = StartContext { wal: nothing, ..CONTEXT };
    let promoted = StartContext { was_standby: true, ..context };
    assert_eq!(decide(None, &this_server(), &promoted), Err(MarkConflict::NotInWal), "without a record");
    assert_eq!(
        decide(None, &this_server(), &context).map(|start| start.reason),
        Ok(StartReason::Missing),
        "a new server"
    );
    let others = Some(InWal { layout: Some(this_server().layout), ..InWal::default() });
    let beside = StartContext { wal: others, ..promoted };
    assert_eq!(
        decide(None, &this_server(), &beside).map(|start| start.reason),
        Ok(StartReason::Missing),
        "its own worker"
    );
    let here = StartContext { last_life: Some(life(LIFE)), ..promoted };
    assert_eq!(
        decide(None, &this_server(), &here).map(|start| start.reason),
        Ok(StartReason::Missing),
        "removed on purpose"
    );
}

/// `wal_mark` is off, here or on the server that had the worker before.
#[test]
fn a_worker_whose_mark_is_not_in_wal_is_refused_where_its_own_mark_is_not_known_either() {
    let wal = Some(InWal { is_unknown: true, layout: Some(this_server().layout), ..InWal::default() });
    let context = StartContext { wal, ..CONTEXT };
    fn reason(stored: Option<&Record>, context: StartContext) -> Result<StartReason, MarkConflict> {
        decide(stored, &this_server(), &context).map(|start| start.reason)
    }
    let refused = Err(MarkConflict::NotInWal);
    for was_standby in [true, false] {
        let context = StartContext { was_standby, ..context };
        assert_eq!(reason(None, context), refused, "without a record, also when a promoted server is started again");
        let other = LastLife { life: Life { worker: 6, ..life(LIFE).life }, elsewhere: false };
        assert_eq!(reason(None, StartContext { last_life: Some(other), ..context }), refused, "of another worker");
        let here = StartContext { last_life: Some(life(LIFE)), ..context };
        assert_eq!(reason(None, here), Ok(StartReason::Missing), "removed on purpose");
        assert_eq!(reason(Some(&record(MARK, this_server())), here), refused, "another server issues since");
        assert_eq!(reason(Some(&record(MARK, this_server())), context), refused, "restored beside its WAL");
        let last_record = Record { logged: 0, ..record(MARK, this_server()) };
        assert_eq!(reason(Some(&last_record), here), Ok(StartReason::Restart));
    }
    let promoted = record(MARK, Identity { timeline: 2, ..this_server() });
    assert_eq!(reason(Some(&promoted), context), refused);
    let others = record(MARK, Identity { worker: 6, ..this_server() });
    assert_eq!(reason(Some(&others), context), refused, "the primary's worker, on a server that had another one");
    let left = Record { others: OtherMarks::new([(5, MARK)], 0), ..others };
    assert_eq!(reason(Some(&left), context), Ok(StartReason::OtherWorker), "a worker that comes back");
    let older = Record { identity: Identity { timeline: 2, worker: 6, ..this_server() }, ..left };
    assert_eq!(reason(Some(&older), context), refused, "one that comes back after another server has had it");
    let leased = |lease| StartContext { lease: Some(lease), ..context };
    assert_eq!(reason(None, leased(LeaseStart::At(0))), Ok(StartReason::Leased), "the registry knows");
    assert_eq!(reason(None, leased(LeaseStart::First(0))), refused, "the registry knows of nobody");
    assert_eq!(reason(Some(&promoted), leased(LeaseStart::Continued(0))), Ok(StartReason::Promotion));
    let unreadable = StartContext { wal: Some(InWal::unreadable()), ..CONTEXT };
    assert_eq!(reason(None, unreadable), refused);
}

/// Somebody may have continued from there.
#[test]
fn a_restart_with_an_older_wal_than_its_writer_knew_begins_above_the_start_margin() {
    let begins_at = |wal_mark, logged| {
        let last_life = Some(life(LIFE));
        let context = StartContext { wal: in_wal(wal_mark), last_life, ..CONTEXT };
        decide(Some(&Record { logged, ..record(MARK, this_server()) }), &this_server(), &context).unwrap()
    };
    let by_registry = StartContext { last_life: Some(life(LIFE)), ..CONTEXT };
    let restart = StartPoint { floor: MARK, reason: StartReason::Restart };
    assert_eq!(
        decide(Some(&record(MARK, this_server())), &this_server(), &by_registry),
        Ok(restart),
        "WAL does not count"
    );
    let set_back = |floor| StartPoint { floor, reason: StartReason::WalSetBack };
    assert_eq!(begins_at(MARK - 1, LOGGED), set_back(PAST_THE_MARGIN));
    assert_eq!(begins_at(NOW + 9000, u64::MAX), set_back(NOW + 11_000), "WAL was ahead once");
}

#[test]
fn a_mark_in_wal_makes_up_for_a_record_that_is_not_the_last_one() {
    let beginning = Ok(StartPoint { floor: NOW + 11_000, reason: StartReason::WalMark });
    let wal_mark = Some(NOW + 9000);
    assert_eq!(decided_after(Some(life(7)), wal_mark, nothing), beginning);
    assert_eq!(decided_after(None, wal_mark, |old| old.worker = 6), beginning);
    assert_eq!(decided_after(None, wal_mark, copied), Err(MarkConflict::Copy), "not for a copy beside its original");
}

#[test]
fn a_mark_in_wal_from_before_the_last_life_makes_up_for_nothing() {
    let with = |wal_mark| LastLife { life: Life { wal_mark, ..life(7).life }, elsewhere: true };
    let context = StartContext { wal: in_wal(NOW), ..CONTEXT };
    for (logged, is_known) in [(0, false), (1, true), (NOW, true), (NOW + 1, false)] {
        let last = Some(with(logged));
        let context = StartContext { last_life: last, ..context };
        assert_eq!(decide(None, &this_server(), &context).is_ok(), is_known, "{logged}");
        assert_eq!(decided_after(last, Some(NOW), nothing).is_ok(), is_known, "{logged}");
    }
    let of_another_worker = Life { worker: 6, ..with(1).life };
    let last_life = Some(LastLife { life: of_another_worker, elsewhere: true });
    assert_eq!(decide(None, &this_server(), &StartContext { last_life, ..context }), Err(MarkConflict::LeftBehind));
}
