//! What a server does with its record, and with one that it has not written last.

use super::disk::Failure;
use super::server::Server;
use snowflake_core::UnixMs;
use snowflake_core::mark::record::Record;
use snowflake_core::mark::trace::Event;
use snowflake_core::mark::{Refusal, Storage, WalMark};

/// A server that has issued an ID, and extended its mark since.
fn running(wal_mark: WalMark) -> Server {
    let mut server = Server::new("t50 s1 epoch=0".parse().expect("a layout"), wal_mark);
    server.call(1);
    server.pass(10_000);
    server.call(1);
    let needed = server.generator.covered_until();
    assert!(server.extend(needed));
    server
}

#[test]
fn a_record_of_another_life_or_an_older_one_is_neither_extended_nor_lowered() {
    let changes: [fn(&mut Record); 2] = [|record| record.life += 1, |record| record.revision -= 1];
    for change in changes {
        let mut server = running(WalMark::Off);
        change(server.disk.record.as_mut().expect("a record"));
        let (replaced, needed, now) = (server.disk.record, server.generator.covered_until(), server.clock);
        let extended = server.mark().extend(|| needed, now);
        assert!(matches!(extended, Err(Failure::Refused(Refusal::Replaced))), "{extended:?}");
        let lowered = server.mark().lower();
        assert!(matches!(lowered, Err(Failure::Refused(Refusal::Replaced))), "{lowered:?}");
        assert_eq!(server.disk.record, replaced);
    }
}

/// As that of a server whose worker was given away while it wrote a mark.
#[test]
fn a_grant_below_what_may_be_issued_does_not_lower_the_mark() {
    let mut server = running(WalMark::Off);
    let (needed, record) = (server.generator.last_tick(), server.disk.record);
    server.disk.usable_until = server.layout.time_of(server.generator.covered_until()) - 1;
    let now = server.clock;
    let extended = server.mark().extend(|| needed, now);
    assert!(matches!(extended, Err(Failure::Refused(Refusal::LeaseEnded))), "{extended:?}");
    assert_eq!(server.disk.record, record);
}

#[test]
fn a_planned_stop_lowers_the_mark_to_just_above_the_last_id() {
    let mut server = running(WalMark::Off);
    let lowest = server.layout.time_of(server.generator.last_tick() + 1);
    assert!(server.disk.mark() > Some(lowest));
    server.mark().lower().expect("a lower mark");
    assert_eq!(server.disk.mark(), Some(lowest));
}

#[test]
fn a_record_says_how_far_the_mark_in_wal_was() {
    for wal_mark in [WalMark::Prefer, WalMark::Require] {
        let mut server = running(wal_mark);
        let disk = &mut server.disk;
        let in_wal = disk.read_wal(1).expect("what WAL says").highest();
        assert!(in_wal > 0);
        assert_eq!(server.disk.record.map(|record| record.logged), Some(in_wal));
    }
    assert_eq!(running(WalMark::Off).disk.record.map(|record| record.logged), Some(0));
}

/// By it, a replay knows that nothing more of it is written.
#[test]
fn an_extension_or_a_start_records_that_it_failed_if_it_has_recorded_that_it_goes_on() {
    let mut server = running(WalMark::Prefer);
    let (needed, recorded) = (server.generator.covered_until(), server.disk.trace.borrow().len());
    server.disk.usable_until = server.clock;
    assert!(!server.extend(needed), "the grant is too low");
    assert_eq!(server.disk.trace.borrow().len(), recorded);
    (server.disk.usable_until, server.disk.works) = (UnixMs::MAX, false);
    assert!(!server.extend(needed), "the disk does not work");
    assert!(matches!(server.disk.trace.borrow()[recorded..], [Event::Extends { .. }, Event::Failed {}]));
    server.happen(&super::events::Event::Crash);
    let now = server.clock;
    assert!(matches!(server.mark().start(now), Err(Failure::Disk)));
    assert!(matches!(server.disk.trace.borrow()[..], [.., Event::Starts { .. }, Event::Failed {}]));
}

#[test]
fn marks_go_to_wal_unless_they_are_off_and_must_go_there_if_that_is_required() {
    let modes = [WalMark::Off, WalMark::Prefer, WalMark::Require];
    assert_eq!(
        modes.map(|mode| (mode.is_written(), mode.is_required())),
        [(false, false), (true, false), (true, true)]
    );
}
