//! Callers, and an extension of the mark.

use super::{BITS, BORROW, HISTORY, Server, explore, positions};
use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread;
use snowflake_core::Position;

fn assert_unique(mut all: Vec<Position>) {
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "issued twice: {all:?}");
}

#[test]
fn two_callers_and_an_extension_issue_nothing_twice_and_nothing_above_the_mark() {
    explore(|| {
        let server = Server::new(BORROW, 2);
        server.generator.start(2, 1);
        let callers = [(1, 1), (2, 2)].map(|(now, want)| {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                let taken = positions([server.take(now, want), server.take(now + 1, 1)]);
                assert!(taken.is_sorted(), "a caller's own positions are in order: {taken:?}");
                taken
            })
        });
        server.extend(4);
        assert_unique(callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect());
    });
}

#[test]
fn a_block_beside_callers_and_an_extension_is_whole_and_nobody_else_s() {
    explore(|| {
        let server = Server::new(BORROW, 2);
        server.generator.start(2, 1);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || positions([other.take(2, 1), other.take(3, 1)]));
        let other = Arc::clone(&server);
        let blocks = thread::spawn(move || positions([other.block(2, 2), other.block(3, 1 << BITS)]));
        server.extend(4);
        assert_unique([caller, blocks].into_iter().flat_map(|caller| caller.join().unwrap()).collect());
    });
}

#[test]
fn a_caller_that_chooses_its_positions_beside_others_issues_nothing_twice_and_nothing_above_the_mark() {
    explore(|| {
        let server = Server::new(BORROW, 2);
        server.generator.start(2, 1);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || positions([other.take(2, 1), other.take_by_counter(1)]));
        let other = Arc::clone(&server);
        let chooser = thread::spawn(move || positions([other.odd(2), other.odd(3)]));
        server.extend(4);
        assert_unique([caller, chooser].into_iter().flat_map(|caller| caller.join().unwrap()).collect());
    });
}

/// Beside a caller that opens ticks, and an extension of the mark.
#[test]
fn callers_without_a_clock_issue_nothing_twice_and_nothing_above_the_mark() {
    explore(|| {
        let server = Server::new(BORROW, 2);
        server.generator.start(2, 1);
        let other = Arc::clone(&server);
        let opener = thread::spawn(move || positions([other.take(2, 1), other.take(3, 1)]));
        let other = Arc::clone(&server);
        let joiner = thread::spawn(move || {
            let taken = positions([other.take_by_counter(1), other.take_by_counter(2)]);
            assert!(taken.is_sorted(), "a caller's own positions are in order: {taken:?}");
            taken
        });
        server.extend(4);
        assert_unique([opener, joiner].into_iter().flat_map(|caller| caller.join().unwrap()).collect());
    });
}

#[test]
fn nothing_below_the_floor_is_issued_while_the_generator_starts() {
    explore(|| {
        let server = Server::new(BORROW, 5);
        let callers = [3, 6].map(|now| {
            let server = Arc::clone(&server);
            thread::spawn(move || positions([server.take(now, 2)]))
        });
        server.generator.start(5, 4);
        server.extend(8);
        let all: Vec<_> = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
        assert!(all.iter().all(|position| position >> BITS >= 5), "issued below the floor: {all:?}");
        assert_unique(all);
    });
}

#[test]
fn a_batch_and_a_single_call_share_a_tick_without_a_gap_or_an_overlap() {
    explore(|| {
        let server = Server::new(BORROW, 9);
        server.generator.start(1, 1);
        server.generator.cover(9, 9);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || positions([other.take(3, 1), other.take(3, 1)]));
        let mut all = positions([server.take(3, 2)]);
        all.extend(caller.join().unwrap());
        assert_unique(all);
        assert_eq!(server.generator.last_tick(), 3, "a full tick waits");
        assert_eq!(server.generator.counts().issued, 2);
    });
}

