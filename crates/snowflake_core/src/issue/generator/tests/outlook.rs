//! What the next call will meet is what it meets.

use super::*;

/// Whatever calls and clocks there were before.
#[test]
fn the_outlook_is_what_the_next_call_meets_and_changes_nothing() {
    let borrowing = |policy| Policy { sequence_exhaustion: SequenceExhaustion::Borrow, ..policy };
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut held_back = 0;
    for policy in [BORROW, WAIT, ERROR, HISTORY, borrowing(BORROW), borrowing(ERROR)] {
        for _ in 0..200 {
            let generator = started(90 + next(100), 100_000);
            let mut now: Tick = 100;
            for _ in 0..60 {
                now = match next(4) {
                    0 => now.saturating_sub(next(150)).max(1),
                    1 => now + next(80),
                    _ => now + next(2),
                };
                let outlook = generator.outlook(now, &policy);
                assert_eq!(generator.outlook(now, &policy), outlook);
                let outcome = step_by(&policy, &generator, now, 1);
                assert_eq!(
                    outlook,
                    Some(outcome).filter(|outcome| !matches!(outcome, Outcome::Taken(_))),
                    "{policy:?}"
                );
                held_back += usize::from(outlook.is_some());
            }
        }
    }
    assert!(held_back > 1000, "{held_back}");
}
