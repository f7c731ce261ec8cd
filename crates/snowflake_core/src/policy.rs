//! What happens when the clock goes back or a tick is full, and where the sequence of a tick starts.
//!
//! Twitter's Snowflake fails when the clock goes back ([`ClockRegression::Error`]). Other generators wait, advance the
//! timestamp by themselves, or use what past ticks have left over. docs/clock.md compares them.

use crate::Tick;
use std::fmt;

/// What happens while the clock shows an earlier time than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockRegression {
    /// IDs continue from the last tick, at most [`Policy::max_borrow`] ahead of the clock, at the clock's pace.
    /// Ordered. Fails after a larger step.
    Borrow,
    /// Calls wait until the clock has caught up. Ordered, and never ahead of the clock. Costs as much time as the step.
    Wait,
    /// Calls fail at once. Ordered, and never ahead of the clock.
    Error,
    /// IDs go back with the clock, and use what past ticks have left over; if nothing is left, as `Borrow`. Unique, but
    /// **not ordered**.
    History,
}

/// What happens when a tick is full before the clock reaches the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceExhaustion {
    /// Calls wait for the next tick.
    Wait,
    /// IDs continue in the next tick, at most [`Policy::max_borrow`] ahead of the clock.
    Borrow,
}

/// The first number of a tick, so that `id % n` is not skewed at low load: if all ticks had one ID with number 0, all
/// IDs would be multiples of the size of the sequence. The tick after a full one starts at 0, so that a saturated
/// server reaches the full rate of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceStart {
    /// At 0.
    Zero,
    /// At a number from 0 to this one that looks random: a hash of the tick.
    Random(u32),
    /// At each number from 0 to this one in turn.
    Rotate(u32),
}

/// All of it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// When the clock has gone back.
    pub clock_regression: ClockRegression,
    /// When a tick is full.
    pub sequence_exhaustion: SequenceExhaustion,
    /// Where a tick's sequence starts.
    pub sequence_start: SequenceStart,
    /// How many ticks a timestamp may be ahead of the clock at most.
    pub max_borrow: Tick,
    /// How many past ticks [`ClockRegression::History`] remembers, from 1 to
    /// [`CAPACITY`](crate::history::CAPACITY).
    pub history_ticks: Tick,
}

impl Policy {
    /// Whether IDs go on while the clock is behind the last of them.
    pub fn may_borrow(&self) -> bool {
        matches!(self.clock_regression, ClockRegression::Borrow | ClockRegression::History)
    }

    /// How far the next tick may be ahead of the clock, if the clock is `clock_lag` behind the timestamps issued, and
    /// has gone back or not.
    pub(crate) fn allowed_lead(&self, regressed: bool, clock_lag: Tick) -> Tick {
        match (self.clock_regression, self.sequence_exhaustion) {
            (ClockRegression::Wait | ClockRegression::Error, _) if regressed => 0,
            (_, SequenceExhaustion::Borrow) => self.max_borrow,
            (ClockRegression::Borrow | ClockRegression::History, _) => clock_lag.min(self.max_borrow),
            (ClockRegression::Wait | ClockRegression::Error, _) => 0,
        }
    }
}

impl SequenceStart {
    /// The first number of a tick, the `nth` to be opened; at most `last`.
    pub(crate) fn of(self, tick: Tick, nth: u64, last: u64) -> u64 {
        match self {
            Self::Zero => 0,
            Self::Random(max) => scatter(tick) % (u64::from(max).min(last) + 1),
            Self::Rotate(max) => nth % (u64::from(max).min(last) + 1),
        }
    }
}

impl fmt::Display for ClockRegression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Borrow => "borrow",
            Self::Wait => "wait",
            Self::Error => "error",
            Self::History => "history",
        })
    }
}

impl fmt::Display for SequenceExhaustion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wait => "wait",
            Self::Borrow => "borrow",
        })
    }
}

impl fmt::Display for SequenceStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("zero"),
            Self::Random(max) => write!(f, "random (0 to {max})"),
            Self::Rotate(max) => write!(f, "rotate (0 to {max})"),
        }
    }
}

/// Makes neighbouring numbers look unrelated: the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
fn scatter(tick: Tick) -> u64 {
    let mut z = tick.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// IDs that come one by one, each in a tick of its own, as they lie modulo `n`: chi-square over its degrees of
    /// freedom.
    fn skew(start: SequenceStart, n: u32) -> f64 {
        const IDS: u32 = 100_000;
        let mut tick = 500_000_000_000;
        let mut seen = vec![0_u32; n as usize];
        for nth in 0..IDS {
            // About one in 3 ms, as clients do: never quite.
            tick += 2 + (scatter(tick ^ 0x5eed) % 3);
            let id = tick << 22 | 5 << 12 | start.of(tick, u64::from(nth), 4095);
            seen[usize::try_from(id % u64::from(n)).expect("small")] += 1;
        }
        let expected = f64::from(IDS) / f64::from(n);
        let chi_square: f64 = seen.iter().map(|&seen| (f64::from(seen) - expected).powi(2) / expected).sum();
        chi_square / f64::from(n - 1)
    }

    #[test]
    fn ids_that_come_one_by_one_are_not_skewed_modulo_anything() {
        for n in [2, 3, 8, 64, 100] {
            // A fair die gives about 1. Rotation is fairer than a die.
            for start in [SequenceStart::Random(127), SequenceStart::Rotate(127)] {
                assert!(skew(start, n) < 2.5, "{start:?} modulo {n}: {}", skew(start, n));
            }
        }
        assert!(skew(SequenceStart::Zero, 2) > 10_000.0, "from zero, every ID is of one parity");
    }

    #[test]
    fn a_tick_never_starts_beyond_its_last_number() {
        for tick in 0..1000 {
            assert!(SequenceStart::Random(127).of(tick, 0, 4095) <= 127);
            assert!(SequenceStart::Random(u32::MAX).of(tick, 0, 3) <= 3);
            assert!(SequenceStart::Rotate(u32::MAX).of(tick, tick, 3) <= 3);
        }
        assert_eq!(SequenceStart::Random(0).of(17, 4, 4095), 0);
    }
}
