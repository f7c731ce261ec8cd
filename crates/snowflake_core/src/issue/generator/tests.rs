mod open;
mod outlook;
mod placed;
mod policies;

use super::*;
use crate::issue::policy::{ClockRegression, SequenceExhaustion};

const BITS: u32 = 2; // Four IDs a tick, so that ticks fill up quickly.
const MAX_BORROW: Tick = 50;

/// What the tests are about if they say nothing else.
const BORROW: Policy = Policy {
    clock_regression: ClockRegression::Borrow,
    sequence_exhaustion: SequenceExhaustion::Wait,
    sequence_start: SequenceStart::Zero,
    max_borrow: MAX_BORROW,
};
const WAIT: Policy = Policy { clock_regression: ClockRegression::Wait, ..BORROW };
const ERROR: Policy = Policy { clock_regression: ClockRegression::Error, ..BORROW };
const HISTORY: Policy = Policy { clock_regression: ClockRegression::History, ..BORROW };

/// A generator that was started at tick 90.
fn started(floor: Tick, covered_until: Tick) -> Generator {
    let generator = Generator::new(BITS);
    generator.start(floor, 90);
    generator.cover(covered_until, covered_until);
    generator
}

/// Takes as the extension does, for a clock that shows `now`.
fn step(generator: &Generator, now: Tick, want: u32) -> Outcome {
    step_by(&BORROW, generator, now, want)
}

fn step_by(policy: &Policy, generator: &Generator, now: Tick, want: u32) -> Outcome {
    if let Some(span) = generator.join(now, want) {
        return Outcome::Taken(span);
    }
    let seen = generator.snapshot();
    generator.observe_clock(seen, now);
    generator.take(seen, now, want, policy)
}

fn taken(tick: Tick, first: u64, last: u64) -> Outcome {
    Outcome::Taken(span(tick, first, last))
}

fn span(tick: Tick, first: u64, last: u64) -> Span {
    Span { first: (tick << BITS) + first, last: (tick << BITS) + last }
}

#[test]
fn a_generator_that_was_not_started_issues_nothing() {
    for now in [0, 1, 100] {
        assert!(!matches!(step(&Generator::new(BITS), now, 1), Outcome::Taken(_)), "at {now}");
    }
}

#[test]
fn after_the_start_nothing_is_covered_above_the_floor() {
    let generator = Generator::new(BITS);
    assert!(!generator.is_started());
    assert_eq!(generator.covered_until(), 0);
    generator.start(10, 5);
    assert!(generator.is_started());
    assert_eq!(generator.covered_until(), 10);
    assert_eq!(step(&generator, 5, 1), Outcome::Extend(10));
}

#[test]
fn the_open_tick_is_joined_at_its_time_and_at_no_other() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    assert_eq!(generator.join(100, 1), Some(span(100, 1, 1)));
    assert_eq!(generator.join(99, 1), None);
    assert_eq!(generator.join(101, 1), None);
    assert_eq!(generator.join(100, 9), Some(span(100, 2, 3)));
    assert_eq!(generator.join(100, 1), None, "it is full");
}

#[test]
fn ids_of_a_tick_are_numbered_from_zero_and_the_next_tick_begins_again() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step(&generator, 100, 1), taken(100, 1, 1));
    assert_eq!(step(&generator, 101, 1), taken(101, 0, 0));
}

#[test]
fn the_first_id_is_never_below_the_floor() {
    let generator = started(100, 1000);
    assert_eq!(step(&generator, 90, 1), taken(100, 0, 0));
    assert_eq!(step(&generator, 10, 1), Outcome::Wait(50), "a floor beyond max_borrow has to be waited for");
}

#[test]
fn a_full_tick_waits_for_the_next_one() {
    let generator = started(10, 1000);
    for sequence in 0..4 {
        assert_eq!(step(&generator, 100, 1), taken(100, sequence, sequence));
    }
    assert_eq!(step(&generator, 100, 1), Outcome::Wait(101));
    assert_eq!(step(&generator, 101, 1), taken(101, 0, 0));
}

