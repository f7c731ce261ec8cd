//! A tick that is joined without a look at the clock.

use super::*;

#[test]
fn an_open_tick_is_joined_without_a_clock_until_the_count_that_was_said() {
    let generator = started(10, 1000);
    assert_eq!(generator.join_open(500, 100, 1), None, "nobody has read the clock");
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    generator.keep_open(span(100, 0, 0), 600);
    for (count, sequence) in [(500, 1), (599, 2)] {
        assert_eq!(generator.join_open(count, 100, 1).map(Outcome::Taken), Some(taken(100, sequence, sequence)));
    }
    for count in [600, 601, 499, 0, u64::MAX] {
        assert_eq!(generator.join_open(count, 100, 1), None, "{count} is not within 100 counts before 600");
    }
    assert_eq!(generator.join_open(599, 100, 9).map(Outcome::Taken), Some(taken(100, 3, 3)));
    assert_eq!(generator.join_open(599, 100, 1), None, "the tick is full");
}

#[test]
fn without_a_counter_no_tick_is_joined_by_it() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    generator.keep_open(span(100, 0, 0), 0);
    assert_eq!(generator.join_open(0, 0, 1), None);
}

#[test]
fn no_tick_is_joined_before_the_start_or_below_an_advance() {
    let generator = Generator::new(BITS);
    generator.keep_open(span(0, 0, 0), 600);
    assert_eq!(generator.join_open(599, 100, 1), None);
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    generator.keep_open(span(100, 0, 0), 600);
    generator.advance(100);
    assert_eq!(generator.join_open(599, 100, 1), None);
}

#[test]
fn a_tick_ahead_of_the_clock_is_joined_once_the_policy_has_let_it_be_opened() {
    let policy = Policy { sequence_exhaustion: SequenceExhaustion::Borrow, ..BORROW };
    let generator = started(10, 1000);
    assert_eq!(step_by(&policy, &generator, 100, 9), taken(100, 0, 3));
    let first = step_by(&policy, &generator, 100, 1);
    assert_eq!(first, taken(101, 0, 0), "borrowed");
    generator.keep_open(span(101, 0, 0), 600);
    assert_eq!(generator.join_open(599, 100, 1), Some(span(101, 1, 1)));
    assert_eq!(generator.counts().borrowed, 2, "it counts as borrowed, too");
}

#[test]
fn what_comes_from_the_history_does_not_open_the_last_tick() {
    let generator = started(10, 1000);
    for now in [95, 96, 100] {
        assert_eq!(step_by(&HISTORY, &generator, now, 1), taken(now, 0, 0));
    }
    assert_eq!(step_by(&HISTORY, &generator, 95, 1), taken(95, 1, 1));
    generator.keep_open(span(95, 1, 1), 600);
    assert_eq!(generator.join_open(599, 100, 1), None);
}

#[test]
fn a_tick_that_was_shut_is_not_joined_without_a_clock() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    generator.keep_open(span(100, 0, 0), 600);
    generator.shut();
    assert_eq!(generator.join_open(599, 100, 1), None);
    assert_eq!(step(&generator, 100, 1), taken(100, 1, 1), "by the clock it is");
}
