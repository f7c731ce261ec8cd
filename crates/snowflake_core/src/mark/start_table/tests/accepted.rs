//! A record that a person accepts.

use super::*;

fn accepted_mark(record: &Record, identity: &Identity) -> Option<UnixMs> {
    accept(Some(record), identity, &CONTEXT, false).map(|(mark, _)| mark)
}

#[test]
fn an_accepted_mark_begins_above_the_start_margin() {
    let record = record(NOW + 100, Identity { system_identifier: 8, ..this_server() });
    assert_eq!(accepted_mark(&record, &this_server()), Some(PAST_THE_MARGIN));
    assert_eq!(accept(None, &this_server(), &CONTEXT, false).unwrap().0, PAST_THE_MARGIN);
}

#[test]
fn an_acceptance_keeps_the_marks_of_other_workers() {
    let record = record(NOW + 90_000, Identity { worker: 6, ..this_server() });
    let (mark, others) = accept(Some(&record), &this_server(), &CONTEXT, false).unwrap();
    assert_eq!((mark, others.mark_of(6)), (PAST_THE_MARGIN, NOW + 90_000));
}

#[test]
fn another_layout_is_accepted_only_where_new_ids_are_greater_than_all_old_ones() {
    let accepted = |old: &str, new: &str| {
        let identity = Identity { layout: new.parse().unwrap(), ..this_server() };
        accepted_mark(&record(NOW + 100, Identity { layout: old.parse().unwrap(), ..identity }), &identity).is_some()
    };
    assert!(accepted("twitter", "flat"), "the same bits under other names");
    assert!(accepted("twitter epoch=2024-01-01T00:00:00Z", "twitter"), "an earlier epoch makes IDs greater");
    assert!(!accepted("twitter", "twitter epoch=2024-01-01T00:00:00Z"), "a later one, smaller");
}

#[test]
fn another_layout_begins_above_the_marks_of_all_workers() {
    let identity = Identity { layout: "twitter".parse().unwrap(), worker: 6, ..this_server() };
    let others = OtherMarks::new([(7, NOW + 20_000)], 0);
    let record = Record { others, ..record(NOW + 9000, identity) };
    for forced in [false, true] {
        let (mark, others) = accept(Some(&record), &this_server(), &CONTEXT, forced).unwrap();
        assert_eq!([mark, others.mark_of(6), others.mark_of(7), others.mark_of(8)], [NOW + 20_000; 4]);
    }
}

/// A standby with a state directory of its own has no record when it is promoted.
#[test]
fn a_server_with_another_layout_than_its_cluster_issues_nothing_before_that_is_accepted() {
    let later: Layout = "twitter epoch=2012-01-01T00:00:00Z".parse().unwrap();
    let earlier: Layout = "twitter epoch=2009-01-01T00:00:00Z".parse().unwrap();
    let with = |mark, layout| Some(InWal { mark: Some(mark), layout: Some(layout), ..InWal::default() });
    let context = |layout| StartContext { wal: with(NOW, layout), ..CONTEXT };
    let last_record = record(MARK, this_server());
    for stored in [None, Some(&last_record)] {
        assert_eq!(
            decide(stored, &this_server(), &context(earlier)),
            Err(MarkConflict::OtherLayoutInWal(earlier)),
            "{stored:?}"
        );
        assert!(decide(stored, &this_server(), &context(this_server().layout)).is_ok(), "its own layout");
        let accepted = |layout, forced| accept(stored, &this_server(), &context(layout), forced).map(|(mark, _)| mark);
        let begins = Some(NOW + CONTEXT.start_margin_ms);
        assert_eq!(accepted(later, false), begins, "IDs are above those with a later epoch");
        assert_eq!(accepted(earlier, false), None, "IDs of that layout are greater");
        assert_eq!(accepted(earlier, true), begins, "forced");
    }
    let accepted = StartContext { wal: with(MARK, earlier), last_life: Some(life(LIFE)), ..CONTEXT };
    let record = Record { logged: 0, ..last_record };
    assert_eq!(decide(Some(&record), &this_server(), &accepted).map(|start| start.reason), Ok(StartReason::Restart));
}
