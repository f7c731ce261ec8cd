//! Whether to trust a clock that has jumped ahead.
//!
//! A clock that is set ahead by mistake takes the durable mark with it. After the clock is corrected, no ID can be
//! issued until it reaches the mark. A jump by more than `max_jump`, measured against a clock that nobody sets, is
//! therefore not trusted until it has held for a minute (NTP's stepout). IDs follow the old clock until then. A step
//! back is trusted: that loses nothing.

use crate::issue::sync::{AtomicU64, Ordering};

/// How long a jump must hold before it is trusted, in microseconds.
///
/// All times here are microseconds: rounding must not take the trusted clock a whole tick below what it has shown.
const STEPOUT_US: u64 = 60_000_000;

/// Two readings of one clock that are further apart than this, in microseconds, are no longer the same jump.
const SAME_JUMP_US: u64 = 1_000_000;

/// How far the server's clock was from its monotonic one when it was last trusted. In shared memory.
///
/// All orderings are Relaxed: each word means something by itself, and two callers that look at the same moment come to
/// the same conclusion.
#[derive(Debug)]
pub struct ForwardJumpGuard {
    /// Clock less monotonic clock, wrapping, when it was last trusted.
    offset: AtomicU64,
    /// Clock less monotonic clock, wrapping, after a jump that is not trusted yet.
    jumped: AtomicU64,
    /// What the monotonic clock showed when that jump was first seen; [`NEVER`] if there is none.
    jumped_at: AtomicU64,
}

const NEVER: u64 = u64::MAX;

/// What to make of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Use it.
    Trusted,
    /// It has jumped ahead. Use the expected time instead.
    Jumped {
        /// What the clock would show had it not been set.
        expected: u64,
    },
    /// It jumped a minute ago, and is trusted from now on.
    Confirmed,
}

impl ForwardJumpGuard {
    /// Trusts the clock, which shows `now` microseconds after 1970 when the monotonic clock shows `monotonic`.
    pub fn new(now: u64, monotonic: u64) -> Self {
        Self {
            offset: AtomicU64::new(now.wrapping_sub(monotonic)),
            jumped: AtomicU64::new(0),
            jumped_at: AtomicU64::new(NEVER),
        }
    }

    /// Checks a reading. Timestamps up to `issued` exist already: a clock that is not far ahead of them does no harm.
    pub fn check(&self, now: u64, monotonic: u64, issued: u64, max_jump: u64) -> Verdict {
        let expected = self.offset.load(Ordering::Relaxed).wrapping_add(monotonic);
        let offset = now.wrapping_sub(monotonic);
        let jumped_at = self.jumped_at.load(Ordering::Relaxed);
        if now <= expected.max(issued).saturating_add(max_jump) {
            self.trust(offset, jumped_at);
            return Verdict::Trusted;
        }
        let same = jumped_at != NEVER && self.jumped.load(Ordering::Relaxed).abs_diff(offset) <= SAME_JUMP_US;
        if same && monotonic.saturating_sub(jumped_at) >= STEPOUT_US {
            self.trust(offset, jumped_at);
            return Verdict::Confirmed;
        }
        if !same {
            self.jumped.store(offset, Ordering::Relaxed);
            self.jumped_at.store(monotonic, Ordering::Relaxed);
        }
        Verdict::Jumped { expected }
    }

    /// Trusts the clock, whatever it shows.
    pub fn accept(&self, now: u64, monotonic: u64) {
        self.trust(now.wrapping_sub(monotonic), 0);
    }

    /// Clock less monotonic clock, wrapping, when it was last trusted.
    pub fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }

    /// Whether the last reading was not trusted.
    pub fn has_jumped(&self) -> bool {
        self.jumped_at.load(Ordering::Relaxed) != NEVER
    }

    fn trust(&self, offset: u64, jumped_at: u64) {
        // Everybody reads these words, so they are not written for the time that passes between two readings.
        if self.offset.load(Ordering::Relaxed).abs_diff(offset) > 2 {
            self.offset.store(offset, Ordering::Relaxed);
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

    fn guard() -> ForwardJumpGuard {
        ForwardJumpGuard::new(T, 1000)
    }

    #[test]
    fn small_steps_and_steps_back_are_trusted_at_once() {
        let guard = guard();
        assert_eq!(guard.check(T + 10, 1010, T, HOUR), Verdict::Trusted);
        assert_eq!(guard.check(T + HOUR, 1020, T, HOUR), Verdict::Trusted);
        assert_eq!(guard.check(T - DAY, 1030, T - DAY, HOUR), Verdict::Trusted);
        assert_eq!(guard.check(T - DAY + 5, 1035, T - DAY, HOUR), Verdict::Trusted);
    }

    #[test]
    fn a_jump_ahead_is_not_trusted_and_the_old_clock_goes_on() {
        let guard = guard();
        assert_eq!(guard.check(T + DAY, 1500, T, HOUR), Verdict::Jumped { expected: T + 500 });
        assert!(guard.has_jumped());
        assert_eq!(guard.check(T + DAY + 700, 2200, T, HOUR), Verdict::Jumped { expected: T + 1200 });
        assert_eq!(guard.check(T + 2000, 3000, T, HOUR), Verdict::Trusted);
        assert!(!guard.has_jumped());
    }

    #[test]
    fn a_jump_that_holds_for_a_minute_is_trusted() {
        let guard = guard();
        let after = |us| guard.check(T + DAY + us, 1500 + us, T, HOUR);
        after(0);
        assert_eq!(after(STEPOUT_US - 1), Verdict::Jumped { expected: T + 500 + STEPOUT_US - 1 });
        assert_eq!(after(STEPOUT_US), Verdict::Confirmed);
        assert_eq!(after(STEPOUT_US + 1), Verdict::Trusted);
    }

    #[test]
    fn a_clock_that_keeps_jumping_begins_its_minute_anew() {
        let guard = guard();
        guard.check(T + DAY, 1500, T, HOUR);
        guard.check(T + 2 * DAY, 40_001_500, T, HOUR);
        assert!(matches!(guard.check(T + 2 * DAY + 30_000_000, 70_001_500, T, HOUR), Verdict::Jumped { .. }));
        assert_eq!(guard.check(T + 2 * DAY + 60_000_000, 100_001_500, T, HOUR), Verdict::Confirmed);
    }

    #[test]
    fn a_clock_that_comes_back_to_what_was_issued_is_trusted_at_once() {
        let guard = guard();
        guard.check(T - DAY, 1100, T, HOUR);
        assert_eq!(guard.check(T + 200, 1200, T, HOUR), Verdict::Trusted);
    }

    #[test]
    fn an_accepted_jump_is_trusted() {
        let guard = guard();
        guard.check(T + DAY, 1500, T, HOUR);
        guard.accept(T + DAY, 1500);
        assert_eq!(guard.offset(), T + DAY - 1500);
        assert_eq!(guard.check(T + DAY + 1, 1501, T, HOUR), Verdict::Trusted);
    }
}
