use super::*;

const BITS: u32 = 2; // Four IDs a tick, so that ticks fill up quickly.
const MAX_LEAD: Tick = 50;

/// A generator that was started at tick 90.
fn started(floor: Tick, covered_until: Tick) -> Generator {
    let generator = Generator::new(BITS);
    generator.start(floor, 90);
    generator.cover(covered_until, covered_until);
    generator
}

/// Takes as the extension does, for a clock that stands at `now`.
fn step(generator: &Generator, now: Tick, want: u32) -> Outcome {
    match generator.take(now, want) {
        Outcome::Ahead { seen } => generator.take_ahead(seen, now, want, MAX_LEAD),
        outcome => outcome,
    }
}

fn taken(tick: Tick, first: u64, last: u64) -> Outcome {
    Outcome::Taken(Run { first: (tick << BITS) + first, last: (tick << BITS) + last })
}

#[test]
fn a_generator_that_was_not_started_issues_nothing() {
    assert_eq!(step(&Generator::new(BITS), 100, 1), Outcome::Extend(100));
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
    assert_eq!(step(&generator, 10, 1), Outcome::Wait(50), "a floor beyond max_lead has to be waited for");
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
fn a_clock_that_was_set_back_beyond_max_lead_has_to_catch_up_to_it() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    assert_eq!(step(&generator, 40, 1), Outcome::Wait(50));
    assert_eq!(step(&generator, 49, 1), Outcome::Wait(50));
    assert_eq!(step(&generator, 50, 1), taken(100, 1, 1));
}

#[test]
fn a_stale_clock_reading_is_not_taken_for_a_clock_that_went_back() {
    let generator = started(10, 1000);
    let stale = 99;
    assert_eq!(step(&generator, 100, 1), taken(100, 0, 0));
    let Outcome::Ahead { seen } = generator.take(stale, 1) else { panic!("asks for a new reading") };
    assert_eq!(generator.take_ahead(seen, 100, 3, MAX_LEAD), taken(100, 1, 3));
    assert_eq!(step(&generator, 100, 1), Outcome::Wait(101), "no correction was made");
}

#[test]
fn a_caller_that_lost_the_race_reads_the_clock_again() {
    let generator = started(10, 1000);
    assert_eq!(step(&generator, 100, 4), taken(100, 0, 3));
    let Outcome::Ahead { seen } = generator.take(100, 1) else { panic!("the tick is full") };
    assert_eq!(step(&generator, 101, 1), taken(101, 0, 0));
    assert_eq!(generator.take_ahead(seen, 101, 1, MAX_LEAD), Outcome::Ahead { seen: 101 << BITS });
}

#[test]
fn issued_counts_every_id_since_the_start() {
    assert_eq!(Generator::new(BITS).issued(), 0);
    let generator = started(10, 1000);
    assert_eq!(generator.issued(), 0);
    for (now, want, issued) in
        [(100, 1, 1), (100, 9, 4), (105, 2, 6), (80, 1, 7), (81, 1, 8), (82, 4, 12), (200, 1, 13)]
    {
        assert!(matches!(step(&generator, now, want), Outcome::Taken(_)), "at {now}");
        assert_eq!(generator.issued(), issued, "at {now}");
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
    assert_eq!(generator.issued(), 3);
    assert_eq!(step(&generator, 101, 1), Outcome::Wait(102), "as after any full tick");
    assert_eq!(step(&generator, 102, 1), taken(105, 0, 0));
    assert_eq!(generator.issued(), 4);
    generator.advance(50);
    assert_eq!(step(&generator, 106, 1), taken(106, 0, 0), "an advance never goes back");
    assert_eq!(generator.issued(), 5);
}
