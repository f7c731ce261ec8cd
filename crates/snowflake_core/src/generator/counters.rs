//! Counts of what was issued, which cost a tick something and an ID nothing.

use crate::Position;
use crate::sync::{AtomicU64, Ordering};

/// Counts when a tick closes, which is cheaper than counting every ID. Exact, except while a tick is being closed. On
/// its own cache lines, since it is written only when a tick opens or closes.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Counters {
    /// IDs issued in closed ticks, less the numbers skipped at the start of the open tick, and less what the tick below
    /// the floor seems to have issued (wrapping). Written, like the others, by the caller that opens the next tick.
    issued: AtomicU64,
    /// Ticks opened.
    opened: AtomicU64,
    /// Closed ticks whose last position was issued.
    exhausted: AtomicU64,
    /// IDs issued ahead of the clock in closed ticks.
    borrowed: AtomicU64,
    /// The first position of the open tick that was issued ahead of the clock.
    borrowed_from: AtomicU64,
    /// IDs issued from the history. Written by the callers that take them.
    history: AtomicU64,
    /// As in the generator. Never written again.
    sequence_bits: u32,
}

/// What a generator has issued since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All IDs.
    pub issued: u64,
    /// Ticks that were used up.
    pub ticks_exhausted: u64,
    /// IDs with a timestamp ahead of the clock, with the rest of a tick that the clock has reached meanwhile.
    pub borrowed: u64,
    /// IDs from past ticks.
    pub history: u64,
}

impl Counters {
    /// For a generator that has issued nothing, and whose tick 0 looks used up.
    pub(super) fn new(sequence_bits: u32) -> Self {
        Self {
            issued: AtomicU64::new(0_u64.wrapping_sub(1 << sequence_bits)),
            opened: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
            borrowed: AtomicU64::new(0),
            borrowed_from: AtomicU64::new(u64::MAX),
            history: AtomicU64::new(0),
            sequence_bits,
        }
    }

    /// Does not count the last position before the floor.
    pub(super) fn start(&self, last_taken: Position) {
        self.issued.store(0_u64.wrapping_sub(self.numbered(last_taken)), Ordering::Relaxed);
    }

    /// Counts the IDs of the tick of `from`, and none of the tick of `to`, to which an advance has skipped.
    pub(super) fn skip(&self, from: Position, to: Position) {
        self.issued.fetch_add(self.numbered(from).wrapping_sub(self.numbered(to)), Ordering::Relaxed);
        self.count_borrowed(from);
    }

    /// Counts a closed tick, whose last position issued is `last`. The new tick has skipped some numbers.
    pub(super) fn close(&self, last: Position, left_out: u64, exhausted: bool) {
        self.issued.fetch_add(self.numbered(last).wrapping_sub(left_out), Ordering::Relaxed);
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.count_borrowed(last);
        if exhausted {
            self.exhausted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many ticks were opened.
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// `first` was issued ahead of the clock.
    pub(super) fn record_borrowed(&self, first: Position) {
        if self.tick_of(self.borrowed_from.load(Ordering::Relaxed)) != self.tick_of(first) {
            self.borrowed_from.store(first, Ordering::Relaxed);
        }
    }

    /// So many IDs came from the history.
    pub(super) fn count_history(&self, ids: u64) {
        self.history.fetch_add(ids, Ordering::Relaxed);
    }

    /// What was issued, up to and with this position.
    pub(super) fn read(&self, state: Position) -> Counts {
        // Several loads: a tick that closes between them is counted wrongly for one reading.
        let history = self.history.load(Ordering::Relaxed);
        let in_order = self.issued.load(Ordering::Relaxed).wrapping_add(self.numbered(state));
        // Below 0 only for a moment in which the first tick is being opened.
        let in_order = in_order.cast_signed().max(0).cast_unsigned();
        Counts {
            issued: in_order + history,
            ticks_exhausted: self.exhausted.load(Ordering::Relaxed),
            borrowed: self.borrowed.load(Ordering::Relaxed) + self.borrowed_in(state),
            history,
        }
    }

    /// Counts what was issued ahead of the clock in the tick of `last`, which is closed.
    fn count_borrowed(&self, last: Position) {
        let borrowed = self.borrowed_in(last);
        if borrowed > 0 {
            self.borrowed.fetch_add(borrowed, Ordering::Relaxed);
        }
    }

    /// How many IDs up to `last` were issued ahead of the clock in its tick.
    fn borrowed_in(&self, last: Position) -> u64 {
        let from = self.borrowed_from.load(Ordering::Relaxed);
        if self.tick_of(from) == self.tick_of(last) { (last + 1).saturating_sub(from) } else { 0 }
    }

    /// How many IDs a tick has given when its last one is at this position, with those left out at its start.
    fn numbered(&self, position: Position) -> u64 {
        (position & ((1 << self.sequence_bits) - 1)) + 1
    }

    fn tick_of(&self, position: Position) -> u64 {
        position >> self.sequence_bits
    }
}
