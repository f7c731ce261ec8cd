//! Counts of what was issued, which cost a tick something and an ID nothing.

use crate::Position;
use crate::issue::sync::{AtomicU64, Ordering};

/// Counts when a tick closes, which is cheaper than counting every ID. Exact, except while a tick is being closed. On
/// its own cache lines, since it is written only when a tick opens or closes.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Counters {
    /// IDs issued in closed ticks, less the numbers skipped at the start of the open tick, and less what the tick below
    /// the floor seems to have issued (wrapping). Written, like the others, by the caller that opens the next tick.
    issued: AtomicU64,
    /// Ticks opened.
    ticks: AtomicU64,
    /// The first position of the open tick; 0 before one is opened.
    opened: AtomicU64,
    /// Closed ticks whose last position was issued.
    exhausted: AtomicU64,
    /// IDs issued ahead of the clock in closed ticks.
    borrowed: AtomicU64,
    /// The first position of the open tick that was issued ahead of the clock.
    borrowed_from: AtomicU64,
    /// IDs issued from the history. Written by the callers that take them.
    history: AtomicU64,
    /// The most IDs with timestamps of one second, among seconds that have ended.
    busiest_second: AtomicU64,
    /// How many IDs had been issued when the second of the open tick began.
    issued_before_second: AtomicU64,
    /// As in the generator. Never written again.
    sequence_bits: u32,
    /// How many ticks a second has. Never written again.
    ticks_per_second: u64,
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
    /// The most IDs with timestamps of one second, without those from past ticks, since
    /// [`forget_busiest_second`](super::Generator::forget_busiest_second).
    pub busiest_second: u64,
}

impl Counters {
    /// The counters of a generator that has issued nothing, and whose last position issued is the last one of a tick.
    pub(super) fn new(sequence_bits: u32, ticks_per_second: u64) -> Self {
        Self {
            issued: AtomicU64::new(0_u64.wrapping_sub(1 << sequence_bits)),
            ticks: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
            borrowed: AtomicU64::new(0),
            borrowed_from: AtomicU64::new(u64::MAX),
            history: AtomicU64::new(0),
            busiest_second: AtomicU64::new(0),
            issued_before_second: AtomicU64::new(0),
            sequence_bits,
            ticks_per_second,
        }
    }

    /// Counts the IDs of the tick of `from`, and none of the tick of `to`, to which an advance has skipped.
    pub(super) fn skip(&self, from: Position, to: Position) {
        self.issued.fetch_add(self.numbered(from).wrapping_sub(self.numbered(to)), Ordering::Relaxed);
        if self.second_of(from) != self.second_of(to) {
            self.count_second(self.in_order(self.numbered(to)));
        }
        self.count_borrowed(from);
    }

    /// Counts a closed tick, whose last position issued is `last`. The new tick has skipped the numbers below
    /// `first`'s.
    pub(super) fn close(&self, last: Position, first: Position, exhausted: bool) {
        let closed = self.numbered(last).wrapping_sub(self.numbered(first) - 1);
        self.issued.fetch_add(closed, Ordering::Relaxed);
        self.ticks.fetch_add(1, Ordering::Relaxed);
        self.opened.store(first, Ordering::Relaxed);
        if self.second_of(last) != self.second_of(first) {
            self.count_second(self.in_order(self.numbered(first) - 1));
        }
        self.count_borrowed(last);
        if exhausted {
            self.exhausted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Does not count so many positions of the open tick, which were skipped.
    pub(super) fn skip_within_tick(&self, positions: u64) {
        if positions > 0 {
            self.issued.fetch_sub(positions, Ordering::Relaxed);
        }
    }

    /// How many ticks were opened.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// How many IDs the tick of `state`, the last position issued, has issued; many if an advance has skipped to it, or
    /// if it is just being opened.
    pub(super) fn issued_in_open_tick(&self, state: Position) -> u64 {
        (state + 1).saturating_sub(self.opened.load(Ordering::Relaxed))
    }

    /// Records that `first` was issued ahead of the clock.
    pub(super) fn record_borrowed(&self, first: Position) {
        if self.tick_of(self.borrowed_from.load(Ordering::Relaxed)) != self.tick_of(first) {
            self.borrowed_from.store(first, Ordering::Relaxed);
        }
    }

    /// Counts IDs from the history.
    pub(super) fn count_history(&self, ids: u64) {
        self.history.fetch_add(ids, Ordering::Relaxed);
    }

    /// The counts up to this position.
    pub(super) fn read(&self, state: Position) -> Counts {
        // Several loads: a tick that closes between them is counted wrongly for one reading.
        let history = self.history.load(Ordering::Relaxed);
        let in_order = self.in_order(self.numbered(state));
        let second = in_order.saturating_sub(self.issued_before_second.load(Ordering::Relaxed));
        Counts {
            issued: in_order + history,
            ticks_exhausted: self.exhausted.load(Ordering::Relaxed),
            borrowed: self.borrowed.load(Ordering::Relaxed) + self.borrowed_in(state),
            history,
            busiest_second: self.busiest_second.load(Ordering::Relaxed).max(second),
        }
    }

    /// Begins to look for the busiest second anew, after the last position issued.
    pub(super) fn forget_busiest_second(&self, state: Position) {
        self.issued_before_second.store(self.in_order(self.numbered(state)), Ordering::Relaxed);
        self.busiest_second.store(0, Ordering::Relaxed);
    }

    /// How many IDs were issued in order, when the open tick has issued so many, with the numbers skipped at its start.
    fn in_order(&self, numbered: u64) -> u64 {
        let issued = self.issued.load(Ordering::Relaxed).wrapping_add(numbered);
        // Below 0 only for a moment in which the first tick is being opened.
        issued.cast_signed().max(0).cast_unsigned()
    }

    /// Ends a second, after so many IDs in all. Two callers can do this at once only if one was stopped for a second.
    fn count_second(&self, issued: u64) {
        let issued_before = self.issued_before_second.swap(issued, Ordering::Relaxed);
        self.busiest_second.fetch_max(issued.saturating_sub(issued_before), Ordering::Relaxed);
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

    /// How many IDs a tick has issued when its last one is at this position, with the numbers skipped at its start.
    fn numbered(&self, position: Position) -> u64 {
        (position & ((1 << self.sequence_bits) - 1)) + 1
    }

    fn tick_of(&self, position: Position) -> u64 {
        position >> self.sequence_bits
    }

    fn second_of(&self, position: Position) -> u64 {
        self.tick_of(position) / self.ticks_per_second
    }
}
