//! What each policy does when the clock goes back, and when a tick is full.

use super::*;

#[test]
fn wait_is_never_ahead_of_the_clock() {
    let generator = started(10, 1000);
    assert_eq!(step_by(&WAIT, &generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step_by(&WAIT, &generator, 97, 1), Outcome::Wait(100));
    assert_eq!(step_by(&WAIT, &generator, 99, 1), Outcome::Wait(100));
    assert_eq!(step_by(&WAIT, &generator, 100, 1), taken(100, 1, 1));
}

#[test]
fn error_refuses_a_clock_that_has_gone_back_until_it_has_caught_up() {
    let generator = started(10, 1000);
    assert_eq!(step_by(&ERROR, &generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step_by(&ERROR, &generator, 97, 1), Outcome::Behind(100));
    assert_eq!(step_by(&ERROR, &generator, 99, 1), Outcome::Behind(100));
    assert_eq!(step_by(&ERROR, &generator, 100, 3), taken(100, 1, 3));
    assert_eq!(step_by(&ERROR, &generator, 100, 1), Outcome::Wait(101), "a full tick is no fault of the clock's");
}

#[test]
fn wait_and_error_let_the_clock_pass_the_floor() {
    for policy in [WAIT, ERROR] {
        let generator = started(100, 1000);
        assert_eq!(step_by(&policy, &generator, 90, 1), Outcome::Wait(100));
        assert_eq!(step_by(&policy, &generator, 100, 1), taken(100, 0, 0));
    }
}

#[test]
fn a_full_tick_borrows_the_next_one_up_to_max_borrow() {
    let policy = Policy { sequence_exhaustion: SequenceExhaustion::Borrow, max_borrow: 2, ..BORROW };
    let generator = started(10, 1000);
    for (tick, borrowed) in [(100, 0), (101, 4), (102, 8)] {
        assert_eq!(step_by(&policy, &generator, 100, 9), taken(tick, 0, 3));
        assert_eq!(generator.counts().borrowed, borrowed);
    }
    assert_eq!(step_by(&policy, &generator, 100, 1), Outcome::Wait(101));
    assert_eq!(step_by(&policy, &generator, 101, 1), taken(103, 0, 0));
    assert_eq!(step_by(&BORROW, &generator, 101, 9), taken(103, 1, 3), "after a reload: as it has come,");
    assert_eq!(step_by(&BORROW, &generator, 101, 9), Outcome::Wait(102), "and not further");
}

#[test]
fn who_may_borrow_full_ticks_still_waits_or_refuses_when_the_clock_has_gone_back() {
    for (policy, outcome) in [(WAIT, Outcome::Wait(100)), (ERROR, Outcome::Behind(100))] {
        let policy = Policy { sequence_exhaustion: SequenceExhaustion::Borrow, ..policy };
        let generator = started(10, 1000);
        assert_eq!(step_by(&policy, &generator, 100, 9), taken(100, 0, 3));
        assert_eq!(step_by(&policy, &generator, 100, 9), taken(101, 0, 3), "this is not the clock's doing");
        assert_eq!(step_by(&policy, &generator, 100, 9), taken(102, 0, 3));
        assert_eq!(step_by(&policy, &generator, 99, 1), outcome);
        assert_eq!(step_by(&policy, &generator, 100, 1), taken(103, 0, 0));
    }
}

#[test]
fn history_goes_back_with_the_clock_and_takes_what_was_left_over() {
    let generator = started(10, 1000);
    for (now, want) in [(100, 1), (101, 4), (103, 2), (105, 1)] {
        assert!(matches!(step_by(&HISTORY, &generator, now, want), Outcome::Taken(_)), "at {now}");
    }
    assert_eq!(step_by(&HISTORY, &generator, 100, 9), taken(100, 1, 3));
    assert_eq!(step_by(&HISTORY, &generator, 100, 1), taken(105, 1, 1), "nothing left: it borrows");
    assert_eq!(step_by(&HISTORY, &generator, 101, 1), taken(105, 2, 2), "this tick was full");
    assert_eq!(step_by(&HISTORY, &generator, 102, 1), taken(102, 0, 0), "this one was skipped");
    assert_eq!(step_by(&HISTORY, &generator, 103, 1), taken(103, 2, 2));
    assert_eq!(step_by(&HISTORY, &generator, 105, 1), taken(105, 3, 3), "the clock has caught up");
    assert_eq!(
        generator.counts(),
        Counts { issued: 16, ticks_exhausted: 1, borrowed: 3, history: 5, busiest_second: 11 }
    );
}

#[test]
fn history_is_not_asked_when_the_generator_is_ahead_by_itself() {
    let generator = started(120, 1000);
    assert_eq!(step_by(&HISTORY, &generator, 110, 1), taken(120, 0, 0), "the clock is below the floor");
    let policy = Policy { sequence_exhaustion: SequenceExhaustion::Borrow, ..HISTORY };
    let generator = started(10, 1000);
    assert_eq!(step_by(&policy, &generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step_by(&policy, &generator, 102, 9), taken(102, 0, 3));
    assert_eq!(step_by(&policy, &generator, 102, 9), taken(103, 0, 3));
    assert_eq!(step_by(&policy, &generator, 102, 9), taken(104, 0, 3));
}

#[test]
fn history_gives_nothing_at_or_below_a_floor_or_an_advance() {
    let generator = started(100, 1000);
    assert_eq!(step_by(&HISTORY, &generator, 103, 1), taken(103, 0, 0));
    assert_eq!(step_by(&HISTORY, &generator, 105, 1), taken(105, 0, 0));
    assert_eq!(step_by(&HISTORY, &generator, 100, 1), taken(105, 1, 1));
    assert_eq!(step_by(&HISTORY, &generator, 101, 1), taken(101, 0, 0));
    generator.advance(110);
    assert_eq!(step_by(&HISTORY, &generator, 102, 1), Outcome::Wait(103), "as after any full tick");
    assert_eq!(step_by(&HISTORY, &generator, 112, 1), taken(112, 0, 0));
    for (now, sequence) in [(102, 1), (105, 2), (110, 3)] {
        assert_eq!(step_by(&HISTORY, &generator, now, 1), taken(112, sequence, sequence), "at {now}");
    }
    assert_eq!(step_by(&HISTORY, &generator, 111, 1), taken(111, 0, 0));
}

#[test]
fn a_tick_starts_where_the_policy_says_but_after_a_busy_one_at_zero() {
    let policy = Policy { sequence_start: SequenceStart::Rotate, ..BORROW };
    let generator = started(10, 1000);
    assert_eq!(step_by(&policy, &generator, 100, 1), taken(100, 0, 0), "the tick below the floor counts as busy");
    assert_eq!(step_by(&policy, &generator, 101, 1), taken(101, 1, 1));
    assert_eq!(step_by(&policy, &generator, 102, 1), taken(102, 2, 2));
    assert_eq!(step_by(&policy, &generator, 103, 1), taken(103, 3, 3));
    assert_eq!(
        step_by(&policy, &generator, 105, 1),
        taken(105, 0, 0),
        "in turn; the tick before is full, but not busy"
    );
    assert_eq!(step_by(&policy, &generator, 106, 9), taken(106, 1, 3));
    assert_eq!(step_by(&policy, &generator, 107, 9), taken(107, 0, 3), "no capacity is lost under load");
    assert_eq!(generator.counts().issued, 12);
    assert_eq!(generator.counts().ticks_exhausted, 2);
}

#[test]
fn no_call_waits_for_the_next_tick_at_half_of_the_rate_although_ticks_begin_at_random() {
    let policy = Policy { sequence_start: SequenceStart::Random, ..BORROW };
    // As in layout js.
    let generator = Generator::new(6);
    generator.start(10, 90);
    generator.cover(20_000, 20_000);
    for now in 100..10_000 {
        for _ in 0..32 {
            let outcome = step_by(&policy, &generator, now, 1);
            assert!(matches!(outcome, Outcome::Taken(_)), "{outcome:?} at {now}");
        }
    }
}

#[test]
fn a_time_at_which_nothing_could_be_issued_is_not_one_that_the_clock_went_back_from() {
    for exhaustion in [SequenceExhaustion::Wait, SequenceExhaustion::Borrow] {
        let policy = Policy { sequence_exhaustion: exhaustion, ..ERROR };
        let generator = started(10, 150);
        assert_eq!(step_by(&policy, &generator, 100, 1), taken(100, 0, 0));
        assert_eq!(step_by(&policy, &generator, 160, 1), Outcome::Extend(160), "the mark can't be extended");
        assert_eq!(step_by(&policy, &generator, 110, 9), taken(110, 0, 3), "the clock is right again");
        let full = step_by(&policy, &generator, 110, 1);
        let next = if exhaustion == SequenceExhaustion::Wait { Outcome::Wait(111) } else { taken(111, 0, 0) };
        assert_eq!(full, next, "and nothing is behind");
    }
}

#[test]
fn a_transaction_enters_the_history_only_if_the_clock_is_behind_the_last_tick() {
    let generator = started(10, 1000);
    assert_eq!(step_by(&HISTORY, &generator, 100, 1), taken(100, 0, 0));
    let least = |now, policy| generator.least_of_history(generator.snapshot(), now, policy);
    assert_eq!(least(100, &HISTORY), None);
    assert_eq!(least(99, &HISTORY), Some(99 << BITS));
    assert_eq!(least(99, &BORROW), None, "nothing comes from the history");
}

#[test]
fn a_reader_closes_the_history_below_the_open_tick_and_not_what_that_leaves_over() {
    let generator = started(10, 1000);
    for tick in [100, 101] {
        assert_eq!(step_by(&HISTORY, &generator, tick, 1), taken(tick, 0, 0));
    }
    generator.close_history(generator.last_position());
    assert_eq!(step_by(&HISTORY, &generator, 102, 1), taken(102, 0, 0));
    assert_eq!(step_by(&HISTORY, &generator, 101, 9), taken(101, 1, 3));
    assert_eq!(step_by(&HISTORY, &generator, 100, 9), taken(102, 1, 3), "it borrows");
}

#[test]
fn a_clock_that_has_caught_up_takes_nothing_from_the_history() {
    let policy = Policy { sequence_exhaustion: SequenceExhaustion::Borrow, ..HISTORY };
    let generator = started(10, 1000);
    assert_eq!(step_by(&policy, &generator, 100, 2), taken(100, 0, 1));
    assert_eq!(step_by(&policy, &generator, 90, 1), taken(90, 0, 0), "it has gone back");
    assert_eq!(block_by(&policy, &generator, 100, 3), taken(101, 0, 2), "two are left over");
    assert_eq!(generator.outlook(100, &policy), None);
    assert_eq!(step_by(&policy, &generator, 100, 1), taken(101, 3, 3));
    assert_eq!(step_by(&policy, &generator, 99, 1), taken(99, 0, 0));
    assert_eq!(step_by(&policy, &generator, 90, 1), taken(90, 1, 1));
}

#[test]
fn the_history_has_a_tick_that_is_far_from_the_epoch_when_later_ones_are_opened() {
    let (generator, tick) = (started(1_000_000, 2_000_000), 1_000_100);
    for later in [0, 5] {
        assert_eq!(step_by(&HISTORY, &generator, tick + later, 1), taken(tick + later, 0, 0));
    }
    assert_eq!(step_by(&HISTORY, &generator, tick, 9), taken(tick, 1, 3));
    assert_eq!(step_by(&HISTORY, &generator, tick + 4, 9), taken(tick + 4, 0, 3), "which was skipped");
}

#[test]
fn ids_continue_while_the_clock_is_behind_with_borrow_and_history_alone() {
    let may_borrow = [BORROW, WAIT, ERROR, HISTORY].map(|policy| policy.clock_regression.may_borrow());
    assert_eq!(may_borrow, [true, false, false, true]);
}
