//! With a lease from a registry.

use super::*;
use crate::server::lease::LeaseStart;

#[test]
fn a_leased_worker_begins_where_the_registry_says_and_never_below_what_is_known_of_it() {
    let leased = |begins| StartContext { lease: Some(LeaseStart::At(begins)), ..CONTEXT };
    let begin = |floor| Ok(StartPoint { floor, reason: StartReason::Leased });
    assert_eq!(decide(None, &this_server(), &leased(MARK)), begin(MARK));
    let floored =
        StartContext { wal: Some(InWal { common: NOW, mark: Some(NOW + 1), ..InWal::default() }), ..leased(MARK) };
    assert_eq!(decide(None, &this_server(), &floored), begin(NOW + 1));
    // Whatever record is found: it is another worker's, or this worker's, as in a copy beside its original.
    for identity in [
        this_server(),
        Identity { system_identifier: 99, ..this_server() },
        Identity { timeline: this_server().timeline + 1, ..this_server() },
        Identity { directory: Inode { number: 77, born_ns: 78 }, ..this_server() },
    ] {
        let stored = record(MARK, identity);
        assert_eq!(decide(Some(&stored), &this_server(), &leased(MARK - 1)), begin(MARK));
        assert_eq!(decide(Some(&stored), &this_server(), &leased(MARK + 1)), begin(MARK + 1));
    }
}

#[test]
fn a_server_that_gets_another_worker_goes_on_above_its_own_ids_and_not_above_those_of_its_original() {
    let context = StartContext { lease: Some(LeaseStart::At(0)), ..CONTEXT };
    let former = Identity { worker: 8, ..this_server() };
    assert_eq!(decide(Some(&record(MARK, former)), &this_server(), &context).map(|start| start.floor), Ok(MARK));
    let copied = Identity { directory: Inode { number: 77, born_ns: 78 }, ..former };
    assert_eq!(decide(Some(&record(MARK, copied)), &this_server(), &context).map(|start| start.floor), Ok(0));
}

/// Servers that the registry does not know can have had the worker.
#[test]
fn a_worker_that_the_registry_has_leased_to_nobody_begins_above_the_margin_unless_its_own_mark_is_known() {
    let first = |begins| StartContext { lease: Some(LeaseStart::First(begins)), ..CONTEXT };
    let begin = |floor, reason| Ok(StartPoint { floor, reason });
    assert_eq!(decide(None, &this_server(), &first(0)), begin(PAST_THE_MARGIN, StartReason::Missing));
    let later = PAST_THE_MARGIN + 1;
    assert_eq!(decide(None, &this_server(), &first(later)), begin(later, StartReason::Missing), "after a restore");
    // Whatever became of another worker's mark.
    let other = record(MARK, Identity { worker: 6, ..this_server() });
    let lost = Life { worker: 6, ..life(LIFE + 7).life };
    let elsewhere = LastLife { elsewhere: true, life: lost };
    let moved = StartContext { last_life: Some(elsewhere), ..first(0) };
    assert_eq!(decide(Some(&other), &this_server(), &moved), begin(PAST_THE_MARGIN, StartReason::OtherWorker));
    // A copy beside its original is a copy, and a server that had the number before continues at its mark.
    let copied = record(MARK, Identity { directory: Inode { number: 77, born_ns: 78 }, ..this_server() });
    assert_eq!(decide(Some(&copied), &this_server(), &first(0)), Err(MarkConflict::Copy));
    let has_begun = StartContext { last_life: Some(life(LIFE)), ..first(0) };
    assert_eq!(
        decide(Some(&record(MARK, this_server())), &this_server(), &has_begun),
        begin(MARK, StartReason::Restart)
    );
    let gone = StartContext { last_life: Some(LastLife { elsewhere: true, ..life(LIFE) }), ..first(0) };
    assert_eq!(decide(None, &this_server(), &gone), Err(MarkConflict::LeftBehind));
}

#[test]
fn another_layout_is_refused_to_a_leased_worker_too() {
    let layout = "sonyflake".parse().expect("a preset");
    let stored = record(MARK, Identity { layout, ..this_server() });
    let context = StartContext { lease: Some(LeaseStart::At(NOW)), ..CONTEXT };
    assert_eq!(decide(Some(&stored), &this_server(), &context), Err(MarkConflict::OtherLayout));
}

#[test]
fn a_server_that_goes_on_with_its_lease_begins_as_any_other() {
    let context = StartContext { lease: Some(LeaseStart::Continued(0)), last_life: Some(life(LIFE)), ..CONTEXT };
    let without = StartContext { lease: None, ..context };
    let stored = record(MARK, this_server());
    assert_eq!(decide(Some(&stored), &this_server(), &context), decide(Some(&stored), &this_server(), &without));
    assert_eq!(decide(None, &this_server(), &context), decide(None, &this_server(), &without));
    // It was killed before its first mark in this lease: the record is of an earlier one.
    let begun = StartContext { lease: Some(LeaseStart::Continued(MARK + 1)), ..context };
    assert_eq!(decide(Some(&stored), &this_server(), &begun).map(|start| start.floor), Ok(MARK + 1));
}

#[test]
fn a_promoted_standby_with_a_leased_worker_begins_above_what_its_primary_has_not_sent() {
    let promoted = StartContext { was_standby: true, lease: Some(LeaseStart::At(MARK)), ..CONTEXT };
    assert_eq!(decide(None, &this_server(), &promoted).map(|start| start.floor), Ok(PAST_THE_MARGIN));
    let first = StartContext { was_standby: false, ..promoted };
    assert_eq!(decide(None, &this_server(), &first).map(|start| start.floor), Ok(MARK));
}

#[test]
fn a_leased_worker_begins_above_the_marks_of_other_workers_in_wal_that_a_right_clock_can_have_reached() {
    let beside = |others| StartContext {
        lease: Some(LeaseStart::At(MARK)),
        wal: Some(InWal { others, ..InWal::default() }),
        ..CONTEXT
    };
    let floor = |others| decide(None, &this_server(), &beside(others)).map(|start| start.floor);
    assert_eq!(floor(PAST_THE_MARGIN), Ok(PAST_THE_MARGIN));
    assert_eq!(floor(PAST_THE_MARGIN + 1), Ok(MARK), "a clock was wrong");
    assert_eq!(floor(MARK - 1), Ok(MARK));
}