#[test]
fn a_batch_takes_what_is_left_of_the_tick() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 3), taken(100, 0, 2));
    assert_eq!(step(&generator, 100, 3), taken(100, 3, 3));
    assert_eq!(step(&generator, 100, 3), Outcome::Wait(101));
    assert_eq!(step(&generator, 101, u32::MAX), taken(101, 0, 3));
}

/// Takes a block as the extension does.
fn block_by(policy: &Policy, generator: &Generator, now: Tick, want: u32) -> Outcome {
    let seen = generator.snapshot();
    generator.observe_clock(seen, now);
    generator.take_block(seen, now, want, policy)
}

#[test]
fn a_block_is_whole_and_leaves_a_tick_without_room_to_others() {
    let generator = started(10, 1000);
    assert_eq!(block_by(&BORROW, &generator, 100, 3), taken(100, 0, 2));
    assert_eq!(block_by(&BORROW, &generator, 100, 2), Outcome::Wait(101));
    assert_eq!(step(&generator, 100, 9), taken(100, 3, 3), "the others go on");
    assert_eq!(block_by(&BORROW, &generator, 101, 4), taken(101, 0, 3), "as many as a tick has");
    assert_eq!(block_by(&BORROW, &generator, 101, 1), Outcome::Wait(102));
    assert_eq!(step(&generator, 102, 1), taken(102, 0, 0));
    assert_eq!(block_by(&BORROW, &generator, 102, 3), taken(102, 1, 3), "what is left is enough");
    assert_eq!(generator.counts().issued, 12);
}

#[test]
fn a_block_begins_low_enough_in_a_tick_to_fit() {
    let policy = Policy { sequence_start: SequenceStart::Rotate, ..BORROW };
    let generator = started(10, 1000);
    assert_eq!(step_by(&policy, &generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step_by(&policy, &generator, 101, 1), taken(101, 1, 1));
    assert_eq!(block_by(&policy, &generator, 102, 3), taken(102, 1, 3), "not from 2 on");
    assert_eq!(step_by(&policy, &generator, 104, 1), taken(104, 0, 0), "the tick before was full");
    assert_eq!(block_by(&policy, &generator, 105, 4), taken(105, 0, 3));
}

#[test]
fn a_block_that_does_not_fit_waits_or_borrows_as_after_a_full_tick() {
    let policy = Policy { sequence_exhaustion: SequenceExhaustion::Borrow, ..BORROW };
    let generator = started(10, 1000);
    assert_eq!(step_by(&policy, &generator, 100, 2), taken(100, 0, 1));
    assert_eq!(block_by(&policy, &generator, 100, 3), taken(101, 0, 2));
    assert_eq!(generator.counts(), Counts { issued: 5, borrowed: 3, busiest_second: 5, ..Counts::default() });
    // The clock goes back: IDs continue at its pace.
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 2), taken(100, 0, 1));
    assert_eq!(block_by(&BORROW, &generator, 70, 3), Outcome::Wait(71));
    assert_eq!(block_by(&BORROW, &generator, 71, 3), taken(101, 0, 2));
}

#[test]
fn a_block_takes_nothing_from_the_history_and_leaves_to_it_what_did_not_fit() {
    let generator = started(10, 1000);
    assert_eq!(step_by(&HISTORY, &generator, 100, 2), taken(100, 0, 1));
    assert_eq!(step_by(&HISTORY, &generator, 105, 1), taken(105, 0, 0));
    assert_eq!(block_by(&HISTORY, &generator, 100, 2), taken(105, 1, 2), "it borrows");
    assert_eq!(step_by(&HISTORY, &generator, 100, 9), taken(100, 2, 3));
}

#[test]
fn nothing_is_issued_at_or_above_the_limit() {
    let generator = started(10, 101);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step(&generator, 101, 1), Outcome::Extend(101));
    assert_eq!(step(&generator, 100, 1), taken(100, 1, 1), "ticks below the limit stay usable");
    generator.cover(102, 102);
    assert_eq!(step(&generator, 101, 1), taken(101, 0, 0));
    generator.cover(50, 50);
    assert_eq!(generator.covered_until(), 102, "the limit never goes back");
}

