//! What happens when the clock goes back or a tick is full, and where the sequence of a tick starts.
//!
//! Twitter's Snowflake fails when the clock goes back ([`ClockRegression::Error`]). Other generators wait, advance the
//! timestamp by themselves, or use what past ticks have left over. docs/clock.md compares them.

use crate::Tick;

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
/// IDs would be multiples of the size of the sequence. Numbers below the first one are not used. So the more IDs the
/// last tick had, the lower a tick begins, and a saturated server reaches the layout's full rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceStart {
    /// 0.
    Zero,
    /// One that looks random: a hash of the tick.
    Random,
    /// Each in turn.
    Rotate,
}

/// The policies of a generator.
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
}

// Each question about a policy is a `match` over all values, so a new value does not compile until every question was
// answered for it.

impl ClockRegression {
    /// Whether IDs continue while the clock is behind the last of them.
    pub fn may_borrow(self) -> bool {
        match self {
            Self::Borrow | Self::History => true,
            Self::Wait | Self::Error => false,
        }
    }

    /// Whether IDs use what past ticks have left over.
    pub fn reads_history(self) -> bool {
        match self {
            Self::Borrow | Self::Wait | Self::Error => false,
            Self::History => true,
        }
    }

    /// Whether each ID of a server is greater than all before it.
    pub fn keeps_order(self) -> bool {
        match self {
            Self::Borrow | Self::Wait | Self::Error => true,
            Self::History => false,
        }
    }
}

impl SequenceExhaustion {
    /// Whether a full tick is followed by ticks that are ahead of the clock.
    pub fn borrows_ticks(self) -> bool {
        match self {
            Self::Wait => false,
            Self::Borrow => true,
        }
    }
}

impl Policy {
    /// How far the next tick may be ahead of the clock, if the clock is `clock_lag` behind the timestamps issued, and
    /// has gone back or not.
    pub(crate) fn allowed_lead(&self, regressed: bool, clock_lag: Tick) -> Tick {
        let may_borrow = self.clock_regression.may_borrow();
        if regressed && !may_borrow {
            0
        } else if self.sequence_exhaustion.borrows_ticks() {
            self.max_borrow
        } else if may_borrow {
            clock_lag.min(self.max_borrow)
        } else {
            0
        }
    }
}

impl SequenceStart {
    /// The first number of a tick of `size` numbers, the `nth` to be opened, after a tick with so many IDs.
    pub(crate) fn first_number(self, tick: Tick, nth: u64, size: u64, issued: u64) -> u64 {
        match self {
            Self::Zero => 0,
            Self::Random => scatter(tick) % starts(size, issued),
            Self::Rotate => nth % starts(size, issued),
        }
    }
}

/// A tick that has issued one in so many of its numbers had few IDs.
const LITTLE: u64 = 16;

/// How many numbers a tick of `size` numbers can begin with, after a tick with so many IDs.
///
/// A small tick can begin with each of them, since `n` shards need `n`; a larger one with a quarter of them. But it
/// keeps room for twice as many IDs as the last tick had, unless those were few.
fn starts(size: u64, issued: u64) -> u64 {
    let most = (size / 4).max(128).min(size);
    let few = (size / LITTLE).max(1);
    // mutant: tick-starts-low
    (size + 2 * few).saturating_sub(issued.saturating_mul(2)).clamp(1, most)
}

crate::words!(ClockRegression {
    Borrow = "borrow": "IDs continue from the last timestamp, up to max_borrow ahead of the clock",
    Wait = "wait": "calls wait, up to max_wait",
    Error = "error": "calls fail",
    History = "history": "IDs go back with the clock and use what past ticks have left over; they are not ordered",
});

crate::words!(SequenceExhaustion {
    Wait = "wait": "calls wait for the next tick",
    Borrow = "borrow": "IDs continue in the next tick, up to max_borrow ahead of the clock",
});

crate::words!(SequenceStart {
    Random = "random": "a random one, so that id % n is even also if a tick has one ID",
    Rotate = "rotate": "each in turn",
    Zero = "zero": "0",
});

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
    fn skew(start: SequenceStart, sequence_bits: u32, n: u32) -> f64 {
        const IDS: u32 = 100_000;
        let mut tick = 500_000_000_000;
        let mut seen = vec![0_u32; n as usize];
        for nth in 0..IDS {
            // About one in 3 ms, as clients do: never quite.
            tick += 2 + (scatter(tick ^ 0x5eed) % 3);
            let number = start.first_number(tick, u64::from(nth), 1 << sequence_bits, 1);
            let id = (tick << 10 | 5) << sequence_bits | number;
            seen[usize::try_from(id % u64::from(n)).expect("small")] += 1;
        }
        let expected = f64::from(IDS) / f64::from(n);
        let chi_square: f64 = seen.iter().map(|&seen| (f64::from(seen) - expected).powi(2) / expected).sum();
        chi_square / f64::from(n - 1)
    }

    #[test]
    fn ids_that_come_one_by_one_are_not_skewed_modulo_anything() {
        for (bits, n) in [6, 8, 12].into_iter().flat_map(|bits| [2, 3, 8, 64, 100].map(|n| (bits, n))) {
            // A fair die gives about 1. Rotation is fairer than a die.
            for start in [SequenceStart::Random, SequenceStart::Rotate] {
                let skew = skew(start, bits, n);
                assert!(skew < 2.5, "{start} of {bits} bits modulo {n}: {skew}");
            }
        }
        assert!(skew(SequenceStart::Zero, 12, 2) > 10_000.0, "from zero, every ID is of one parity");
    }

    #[test]
    fn a_tick_can_begin_anywhere_if_it_is_small_and_else_in_its_first_quarter() {
        let sizes = [(1, 1), (4, 4), (64, 64), (128, 128), (256, 128), (512, 128), (4096, 1024), (1 << 40, 1 << 38)];
        for (size, most) in sizes {
            assert_eq!(starts(size, 1), most, "of {size}");
            assert_eq!(starts(size, size / LITTLE), most, "of {size}, after a tick with few IDs");
        }
    }

    #[test]
    fn a_tick_begins_the_lower_the_more_ids_the_tick_before_had() {
        for (issued, most) in [(4, 64), (5, 62), (16, 40), (32, 8), (35, 2), (36, 1), (64, 1), (u64::MAX, 1)] {
            assert_eq!(starts(64, issued), most, "after {issued} of 64");
        }
        for (issued, most) in [(1792, 1024), (2048, 512), (2304, 1), (4096, 1)] {
            assert_eq!(starts(4096, issued), most, "after {issued} of 4096");
        }
        for size in [1, 2, 4, 64, 4096] {
            assert_eq!(
                SequenceStart::Random.first_number(17, 4, size, size),
                0,
                "after a tick of {size} that was full"
            );
        }
    }
}
