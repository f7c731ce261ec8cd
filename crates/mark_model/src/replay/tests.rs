//! What servers must not do, in a few events each.

use super::*;
use snowflake_core::mark::WalMark;
use snowflake_core::mark::trace::{Entry, Event, file};
use snowflake_core::server::identity::Inode;

const MARK: u64 = 2_000;
const WAL_MARK: u64 = WalMark::Prefer as u64;

/// A server whose lease begins at this time, and which has issued IDs up to another one.
fn leased(begins: u64, issued: u64) -> Vec<Event> {
    let mark = begins + MARK;
    let limit = begins + 10 * MARK;
    vec![
        Event::Boot { server: 1, copy_of: 0, is_standby: 0 },
        Event::Granted { worker: 3, begins, until: limit },
        Event::Begins { now: begins, timeline: 1, system_identifier: 5, directory: 6, worker: 3, layout: 1 << 32 },
        Event::FoundRecord { revision: 0, life: 0, previous_life: 0, mark: 0, logged: 0, of_worker: 0 },
        Event::FoundLife { number: 0, revision: 0, wal_mark: 0, worker: 0, is_elsewhere: 0 },
        Event::FoundInWal { mark: 0, is_unknown: 0, common: 0, layout: 0, others: 0, is_complete: 0 },
        Event::Decided { decision: 11, floor: begins, margin_ms: 1000, was_standby: 0, lease: 3, lease_begins: begins },
        Event::Starts { first: begins, mark, limit, wal_mark: WAL_MARK },
        Event::Logged { worker: 3, mark, counts: mark },
        Event::Recorded { revision: 1, life: 9, previous_life: 0, mark, logged: mark, others: 0 },
        Event::Born { number: 9, revision: 0, wal_mark: mark, worker: 3 },
        Event::Used { mark },
        Event::Extends { issued, mark: mark + 500, limit, wal_mark: WAL_MARK, jumps_to: 0 },
        Event::Logged { worker: 3, mark: mark + 500, counts: mark + 500 },
    ]
}

fn trace(file: u64, events: &[Event]) -> Trace {
    let entries = (1..).zip(events).map(|(number, &event)| Entry { number, at: 0, event }).collect();
    Trace { file, copy_of: 0, entries }
}

fn deviation(traces: &[Trace]) -> String {
    replay(traces, Touch::Nothing, World::ALONE).err().unwrap_or_default()
}

#[test]
fn a_server_that_keeps_to_its_lease_is_allowed() {
    assert_eq!(deviation(&[trace(1, &leased(5_000, 5_100))]), "");
}

#[test]
fn a_server_records_every_event_until_it_is_killed() {
    let whole = trace(1, &leased(5_000, 5_100));
    let without = |number: u64| {
        let mut trace = whole.clone();
        trace.entries.retain(|entry| entry.number != number);
        trace
    };
    // The first ones are missing where a file has turned.
    assert_eq!(without(1).gap(), None);
    assert_eq!(without(2).gap(), Some(1));
    assert!(deviation(&[without(2)]).contains("has not recorded all events"));
    let last = whole.entries.len() as u64;
    assert_eq!([last - 3, last - 2, last - 1].map(|number| without(number).gap().is_some()), [true, false, false]);
}

/// The server stops while a process extends the mark.
#[test]
fn a_process_can_end_when_wal_has_its_mark_and_nobody_knows() {
    let mut events = leased(5_000, 5_100);
    events.pop();
    let (mark, in_wal) = (5_000 + MARK, 5_000 + MARK + 500);
    let limit = 5_000 + 10 * MARK;
    events.extend([
        Event::Stops { issued: 5_100 },
        Event::Recorded { revision: 2, life: 9, previous_life: 0, mark: 5_100, logged: mark, others: 0 },
        Event::Boot { server: 2, copy_of: 0, is_standby: 0 },
        Event::Begins { now: 9_000, timeline: 1, system_identifier: 5, directory: 6, worker: 3, layout: 1 << 32 },
        Event::FoundRecord { revision: 2, life: 9, previous_life: 0, mark: 5_100, logged: mark, of_worker: 5_100 },
        Event::FoundLife { number: 9, revision: 0, wal_mark: mark, worker: 3, is_elsewhere: 0 },
        Event::FoundInWal { mark: in_wal, is_unknown: 0, common: 0, layout: 1 << 32, others: 0, is_complete: 0 },
        Event::Decided { decision: 4, floor: in_wal, margin_ms: 1000, was_standby: 0, lease: 0, lease_begins: 0 },
        Event::Starts { first: 9_000, mark: 9_000 + MARK, limit, wal_mark: WAL_MARK },
    ]);
    assert_eq!(deviation(&[trace(1, &events)]), "");
}

