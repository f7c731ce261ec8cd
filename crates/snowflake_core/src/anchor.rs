//! Which clock to believe when it jumps ahead.
//!
//! A clock that is set ahead by mistake takes the durable mark along, and after it has been corrected nothing can be issued
//! until it gets there again. So a jump by more than `max_jump`, against a clock that nobody sets, is not believed until
//! it has held for a minute; IDs go on by the old clock meanwhile. Steps back need no such care: nothing is lost by
//! believing them.

use crate::sync::{AtomicU64, Ordering};

/// How long a jump must hold before it is believed, in microseconds.
///
/// All times here are microseconds: what is believed of a clock must not be a whole tick below what it has shown.
const HOLD_US: u64 = 60_000_000;

/// Two readings of one clock that are further apart than this, in microseconds, are no longer the same jump.
const SAME_JUMP_US: u64 = 1_000_000;

/// How the server's clock and its monotonic one were related when the clock was last believed. Lies in shared memory.
///
/// All orderings are Relaxed: each word means something by itself, and two callers that look at the same moment come to
/// the same conclusion.
#[derive(Debug)]
pub struct Anchor {
    /// Clock less monotonic clock, wrapping: believed.
    believed: AtomicU64,
    /// The same of a jump that is not believed yet.
    jumped: AtomicU64,
    /// When the monotonic clock stood where that jump was seen first; [`NEVER`] if there is none.
    jumped_at: AtomicU64,
}

const NEVER: u64 = u64::MAX;

/// What to make of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// It is right.
    Right,
    /// It has jumped ahead of this time, which is the one to go by.
    Jumped {
        /// What the clock would say had it not been set.
        expected: u64,
    },
    /// It jumped a minute ago, and is believed from now on.
    Held,
}

impl Anchor {
    /// Believes the clock, at `now` microseconds after 1970, when the monotonic clock stands at `monotonic`.
    pub fn new(now: u64, monotonic: u64) -> Self {
        Self {
            believed: AtomicU64::new(now.wrapping_sub(monotonic)),
            jumped: AtomicU64::new(0),
            jumped_at: AtomicU64::new(NEVER),
        }
    }

    /// Judges a reading. Timestamps up to `issued` exist already: a clock that is not far ahead of them does no harm.
    pub fn judge(&self, now: u64, monotonic: u64, issued: u64, max_jump: u64) -> Belief {
        let expected = self.believed.load(Ordering::Relaxed).wrapping_add(monotonic);
        let offset = now.wrapping_sub(monotonic);
        let jumped_at = self.jumped_at.load(Ordering::Relaxed);
        if now <= expected.max(issued).saturating_add(max_jump) {
            self.believe(offset, jumped_at);
            return Belief::Right;
        }
        let same = jumped_at != NEVER && self.jumped.load(Ordering::Relaxed).abs_diff(offset) <= SAME_JUMP_US;
        if same && monotonic.saturating_sub(jumped_at) >= HOLD_US {
            self.believe(offset, jumped_at);
            return Belief::Held;
        }
        if !same {
            self.jumped.store(offset, Ordering::Relaxed);
            self.jumped_at.store(monotonic, Ordering::Relaxed);
        }
        Belief::Jumped { expected }
    }

    /// Believes the clock, whatever it says.
    pub fn accept(&self, now: u64, monotonic: u64) {
        self.believe(now.wrapping_sub(monotonic), 0);
    }

    /// What is believed: clock less monotonic clock, wrapping.
    pub fn believed(&self) -> u64 {
        self.believed.load(Ordering::Relaxed)
    }

    /// Whether the last reading was not believed.
    pub fn has_jumped(&self) -> bool {
        self.jumped_at.load(Ordering::Relaxed) != NEVER
    }

    fn believe(&self, offset: u64, jumped_at: u64) {
        // Not written without need, as between two readings something always passes: the words are read by everybody.
        if self.believed.load(Ordering::Relaxed).abs_diff(offset) > 2 {
            self.believed.store(offset, Ordering::Relaxed);
        }
        if jumped_at != NEVER {
            self.jumped_at.store(NEVER, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;
    const DAY: u64 = 24 * HOUR;
    const T: u64 = 1_800_000_000_000_000;

    fn anchor() -> Anchor {
        Anchor::new(T, 1000)
    }

    #[test]
    fn small_steps_and_steps_back_are_believed_at_once() {
        let anchor = anchor();
        assert_eq!(anchor.judge(T + 10, 1010, T, HOUR), Belief::Right);
        assert_eq!(anchor.judge(T + HOUR, 1020, T, HOUR), Belief::Right);
        assert_eq!(anchor.judge(T - DAY, 1030, T - DAY, HOUR), Belief::Right);
        assert_eq!(anchor.judge(T - DAY + 5, 1035, T - DAY, HOUR), Belief::Right);
    }

    #[test]
    fn a_jump_ahead_is_not_believed_and_the_old_clock_goes_on() {
        let anchor = anchor();
        assert_eq!(anchor.judge(T + DAY, 1500, T, HOUR), Belief::Jumped { expected: T + 500 });
        assert!(anchor.has_jumped());
        assert_eq!(anchor.judge(T + DAY + 700, 2200, T, HOUR), Belief::Jumped { expected: T + 1200 });
        assert_eq!(anchor.judge(T + 2000, 3000, T, HOUR), Belief::Right);
        assert!(!anchor.has_jumped());
    }

    #[test]
    fn a_jump_that_holds_for_a_minute_is_believed() {
        let anchor = anchor();
        let after = |us| anchor.judge(T + DAY + us, 1500 + us, T, HOUR);
        after(0);
        assert_eq!(after(HOLD_US - 1), Belief::Jumped { expected: T + 500 + HOLD_US - 1 });
        assert_eq!(after(HOLD_US), Belief::Held);
        assert_eq!(after(HOLD_US + 1), Belief::Right);
    }

    #[test]
    fn a_clock_that_keeps_jumping_begins_its_minute_anew() {
        let anchor = anchor();
        anchor.judge(T + DAY, 1500, T, HOUR);
        anchor.judge(T + 2 * DAY, 40_001_500, T, HOUR);
        assert!(matches!(anchor.judge(T + 2 * DAY + 30_000_000, 70_001_500, T, HOUR), Belief::Jumped { .. }));
        assert_eq!(anchor.judge(T + 2 * DAY + 60_000_000, 100_001_500, T, HOUR), Belief::Held);
    }

    #[test]
    fn a_clock_that_comes_back_to_what_was_issued_is_believed_at_once() {
        let anchor = anchor();
        anchor.judge(T - DAY, 1100, T, HOUR);
        assert_eq!(anchor.judge(T + 200, 1200, T, HOUR), Belief::Right);
    }

    #[test]
    fn an_accepted_jump_is_believed() {
        let anchor = anchor();
        anchor.judge(T + DAY, 1500, T, HOUR);
        anchor.accept(T + DAY, 1500);
        assert_eq!(anchor.judge(T + DAY + 1, 1501, T, HOUR), Belief::Right);
    }
}