/// Two callers come to the point where an extension is due, and what they do crosses an extension by somebody else.
#[test]
fn the_limit_holds_while_an_extension_is_taken_on() {
    explore(|| {
        let server = Server::new(BORROW, 4);
        server.generator.start(2, 2);
        server.generator.cover(3, 4);
        let callers = [3, 4].map(|now| {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                let first = server.take(now, 1);
                server.generator.take_on_extension();
                positions([first, server.take(now, 1)])
            })
        });
        server.extend(5);
        assert_unique(callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect());
    });
}

#[test]
fn nothing_at_or_below_an_advance_is_issued_after_it() {
    explore(|| {
        let server = Server::new(BORROW, 9);
        server.generator.start(1, 1);
        server.generator.cover(9, 9);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || positions([other.take(3, 2), other.take(4, 1)]));
        server.generator.advance(4);
        let after = positions([server.take(4, 2)]);
        assert!(after.iter().all(|position| position >> BITS > 4), "issued below the advance: {after:?}");
        let mut all = after;
        all.extend(caller.join().unwrap());
        let issued = server.generator.counts().issued;
        assert_eq!(issued, all.len() as u64);
        assert_unique(all);
    });
}

/// One caller's clock has gone back, to a tick that the other one closes, or skips, just now.
#[test]
fn nothing_is_issued_twice_from_the_history_of_a_tick_that_is_being_closed() {
    explore(|| {
        let server = Server::new(HISTORY, 9);
        server.generator.start(1, 1);
        server.generator.cover(9, 9);
        let first = positions([server.take(3, 1)]);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || positions([other.take(5, 1), other.take(3, 1)]));
        let mut all = positions([server.take(3, 1), server.take(4, 2)]);
        all.extend(first);
        all.extend(caller.join().unwrap());
        assert_eq!(server.generator.counts().issued, all.len() as u64);
        assert_unique(all);
    });
}

/// Both have gone back, and want the same.
#[test]
fn two_callers_share_what_a_past_tick_has_left_over() {
    explore(|| {
        let server = Server::new(HISTORY, 9);
        server.generator.start(1, 1);
        server.generator.cover(9, 9);
        let mut all = positions([server.take(3, 1), server.take(5, 1)]);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || positions([other.take(3, 1), other.take(4, 1)]));
        all.extend(positions([server.take(4, 2), server.take(3, 1)]));
        all.extend(caller.join().unwrap());
        assert_unique(all);
    });
}

/// The ring has four entries: a tick that is closed late must not bring back what another has taken in its place.
#[test]
fn nothing_is_issued_twice_when_the_ring_of_past_ticks_has_turned() {
    explore(|| {
        let server = Server::new(HISTORY, 20);
        server.generator.start(1, 1);
        server.generator.cover(20, 20);
        let mut all = positions([server.take(3, 1)]);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || positions([other.take(7, 1)]));
        all.extend(positions([server.take(11, 1), server.take(7, 2)]));
        all.extend(caller.join().unwrap());
        assert_unique(all);
    });
}

#[test]
fn nothing_at_or_below_an_advance_is_taken_from_the_history_after_it() {
    explore(|| {
        let server = Server::new(HISTORY, 9);
        server.generator.start(1, 1);
        server.generator.cover(9, 9);
        let mut all = positions([server.take(3, 1)]);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || positions([other.take(5, 1), other.take(4, 1)]));
        server.generator.advance(4);
        let after = positions([server.take(3, 1), server.take(4, 1)]);
        assert!(after.iter().all(|position| position >> BITS > 4), "issued below the advance: {after:?}");
        all.extend(after);
        all.extend(caller.join().unwrap());
        assert_unique(all);
    });
}

/// The model is worth something only if it notices the mistake that it is there for.
#[test]
#[should_panic(expected = "issued above the durable mark")]
fn the_model_catches_a_limit_that_is_raised_before_the_mark_is_durable() {
    explore(|| {
        let server = Server::new(BORROW, 2);
        server.generator.start(2, 1);
        let other = Arc::clone(&server);
        let caller = thread::spawn(move || other.take(2, 1));
        server.generator.cover(4, 4);
        server.disk.store(4, Ordering::Relaxed);
        caller.join().unwrap();
    });
}