#[test]
fn a_clock_that_was_set_back_goes_on_from_the_last_tick_at_its_own_pace() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    // The clock goes back by 30 ticks. The tick in use has three positions left,
    assert_eq!(step(&generator, 70, 3), taken(100, 1, 3));
    // then the next tick opens when the clock has moved on by one, not sooner.
    assert_eq!(step(&generator, 70, 1), Outcome::Wait(71));
    assert_eq!(step(&generator, 71, 4), taken(101, 0, 3));
    assert_eq!(step(&generator, 71, 1), Outcome::Wait(72));
}

#[test]
fn the_lead_shrinks_while_ticks_are_not_used_up_and_does_not_grow_again() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step(&generator, 70, 1), taken(100, 1, 1));
    assert_eq!(step(&generator, 95, 1), taken(100, 2, 2));
    assert_eq!(step(&generator, 95, 1), taken(100, 3, 3));
    assert_eq!(step(&generator, 95, 1), Outcome::Wait(96), "5 ticks ahead now, although it was 30");
    assert_eq!(step(&generator, 100, 1), taken(101, 0, 0));
    assert_eq!(step(&generator, 102, 4), taken(102, 0, 3));
    assert_eq!(step(&generator, 102, 1), Outcome::Wait(103), "the clock has caught up: nothing is borrowed any more");
}

#[test]
fn a_clock_that_was_set_back_beyond_max_borrow_has_to_catch_up_to_it() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step(&generator, 40, 1), Outcome::Wait(50));
    assert_eq!(step(&generator, 49, 1), Outcome::Wait(50));
    assert_eq!(step(&generator, 50, 1), taken(100, 1, 1));
}

#[test]
fn a_stale_clock_reading_is_not_taken_for_a_clock_that_went_back() {
    let generator = started(10, 1000);
    let seen = generator.snapshot();
    let stale = 99;
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    assert_eq!(generator.observe_clock(seen, stale), None);
    assert_eq!(generator.take(seen, stale, 1, &ERROR), Outcome::Contended, "has to look and to read the clock again");
    assert_eq!(step_by(&ERROR, &generator, 100, 3), taken(100, 1, 3));
    assert_eq!(step_by(&ERROR, &generator, 100, 1), Outcome::Wait(101));
}

#[test]
fn a_clock_that_has_gone_back_is_noted_once_with_the_size_of_the_step() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 200, 1), taken(200, 0, 0));
    let (one, other) = (generator.snapshot(), generator.snapshot());
    assert_eq!(generator.observe_clock(one, 170), Some(30));
    assert_eq!(generator.observe_clock(other, 170), None);
    assert_eq!(generator.observe_clock(generator.snapshot(), 180), None, "it goes on from there");
    assert_eq!(generator.observe_clock(generator.snapshot(), 150), Some(30), "and back again");
}

#[test]
fn issued_counts_every_id_since_the_start() {
    assert_eq!(Generator::new(BITS).counts(), Counts::default());
    let generator = started(10, 1000);
    assert_eq!(generator.counts().issued, 0);
    for (now, want, issued) in
        [(100, 1, 1), (100, 9, 4), (105, 2, 6), (80, 1, 7), (81, 1, 8), (82, 4, 12), (200, 1, 13)]
    {
        assert!(matches!(step(&generator, now, want), Outcome::Taken(_)), "at {now}");
        assert_eq!(generator.counts().issued, issued, "at {now}");
    }
}

