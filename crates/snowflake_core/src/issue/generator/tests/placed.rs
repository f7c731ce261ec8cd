//! Positions that a caller chooses.

use super::*;
use std::collections::BTreeSet;

fn step_where(policy: &Policy, generator: &Generator, now: Tick, fits: impl Fn(Position) -> bool) -> Outcome {
    let seen = generator.snapshot();
    generator.observe_clock(seen, now);
    generator.take_where(seen, now, policy, fits)
}

#[test]
fn the_first_position_that_fits_is_taken_and_those_before_it_are_nobody_s() {
    let generator = started(10, 1000);
    let odd = |position: Position| position & 1 == 1;
    assert_eq!(step_where(&BORROW, &generator, 100, odd), taken(100, 1, 1));
    assert_eq!(step_where(&BORROW, &generator, 100, odd), taken(100, 3, 3));
    assert_eq!(step_where(&BORROW, &generator, 100, odd), Outcome::Wait(101), "the tick is full");
    assert_eq!(step_where(&BORROW, &generator, 101, |position| position & 3 == 2), taken(101, 2, 2));
    assert_eq!(step(&generator, 101, 9), taken(101, 3, 3));
}

#[test]
fn a_tick_of_which_nothing_that_is_left_fits_counts_as_full() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 2), taken(100, 0, 1));
    let first = |position: Position| position & 3 == 0;
    assert_eq!(step_where(&BORROW, &generator, 100, first), Outcome::Wait(101));
    let policy = Policy { sequence_exhaustion: SequenceExhaustion::Borrow, ..BORROW };
    assert_eq!(step_where(&policy, &generator, 100, first), taken(101, 0, 0));
    let never = |_| false;
    assert!(matches!(step_where(&policy, &generator, 100, never), Outcome::Wait(_)), "it ends");
    assert_eq!(step(&generator, 101, 1), taken(101, 1, 1), "and takes nothing");
}

#[test]
fn the_open_tick_is_joined_by_a_position_that_fits_without_a_clock() {
    let generator = started(10, 1000);
    let multiple = |position: Position| position & 3 == 2;
    assert_eq!(generator.join_open_where(500, 100, multiple), None, "nobody has read the clock");
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    generator.keep_open(span(100, 0, 0), 600);
    assert_eq!(generator.join_open_where(500, 100, multiple), Some((100 << BITS) + 2));
    assert_eq!(generator.join_open_where(500, 100, multiple), None, "nothing that is left fits");
    assert_eq!(generator.join_open(500, 100, 1), Some(span(100, 3, 3)), "but it is not full");
    assert_eq!(generator.join_open_where(500, 100, |_| true), None, "now it is");
    assert_eq!(generator.join_open_where(600, 100, |_| true), None, "and its time is over");
}

#[test]
fn a_position_that_fits_is_not_above_the_mark() {
    let generator = started(10, 101);
    assert!(matches!(step_where(&BORROW, &generator, 100, |position| position & 3 == 3), Outcome::Taken(_)));
    assert_eq!(step_where(&BORROW, &generator, 101, |_| true), Outcome::Extend(101));
}

#[test]
fn what_was_skipped_counts_as_issued_nowhere() {
    let generator = started(10, 1000);
    let mut issued = BTreeSet::new();
    for now in 100..120 {
        for _ in 0..3 {
            if let Outcome::Taken(span) = step_where(&BORROW, &generator, now, |position| position % 3 == 0) {
                assert!(issued.insert(span.first));
            }
        }
        assert_eq!(generator.counts().issued, u64::try_from(issued.len()).unwrap(), "at {now}");
    }
    assert!(issued.iter().all(|position| position % 3 == 0));
}