/// The same with a start, whose generator is there.
#[test]
fn a_start_can_end_when_its_generator_is_there_and_it_has_not_recorded_that() {
    let started = leased(5_000, 5_000);
    let born = started.iter().position(|event| matches!(event, Event::Born { .. })).expect("a life");
    let is_allowed = |events: usize, issued| {
        let stops = [Event::Stops { issued }];
        deviation(&[trace(1, &[&started[..events], &stops].concat())]).is_empty()
    };
    assert!(is_allowed(born + 1, 5_000));
    assert!(!is_allowed(born + 1, 5_001), "an ID without a mark that is used");
    assert!(!is_allowed(born, 5_000), "no generator is there");
}

#[test]
fn no_mark_passes_the_grant() {
    let mut events = leased(5_000, 5_100);
    let extends = |events: &Vec<Event>| events.len() - 2;
    for until in [5_000 + 10 * MARK, 5_000 + 20 * MARK] {
        events.insert(extends(&events), Event::GrantEnds { until });
        assert_eq!(deviation(&[trace(1, &events)]), "", "granted until {until}");
    }
    // The grants that this mark could go by are forgotten after it.
    let lowered = Event::GrantEnds { until: 5_000 + MARK };
    events.insert(extends(&events), lowered);
    let again = [
        Event::Recorded { revision: 2, life: 9, previous_life: 0, mark: 7_500, logged: 7_500, others: 0 },
        Event::Used { mark: 7_500 },
        Event::Extends { issued: 5_200, mark: 7_600, limit: 7_600, wal_mark: WAL_MARK, jumps_to: 0 },
    ];
    events.extend(&again[..2]);
    assert_eq!(deviation(&[trace(1, &events)]), "");
    events.push(again[2]);
    assert!(deviation(&[trace(1, &events)]).contains("does what the model cannot do"));
}

#[test]
fn a_start_needs_the_grant_that_it_goes_by() {
    let events = leased(5_000, 5_100);
    let granted = |event: Event| {
        let mut events = events.clone();
        events[1] = event;
        deviation(&[trace(1, &events)]).is_empty()
    };
    let (worker, begins, until) = (3, 5_000, 5_000 + 10 * MARK);
    assert!(granted(Event::Granted { worker, begins, until }));
    assert!(!granted(Event::Granted { worker: 4, begins, until }), "another worker");
    assert!(!granted(Event::Granted { worker, begins: 5_001, until }), "a later beginning");
    assert!(!granted(Event::Granted { worker, begins, until: until - 1 }), "an earlier end");
    assert!(!granted(Event::GrantEnds { until }), "none");
}

const NO_RECORD: Event =
    Event::FoundRecord { revision: 0, life: 0, previous_life: 0, mark: 0, logged: 0, of_worker: 0 };
const NO_LIFE: Event = Event::FoundLife { number: 0, revision: 0, wal_mark: 0, worker: 0, is_elsewhere: 0 };

fn begins(now: u64, timeline: u64) -> Event {
    Event::Begins { now, timeline, system_identifier: 5, directory: 6, worker: 3, layout: 1 << 32 }
}

fn in_wal(mark: u64, layout: u64) -> Event {
    Event::FoundInWal { mark, is_unknown: 0, common: 0, layout, others: 0, is_complete: 0 }
}

/// A start above the margin.
fn decided(decision: u64, now: u64, was_standby: u64) -> Event {
    let (floor, margin_ms) = (now + 1000, 1000);
    Event::Decided { decision, floor, margin_ms, was_standby, lease: 0, lease_begins: 0 }
}

fn starts(first: u64, mark: u64) -> Event {
    Event::Starts { first, mark, limit: u64::MAX, wal_mark: WAL_MARK }
}

fn deviation_of_copies(traces: &[Trace]) -> String {
    replay(traces, Touch::Files, World::ALONE).err().unwrap_or_default()
}

