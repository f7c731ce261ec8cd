//! With a lease from a registry.

use super::*;
use crate::server::lease::LeaseStart;

#[test]
fn a_leased_worker_begins_where_the_registry_says_and_never_below_what_is_known_of_it() {
    let leased = |begins| StartContext { lease: Some(LeaseStart::At(begins)), ..CONTEXT };
    let begin = |floor| Ok(StartPoint { floor, reason: StartReason::Leased });
    assert_eq!(decide(None, &own(), &leased(MARK)), begin(MARK));
    let floored =
        StartContext { wal: Some(InWal { rest: NOW, mark: Some(NOW + 1), ..InWal::default() }), ..leased(MARK) };
    assert_eq!(decide(None, &own(), &floored), begin(NOW + 1));
    // Whatever record is found: it is another worker's, or this worker's, as in a copy beside its original.
    for identity in [
        own(),
        Identity { system_identifier: 99, ..own() },
        Identity { timeline: own().timeline + 1, ..own() },
        Identity { directory: Inode { number: 77, born_ns: 78 }, ..own() },
    ] {
        let found = record(MARK, identity);
        assert_eq!(decide(Some(&found), &own(), &leased(MARK - 1)), begin(MARK));
        assert_eq!(decide(Some(&found), &own(), &leased(MARK + 1)), begin(MARK + 1));
    }
}

#[test]
fn a_server_that_gets_another_worker_goes_on_above_its_own_ids_and_not_above_those_of_its_original() {
    let context = StartContext { lease: Some(LeaseStart::At(0)), ..CONTEXT };
    let before = Identity { worker: 8, ..own() };
    assert_eq!(decide(Some(&record(MARK, before)), &own(), &context).map(|start| start.floor), Ok(MARK));
    let copied = Identity { directory: Inode { number: 77, born_ns: 78 }, ..before };
    assert_eq!(decide(Some(&record(MARK, copied)), &own(), &context).map(|start| start.floor), Ok(0));
}

/// Servers that the registry does not know can have had the worker.
#[test]
fn a_worker_that_the_registry_has_leased_to_nobody_begins_above_the_margin_unless_its_own_mark_is_known() {
    let first = |begins| StartContext { lease: Some(LeaseStart::First(begins)), ..CONTEXT };
    let begin = |floor, reason| Ok(StartPoint { floor, reason });
    assert_eq!(decide(None, &own(), &first(0)), begin(PAST_THE_MARGIN, StartReason::Missing));
    let later = PAST_THE_MARGIN + 1;
    assert_eq!(decide(None, &own(), &first(later)), begin(later, StartReason::Missing), "after a restore");
    // Whatever became of another worker's mark.
    let other = record(MARK, Identity { worker: 6, ..own() });
    let lost = Life { worker: 6, ..life(LIFE + 7).life };
    let elsewhere = LastLife { elsewhere: true, life: lost };
    let moved = StartContext { last_life: Some(elsewhere), ..first(0) };
    assert_eq!(decide(Some(&other), &own(), &moved), begin(PAST_THE_MARGIN, StartReason::OtherWorker));
    // A copy beside its original is a copy, and a server that had the number before goes on at its mark.
    let copied = record(MARK, Identity { directory: Inode { number: 77, born_ns: 78 }, ..own() });
    assert_eq!(decide(Some(&copied), &own(), &first(0)), Err(MarkConflict::Copy));
    let before = StartContext { last_life: Some(life(LIFE)), ..first(0) };
    assert_eq!(decide(Some(&record(MARK, own())), &own(), &before), begin(MARK, StartReason::Restart));
    let gone = StartContext { last_life: Some(LastLife { elsewhere: true, ..life(LIFE) }), ..first(0) };
    assert_eq!(decide(None, &own(), &gone), Err(MarkConflict::LeftBehind));
}

#[test]
fn another_layout_is_refused_to_a_leased_worker_too() {
    let layout = "sonyflake".parse().expect("a preset");
    let found = record(MARK, Identity { layout, ..own() });
    let context = StartContext { lease: Some(LeaseStart::At(NOW)), ..CONTEXT };
    assert_eq!(decide(Some(&found), &own(), &context), Err(MarkConflict::OtherLayout));
}

#[test]
fn a_server_that_goes_on_with_its_lease_begins_as_any_other() {
    let context = StartContext { lease: Some(LeaseStart::Continued(0)), last_life: Some(life(LIFE)), ..CONTEXT };
    let without = StartContext { lease: None, ..context };
    let found = record(MARK, own());
    assert_eq!(decide(Some(&found), &own(), &context), decide(Some(&found), &own(), &without));
    assert_eq!(decide(None, &own(), &context), decide(None, &own(), &without));
    // It was killed before its first mark in this lease: the record is of an earlier one.
    let begun = StartContext { lease: Some(LeaseStart::Continued(MARK + 1)), ..context };
    assert_eq!(decide(Some(&found), &own(), &begun).map(|start| start.floor), Ok(MARK + 1));
}
