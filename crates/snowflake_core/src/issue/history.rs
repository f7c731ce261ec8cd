//! What past ticks have left over: a ring of closed ticks, and how much of each is used.
//!
//! A tick is closed when the generator's state moves past it, once and for good. Only the caller that moves the state
//! enters the tick here, and the ticks that it skips. After that, positions of the tick are taken by compare-and-swap
//! on its entry. So no position is taken twice. Nothing is taken from a tick without an entry. Entries are lost if a
//! process that closes a tick is slower than a whole turn of the ring. That costs positions only.

use crate::Tick;
use crate::issue::sync::{AtomicU64, Ordering};
use std::array;
use std::ops::Range;

/// How many ticks are remembered.
const CAPACITY: usize = if cfg!(loom) { 4 } else { 10_000 };

/// The ring. It has no pointers, so processes can share it.
#[derive(Debug)]
pub(crate) struct History {
    /// Nothing is taken from this tick and earlier ones. Raised at the start, since they may have been issued before,
    /// by an advance, and by readers of the horizon.
    floor: AtomicU64,
    /// `tick << (sequence_bits + 1) | used`, for a tick whose first `used` positions are taken or skipped. Entered by
    /// the caller that closes the tick (Release), and raised by callers that take positions.
    entries: [AtomicU64; CAPACITY],
}

impl History {
    pub fn new() -> Self {
        // An empty entry is one of tick 0, which is below every floor.
        Self { floor: AtomicU64::new(0), entries: array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Gives up this tick and all earlier ones.
    pub fn raise_floor(&self, tick: Tick) {
        self.floor.fetch_max(tick, Ordering::AcqRel);
    }

    /// The last tick from which nothing is taken.
    pub fn floor(&self) -> Tick {
        self.floor.load(Ordering::Acquire)
    }

    /// Enters a tick that has just been closed with this many positions `used`, and the `skipped` ticks after it. To be
    /// called once for each tick.
    pub fn enter(&self, sequence_bits: u32, closed: Tick, used: u64, skipped: Range<Tick>) {
        self.entry(closed).store(closed << (sequence_bits + 1) | used, Ordering::Release);
        for tick in skipped.start.max(skipped.end.saturating_sub(CAPACITY as Tick))..skipped.end {
            self.entry(tick).store(tick << (sequence_bits + 1), Ordering::Release);
        }
    }

    /// Whether a tick has an entry with positions left.
    pub fn has_left(&self, sequence_bits: u32, tick: Tick) -> bool {
        let entry = self.entry(tick).load(Ordering::Acquire);
        let used = entry & ((2 << sequence_bits) - 1);
        tick > self.floor() && entry >> (sequence_bits + 1) == tick && used < 1 << sequence_bits
    }

    /// Takes up to `want` positions of a tick, and returns the numbers of the first and the last; `None` if it has none
    /// left or no entry.
    pub fn take(&self, sequence_bits: u32, tick: Tick, want: u32) -> Option<(u64, u64)> {
        // A write, so a reader that raises the floor after it sees what the caller did before.
        // mutant: history-floor-written
        if tick <= self.floor.fetch_max(0, Ordering::AcqRel) {
            return None;
        }
        let slot = self.entry(tick);
        let mut entry = slot.load(Ordering::Acquire);
        loop {
            let used = entry & ((2 << sequence_bits) - 1);
            let taken = u64::from(want).min((1_u64 << sequence_bits).saturating_sub(used));
            if entry >> (sequence_bits + 1) != tick || taken == 0 {
                return None;
            }
            match slot.compare_exchange(entry, entry + taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((used, used + taken - 1)),
                Err(other) => entry = other,
            }
        }
    }

    fn entry(&self, tick: Tick) -> &AtomicU64 {
        &self.entries[usize::try_from(tick % CAPACITY as Tick).expect("less than CAPACITY")]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BITS: u32 = 2;
    const TICKS: Tick = CAPACITY as Tick;

    fn ring() -> History {
        let history = History::new();
        history.raise_floor(100);
        history
    }

    fn take(history: &History, tick: Tick, want: u32) -> Option<(u64, u64)> {
        history.take(BITS, tick, want)
    }

    #[test]
    fn what_a_closed_tick_has_left_over_is_taken_once() {
        let history = ring();
        history.enter(BITS, 110, 1, 111..111);
        assert_eq!(take(&history, 110, 2), Some((1, 2)));
        assert_eq!(take(&history, 110, 2), Some((3, 3)));
        assert_eq!(take(&history, 110, 2), None);
    }

    #[test]
    fn ticks_that_were_skipped_are_whole() {
        let history = ring();
        history.enter(BITS, 110, 4, 111..114);
        assert_eq!(take(&history, 110, 1), None, "this one was full");
        assert_eq!(take(&history, 111, 9), Some((0, 3)));
        assert_eq!(take(&history, 113, 1), Some((0, 0)));
        assert_eq!(take(&history, 114, 1), None, "this one is open");
    }

    #[test]
    fn ticks_that_are_unknown_give_nothing() {
        let history = ring();
        assert_eq!(take(&history, 0, 1), None);
        assert_eq!(take(&history, 110, 1), None);
        let end = 1000 + TICKS;
        history.enter(BITS, 110, 1, 111..end);
        assert_eq!(take(&history, 110, 1), None, "long ago");
        assert_eq!(take(&history, 999, 1), None, "long ago");
        assert_eq!(take(&history, 1000, 1), Some((0, 0)));
        assert_eq!(take(&history, end - 1, 1), Some((0, 0)));
        assert_eq!(take(&history, end, 1), None, "this one is open");
    }

    #[test]
    fn nothing_at_or_below_the_floor_is_taken() {
        let history = ring();
        history.enter(BITS, 99, 1, 100..105);
        assert_eq!(take(&history, 99, 1), None);
        assert_eq!(take(&history, 100, 1), None);
        assert_eq!(take(&history, 101, 1), Some((0, 0)));
        history.raise_floor(103);
        assert_eq!(take(&history, 101, 1), None);
        assert_eq!(take(&history, 104, 1), Some((0, 0)));
    }
}