#[test]
fn a_primary_can_end_when_its_standby_has_its_mark_and_it_has_not_recorded_that() {
    let mut primary = leased(5_000, 5_100);
    let Some(Event::Logged { counts: sent, .. }) = primary.pop() else { panic!("the last mark") };
    let is_allowed = |primary: &[Event], found| {
        let boot = Event::Boot { server: 2, copy_of: 8, is_standby: 1 };
        let begins = [boot, begins(30_000, 2), NO_RECORD, NO_LIFE, in_wal(found, 1 << 32), decided(3, 30_000, 1)];
        let of_copy = trace(2, &[&begins[..], &[starts(31_000, 32_000)]].concat());
        deviation_of_copies(&[trace(1, primary), Trace { copy_of: 8, ..of_copy }]).is_empty()
    };
    assert!(is_allowed(&primary, sent));
    assert!(!is_allowed(&primary, sent + 1), "nobody was to write that");
    let Some(Event::Extends { mark, .. }) = primary.last_mut() else { panic!("an extension") };
    *mark = 5_200;
    assert!(is_allowed(&primary, 5_000 + MARK + 1), "one above the mark that is there");
    primary.push(Event::Failed {});
    assert!(!is_allowed(&primary, 5_000 + MARK + 1), "it has gone on without");
    let starts = primary.iter().position(|event| matches!(event, Event::Starts { .. })).expect("a start");
    assert!(is_allowed(&primary[..=starts], 5_000 + MARK));
}

/// A primary whose state directory is elsewhere is made anew from the one that took over, which had not seen its last
/// mark, and is promoted again: it finds its own record, no life, and an earlier mark in WAL.
#[test]
fn a_record_that_a_start_finds_was_written_by_somebody() {
    let (sent, last, again) = (7_000, 8_000, 30_000);
    let logged = |mark| Event::Logged { worker: 3, mark, counts: mark };
    let recorded =
        |revision, mark| Event::Recorded { revision, life: 9, previous_life: 0, mark, logged: mark, others: 0 };
    let looks = |now| [begins(now, 1), NO_RECORD, NO_LIFE, in_wal(0, 0), decided(10, now, 0)];
    let before = [
        &[Event::Boot { server: 1, copy_of: 0, is_standby: 0 }],
        &looks(4_000)[..],
        &[Event::Waits { until: 5_000 }],
        &looks(5_000),
        &[starts(5_000, sent), logged(sent), recorded(1, sent)],
        &[Event::Born { number: 9, revision: 0, wal_mark: sent, worker: 3 }, Event::Used { mark: sent }],
        &[Event::Extends { issued: 6_000, mark: last, limit: u64::MAX, wal_mark: WAL_MARK, jumps_to: 0 }],
        &[logged(last), recorded(2, last), Event::Used { mark: last }],
    ];
    let after = [
        Event::Boot { server: 2, copy_of: 8, is_standby: 1 },
        begins(again, 3),
        Event::FoundRecord { revision: 2, life: 9, previous_life: 0, mark: last, logged: last, of_worker: last },
        NO_LIFE,
        in_wal(sent, 1 << 32),
        decided(2, again, 1),
        starts(again + 1000, again + MARK),
    ];
    let (before, of_copy) = (trace(1, &before.concat()), Trace { copy_of: 8, ..trace(2, &after) });
    assert_eq!(deviation_of_copies(&[before, of_copy.clone()]), "");
    // Whoever makes the data directory anew has to keep what was recorded there.
    assert!(deviation_of_copies(&[of_copy]).contains("does what the model cannot do"));
}

#[test]
fn the_first_events_of_a_copy_that_has_lost_its_beginning_are_of_the_server_that_it_was_copied_from() {
    let boot = |server, copy_of| Event::Boot { server, copy_of, is_standby: 0 };
    let [original, copy] = [1, 2];
    let shared = [Event::Used { mark: MARK }, boot(original, 0), Event::Used { mark: MARK + 1 }];
    for lost in 0..=shared.len() {
        let events = [&shared[lost..], &[boot(copy, original), Event::Failed {}]].concat();
        let mut bytes = file::header(copy, Inode { number: 3, born_ns: 4 }).to_vec();
        let entries = (1..).zip(events).map(|(number, event)| Entry { number, at: 0, event }.encode());
        bytes.extend(entries.flatten());
        let of = |traces: &[Trace], file| {
            traces.iter().filter(|trace| trace.file == file).map(|trace| trace.entries.len()).sum::<usize>()
        };
        let traces = collect(&[bytes]);
        assert_eq!([original, copy].map(|file| of(&traces, file)), [shared.len() - lost, 2], "without {lost}");
    }
}