#[test]
fn the_busiest_second_is_the_one_with_the_most_timestamps() {
    let generator = Generator::with_ticks_per_second(BITS, 10);
    generator.start(90, 90);
    generator.cover(1000, 1000);
    let mut calls = vec![(99, 1, 1)];
    // Ten full ticks of one second, which begins with tick 100.
    calls.extend((0..10).map(|tick| (100 + tick, 4, (4 * tick + 4).max(1))));
    calls.extend([(110, 3, 40), (119, 4, 40), (250, 1, 40), (251, 4, 40)]);
    for (now, want, busiest) in calls {
        assert!(matches!(step(&generator, now, want), Outcome::Taken(_)), "at {now}");
        assert_eq!(generator.counts().busiest_second, busiest, "at {now}");
    }
    generator.forget_busiest_second();
    assert_eq!(generator.counts().busiest_second, 0);
    assert!(matches!(step(&generator, 252, 2), Outcome::Taken(_)));
    assert_eq!(generator.counts().busiest_second, 2, "what this second has had since");
    generator.advance(300);
    for (now, want, busiest) in [(301, 1, 2), (302, 2, 3), (311, 4, 4)] {
        assert!(matches!(step(&generator, now, want), Outcome::Taken(_)), "at {now}");
        assert_eq!(generator.counts().busiest_second, busiest, "at {now}");
    }
}

#[test]
fn the_first_caller_half_way_to_the_limit_is_asked_to_extend_and_the_others_go_on() {
    let generator = Generator::new(BITS);
    generator.start(90, 90);
    generator.cover(100, 110);
    assert_eq!(step(&generator, 99, 1), taken(99, 0, 0));
    assert_eq!(step(&generator, 100, 1), Outcome::Extend(100));
    assert!(generator.covered_until() > 100, "there is still room");
    assert!(generator.take_on_extension());
    assert!(!generator.take_on_extension(), "somebody has");
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step(&generator, 110, 1), Outcome::Extend(110), "and if it fails, everybody is asked at the limit");
    assert!(!generator.take_on_extension(), "where there is no choice");
    generator.cover(115, 120);
    assert_eq!(step(&generator, 110, 1), taken(110, 0, 0));
    assert_eq!(step(&generator, 115, 1), Outcome::Extend(115));
}

#[test]
fn after_an_advance_ids_begin_in_a_later_tick_and_nothing_is_counted_that_was_not_issued() {
    let generator = started(90, 1000);
    step(&generator, 100, 3);
    generator.advance(104);
    assert_eq!(generator.counts().issued, 3);
    assert_eq!(step(&generator, 101, 1), Outcome::Wait(102), "as after any full tick");
    assert_eq!(step(&generator, 102, 1), taken(105, 0, 0));
    assert_eq!(generator.counts().issued, 4);
    generator.advance(50);
    assert_eq!(step(&generator, 106, 1), taken(106, 0, 0), "an advance never goes back");
    assert_eq!(generator.counts().issued, 5);
    assert_eq!(generator.counts().ticks_exhausted, 0);
}

#[test]
fn borrowed_ids_are_those_ahead_of_the_clock() {
    let generator = started(10, 1000);
    for (now, want, borrowed) in
        [(100, 1, 0), (90, 1, 1), (90, 2, 3), (91, 1, 4), (92, 2, 6), (103, 1, 6), (103, 2, 6), (104, 4, 6)]
    {
        assert!(matches!(step(&generator, now, want), Outcome::Taken(_)), "at {now}");
        assert_eq!(generator.counts().borrowed, borrowed, "at {now}");
    }
}

#[test]
#[should_panic = "I1: an advance to tick 110, and the mark covers 110"]
fn an_advance_past_the_mark_fails_and_raises_nothing() {
    let generator = started(100, 110);
    generator.advance(109);
    generator.advance(110);
}

#[test]
#[should_panic = "I2: a mark for a generator that has not been told where to begin"]
fn a_mark_that_comes_before_the_start_fails() {
    Generator::new(BITS).cover(100, 110);
}

#[test]
#[should_panic = "I1: position 443 was taken, and the limit is 440"]
fn a_position_above_the_mark_is_not_returned() {
    let generator = started(100, 110);
    generator.soft_limit.store(u64::MAX, Ordering::Relaxed);
    let _ = step(&generator, 110, 4);
}
