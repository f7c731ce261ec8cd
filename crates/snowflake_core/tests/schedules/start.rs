//! Starts that have to wait, or that fail and are tried again.

use super::events::Event;
use super::server::{MAX_BORROW, RESERVE_AHEAD, Server};
use snowflake_core::UnixMs;
use snowflake_core::issue::policy::ClockRegression;
use snowflake_core::mark::wal_page::PageHorizon;
use snowflake_core::mark::{Begin, Storage, WalMark};

fn new_server(wal_mark: WalMark) -> Server {
    Server::new("t50 s1 epoch=0".parse().expect("a layout"), wal_mark)
}

fn start(server: &mut Server) -> Begin {
    let now = server.clock;
    server.mark().start(now).expect("a disk that works")
}

/// Where the server begins, and whether it had to wait.
fn floor(begin: Begin) -> (UnixMs, bool) {
    match begin {
        Begin::At { point, was_pending, was_copied_up: false } => (point.floor, was_pending),
        begin => panic!("{begin:?}"),
    }
}

#[test]
fn a_server_without_a_mark_waits_for_the_time_that_it_said_first_and_begins_there() {
    for (late, is_lost) in [(0, false), (700, false), (0, true), (700, true)] {
        let mut server = new_server(WalMark::Off);
        if is_lost {
            server.call(1);
            server.pass(MAX_BORROW);
            server.call(1);
            assert!(!server.received.is_empty());
            server.happen(&Event::Crash);
            server.disk.lose();
        }
        let Begin::Waiting(point) = start(&mut server) else { panic!("no wait") };
        assert!(point.floor > server.clock && point.reason.relies_on_clock());
        assert_eq!(point.floor, server.clock + MAX_BORROW, "as far ahead as another server can have been");
        // A server that nobody has waited for yet is not ahead of its clock.
        let until = server.clock + if is_lost { RESERVE_AHEAD } else { MAX_BORROW };
        while server.clock < until {
            assert!(matches!(start(&mut server), Begin::Pending(end) if end == until));
            server.pass(1);
        }
        server.pass(late);
        let begin = point.floor.max(server.clock);
        assert_eq!(floor(start(&mut server)), (begin, true), "not the margin anew");
    }
}

/// Meanwhile, another server can have had the worker.
#[test]
fn no_id_is_of_a_time_before_the_start_wherever_the_clock_goes_then() {
    let policies = [ClockRegression::Borrow, ClockRegression::Wait, ClockRegression::Error, ClockRegression::History];
    for (regression, end, issues_first) in policies.into_iter().flat_map(|policy| {
        [(policy, Event::Shutdown, true), (policy, Event::Crash, true), (policy, Event::Shutdown, false)]
    }) {
        let mut server = new_server(WalMark::Prefer);
        server.policy.clock_regression = regression;
        server.call(1);
        server.pass(10_000);
        server.call(1);
        server.happen(&end);
        server.pass(60_000);
        let (began, before) = (server.clock, server.received.len());
        assert!(matches!(start(&mut server), Begin::At { .. }));
        if issues_first {
            server.call(1);
        }
        server.happen(&Event::Step(-9000));
        for _ in 0..120 {
            server.pass(100);
            server.call(10);
        }
        let since = &server.received[before..];
        assert!(since.len() > 10, "it goes on when the clock is near");
        let first = since.iter().min().map(|position| server.layout.time_of(position >> server.layout.sequence_bits()));
        assert!(first >= Some(began), "{regression}: {first:?} after a start at {began}");
    }
}

#[test]
fn a_start_that_fails_after_its_mark_is_in_wal_does_not_begin_further_ahead_when_it_is_tried_again() {
    let begins_after = |failures| {
        let mut server = new_server(WalMark::Prefer);
        server.call(1);
        server.pass(10_000);
        server.call(1);
        // WAL alone says where to begin.
        server.happen(&Event::FailOver(WalMark::Prefer, 0));
        for failure in 0..failures {
            // WAL once, and never the record.
            server.disk.writes_left = usize::from(failure == 0);
            let now = server.clock;
            assert!(server.mark().start(now).is_err(), "the record cannot be written");
        }
        server.disk.writes_left = usize::MAX;
        floor(start(&mut server))
    };
    let (begins, was_pending) = begins_after(0);
    assert!(!was_pending);
    assert_eq!([1, 2, 5].map(begins_after), [(begins, false); 3]);
}

#[test]
fn wal_says_of_a_server_without_marks_there_that_it_has_none_before_it_issues_an_id() {
    let mut server = new_server(WalMark::Off);
    server.happen(&Event::Crash);
    server.call(1);
    server.pass(10_000);
    let in_wal = |server: &mut Server| {
        let disk = &mut server.disk;
        disk.read_wal(1).expect("what WAL says")
    };
    assert!(in_wal(&mut server).is_unwritten());
    server.call(1);
    assert!(server.generator.is_started() && in_wal(&mut server).is_unknown);
    // Another worker had marks there meanwhile, and with them came a horizon.
    server.disk.wal.horizon = PageHorizon::Below(1);
    server.happen(&Event::Crash);
    server.call(1);
    assert!(server.generator.is_started() && in_wal(&mut server).horizon == PageHorizon::Unknown);
}
