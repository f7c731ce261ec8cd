//! The lock-free state that all backends of a server share.
//!
//! One word, `state`, is the last position issued. A caller computes the next position from the clock, and takes it
//! with one compare-and-swap. A caller that loses the race tries again from the winner's position. So no position is
//! taken twice, and each is greater than all before it.
//!
//! A second word, `limit`, is the first position that the durable mark does not cover. No position at or above it is
//! issued (invariant I1). It is raised after the mark is on disk. It starts at 0: nothing can be issued until
//! [`Generator::start`] has been told how far the server may have come before.
//!
//! A third word, `soft_limit`, is at most the limit. Callers that open a tick compare with it only. The first caller
//! that reaches it is told to extend the mark while there is still room, and the others continue.
//!
//! Most callers [`join`](Generator::join) the open tick. If there is none, at the beginning of a tick or when it is
//! full, a caller takes a [`snapshot`](Generator::snapshot), reads the clock, and [`take`](Generator::take)s, in this
//! order: a clock behind the snapshot has then gone back. The generator never reads a clock and never sleeps. Its
//! [`Outcome`] tells the caller what to do.
//!
//! # When the clock is behind
//!
//! The clock is behind the last timestamp issued if it was set back, or if the server started above an old mark. The
//! [`Policy`] decides what follows. If IDs continue from the last timestamp, they go up to `max_borrow` ahead of the
//! clock. `clock_lag` is how far the clock is behind. The clock plus this lag advances as the clock does. So a server
//! ahead of its clock issues no more IDs per second than others, and its lead never grows by itself (unless full ticks
//! may borrow). The lag shrinks as unused ticks let the clock catch up, until the clock is set back again.

use crate::issue::generator::counters::Counters;
use crate::issue::history::History;
use crate::issue::policy::{Policy, SequenceStart};
use crate::issue::sync::{AtomicU64, Ordering};
use crate::{Position, Tick};

mod counters;
mod outlook;
mod placed;

pub use counters::Counts;

/// A generator's shared words. It has no pointers, so processes can share it.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Generator {
    /// The last position issued. Written by every caller that takes positions, by compare-and-swap. Release, so that a
    /// caller that joins a tick (Acquire) sees what its opener saw of the mark.
    state: AtomicU64,
    /// The count of a steady counter until which callers may join the open tick without reading the clock. It bounds
    /// how late a timestamp is, not uniqueness, so Relaxed. Written by callers that have read the clock; 0 at first.
    open_until: AtomicU64,
    /// The low bits of a position, which number the IDs of a tick. Never written after [`Generator::new`]. Here, since
    /// a caller that takes a position has this cache line already.
    sequence_mask: u64,
    /// The first position that the durable mark does not cover. Raised, before `soft_limit`, by the process that has
    /// made the mark durable.
    limit: AtomicU64,
    /// Where callers ask for an extension; at most `limit`. Raised with it (Release), and to it by the caller that
    /// takes on the extension. Read by every caller that opens a tick (Acquire).
    soft_limit: AtomicU64,
    /// How many ticks the clock is behind the timestamps issued. It bounds the pace, not uniqueness, so Relaxed. Raised
    /// by callers that find the clock behind, and lowered by callers that find it less behind.
    clock_lag: AtomicU64,
    /// What the clock showed last to a caller that opened a tick or found it set back. Relaxed: every value is one that
    /// the clock has shown.
    clock: AtomicU64,
    /// The highest tick that the clock showed, and that was issued, before it went back; 0 if it never has. Raised by
    /// callers that find that.
    highest_clock: AtomicU64,
    /// How many bits the sequence has.
    sequence_bits: u32,
    /// Counts, on cache lines of their own, since they are written only when a tick opens or closes.
    counters: Counters,
    /// Positions of closed ticks that were never issued.
    history: History,
}

/// Adjacent positions taken by one call: `first`, `first + 1`, … `last`, all in one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first position taken.
    pub first: Position,
    /// The last position taken.
    pub last: Position,
}

/// What a caller has seen before it reads the clock.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    state: Position,
    clock: Tick,
}

/// What a caller has, or must do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// These positions are the caller's.
    Taken(Span),
    /// Another caller was faster. Try again.
    Contended,
    /// The durable mark does not cover this tick, or soon will not cover the next ones. Extend it past the tick, then
    /// try again. If [`covered_until`](Generator::covered_until) is greater, there is still room: only the caller that
    /// [takes on](Generator::take_on_extension) the extension must try.
    Extend(Tick),
    /// Wait until the clock reaches this tick, then try again.
    Wait(Tick),
    /// The clock has gone back from this tick, and the policy is to fail.
    Behind(Tick),
}

impl Generator {
    /// A generator that issues nothing before [`start`](Self::start), with ticks of a millisecond.
    pub fn new(sequence_bits: u32) -> Self {
        Self::with_ticks_per_second(sequence_bits, 1000)
    }

    /// A generator with ticks of another length. Their length matters only to counts per second.
    pub fn with_ticks_per_second(sequence_bits: u32, ticks_per_second: u64) -> Self {
        Self {
            // Tick 0 looks used up, so no caller joins it before the start.
            state: AtomicU64::new((1 << sequence_bits) - 1),
            limit: AtomicU64::new(0),
            soft_limit: AtomicU64::new(0),
            clock_lag: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            highest_clock: AtomicU64::new(0),
            open_until: AtomicU64::new(0),
            sequence_bits,
            sequence_mask: (1 << sequence_bits) - 1,
            counters: Counters::new(sequence_bits, ticks_per_second.max(1)),
            history: History::new(),
        }
    }

    /// Whether [`start`](Self::start) was called.
    pub fn is_started(&self) -> bool {
        self.limit.load(Ordering::Acquire) > 0
    }

    /// Sets the first tick that may be issued. Everything below `floor`, which is not 0, may have been issued before
    /// (invariant I2). If the clock, at `now`, is below it, IDs still begin at the floor. To be called once, under the
    /// lock of [`cover`](Self::cover).
    pub fn start(&self, floor: Tick, now: Tick) {
        assert!(floor > 0 && !self.is_started(), "start({floor}) of a generator that runs");
        let last_taken = (floor << self.sequence_bits) - 1;
        self.history.raise_floor(floor);
        // Release: the caller that opens the first tick enters it in the history, above this floor.
        self.state.store(last_taken, Ordering::Release);
        self.clock_lag.store(floor.saturating_sub(now), Ordering::Relaxed);
        let floor = floor << self.sequence_bits;
        self.limit.store(floor, Ordering::Release);
        // Release: a caller that sees this also sees the state above. A caller that has loaded the state earlier loses
        // its compare-and-swap.
        self.soft_limit.store(floor, Ordering::Release);
    }

    /// Allows every tick before `end`, which the durable mark must cover by now, and asks for an extension from the
    /// tick `soft_limit` on. To be called under a lock.
    pub fn cover(&self, soft_limit: Tick, end: Tick) {
        assert!(self.is_started(), "I2: a mark for a generator that has not been told where to begin");
        let end = end << self.sequence_bits;
        self.limit.fetch_max(end, Ordering::Release);
        self.soft_limit.fetch_max((soft_limit << self.sequence_bits).min(end), Ordering::Release);
    }

    /// Takes on an extension while there is still room: true for one caller (rarely two, if an extension ends
    /// meanwhile). All callers then continue up to the limit, where each is told to extend. So the extension may fail.
    pub fn take_on_extension(&self) -> bool {
        let (soft_limit, limit) = (self.soft_limit.load(Ordering::Acquire), self.limit.load(Ordering::Acquire));
        soft_limit < limit
            && self.soft_limit.compare_exchange(soft_limit, limit, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Raises the state, so that all new IDs are in later ticks than this one, which the durable mark must cover by
    /// now.
    pub fn advance(&self, past: Tick) {
        let covered = self.covered_until();
        assert!(past < covered, "I1: an advance to tick {past}, and the mark covers {covered}");
        // The history first: earlier ticks are not entered any more, and nothing is taken of those entered.
        self.history.raise_floor(past);
        let position = past << self.sequence_bits | self.sequence_mask;
        let mut seen = self.state.load(Ordering::Relaxed);
        while seen < position {
            match self.state.compare_exchange(seen, position, Ordering::AcqRel, Ordering::Relaxed) {
                Err(state) => seen = state,
                Ok(_) => {
                    self.counters.skip(seen, position);
                    return;
                }
            }
        }
    }

    /// The first tick that the durable mark does not cover; 0 before [`start`](Self::start).
    pub fn covered_until(&self) -> Tick {
        self.limit.load(Ordering::Acquire) >> self.sequence_bits
    }

    /// The last tick issued or, before the first ID, the tick before the floor.
    pub fn last_tick(&self) -> Tick {
        self.state.load(Ordering::Relaxed) >> self.sequence_bits
    }

    /// The last position issued or, before the first ID, the position before the floor. Nothing above it was issued.
    /// Acquire: what callers did before they took positions up to this one has happened (see
    /// [`crate::issue::horizon`]).
    pub fn last_position(&self) -> Position {
        // mutant: state-acquire
        self.state.load(Ordering::Acquire)
    }

    /// Closes the history up to `last`, which [`last_position`](Self::last_position) has returned: no position of it is
    /// taken any more. Whatever a caller did before it took one has happened.
    pub fn close_history(&self, last: Position) {
        // What the tick of `last` has left over when it is closed is above `last`.
        self.history.raise_floor((last >> self.sequence_bits).saturating_sub(1));
    }

    /// The least position of the history that [`take`](Self::take) may take; `None` if it only takes in order.
    pub fn least_of_history(&self, snapshot: Snapshot, now: Tick, policy: &Policy) -> Option<Position> {
        let may = policy.clock_regression.reads_history() && now < snapshot.state >> self.sequence_bits;
        may.then_some(now << self.sequence_bits)
    }

    /// What was issued since [`start`](Self::start).
    pub fn counts(&self) -> Counts {
        self.counters.read(self.state.load(Ordering::Relaxed))
    }

    /// Begins to look for the [busiest second](Counts::busiest_second) anew.
    pub fn forget_busiest_second(&self) {
        self.counters.forget_busiest_second(self.state.load(Ordering::Relaxed));
    }

    /// Takes up to `want` positions (at least 1) of the tick that is open, if that is `now`.
    #[inline(always)]
    pub fn join(&self, now: Tick, want: u32) -> Option<Span> {
        let (begin, mask) = (now << self.sequence_bits, self.sequence_mask);
        // Another tick, before or after, or the last position of this one: all in one comparison.
        self.claim_while(want, |seen| seen.wrapping_sub(begin) < mask)
    }

    /// Takes up to `want` positions (at least 1) of the open tick, without a clock. The caller that read the clock last
    /// has [recorded](Self::keep_open) until which count of a steady counter the tick stays open; `count` must be at
    /// most `max_age` before that.
    #[inline(always)]
    pub fn join_open(&self, count: u64, max_age: u64, want: u32) -> Option<Span> {
        if !self.is_open_at(count, max_age) {
            return None;
        }
        self.claim_while(want, |seen| !self.is_full(seen))
    }

    /// Whether the open tick was recorded to be open at this count.
    #[inline(always)]
    fn is_open_at(&self, count: u64, max_age: u64) -> bool {
        // From 1 to `max_age` counts are left. Wrapping: a counter that was reset is far from every recorded count.
        let left = self.open_until.load(Ordering::Relaxed).wrapping_sub(count);
        left.wrapping_sub(1) < max_age
    }

    /// Lets others [join](Self::join_open) the tick of a span until this count, if it is still the open one. The caller
    /// has just read the clock, and the policy has let it take the span; a tick ahead of the clock only comes nearer to
    /// it. A span from the history opens nothing.
    pub fn keep_open(&self, taken: Span, until: u64) {
        if self.last_tick() == taken.last >> self.sequence_bits {
            self.open_until.store(until, Ordering::Relaxed);
        }
    }

    /// Makes the next caller read the clock.
    pub fn shut(&self) {
        self.open_until.store(0, Ordering::Relaxed);
    }

    /// Takes the positions after the last one, as long as that `is_open`.
    #[inline(always)]
    fn claim_while(&self, want: u32, is_open: impl Fn(Position) -> bool) -> Option<Span> {
        let mut seen = self.state.load(Ordering::Relaxed);
        while is_open(seen) {
            // The limit is between two ticks, so it covers the rest of an open one.
            match self.try_claim(seen, seen + 1, want) {
                Ok(span) => return Some(span),
                Err(state) => seen = state,
            }
        }
        None
    }

    /// The state before the clock is read.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.state.load(Ordering::Relaxed), clock: self.clock.load(Ordering::Relaxed) }
    }

    /// Records what the clock shows after a snapshot. One of the callers that find the clock set back gets the number
    /// of ticks.
    pub fn observe_clock(&self, snapshot: Snapshot, now: Tick) -> Option<Tick> {
        if now < snapshot.clock {
            // Not a time for which no ID was issued.
            self.highest_clock.fetch_max(snapshot.clock.min(self.last_tick()), Ordering::Relaxed);
        }
        let first = now != snapshot.clock
            && self.clock.compare_exchange(snapshot.clock, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        (first && now < snapshot.clock).then(|| snapshot.clock - now)
    }

    /// Takes up to `want` positions (at least 1) at the time `now`, which was read after the snapshot.
    #[cold]
    pub fn take(&self, snapshot: Snapshot, now: Tick, want: u32, policy: &Policy) -> Outcome {
        self.take_at_least(1, snapshot, now, want, policy)
    }

    /// Takes exactly `want` positions, at most as many as a tick has. A tick with less room counts as full, and the
    /// history is not used.
    #[cold]
    pub fn take_block(&self, snapshot: Snapshot, now: Tick, want: u32, policy: &Policy) -> Outcome {
        self.take_at_least(want, snapshot, now, want, policy)
    }

    /// Takes between `least` and `want` positions.
    #[inline]
    fn take_at_least(&self, least: u32, snapshot: Snapshot, now: Tick, want: u32, policy: &Policy) -> Outcome {
        let first = self.next_position(snapshot.state, now, least, policy);
        if least == 1
            && policy.clock_regression.reads_history()
            && now < first >> self.sequence_bits
            && now < self.highest_clock.load(Ordering::Relaxed)
            && let Some(span) = self.take_from_history(now, want)
        {
            return Outcome::Taken(span);
        }
        if let Some(outcome) = self.held_back(snapshot, first, now, policy) {
            return outcome;
        }
        self.take_from(snapshot, first, now, want, policy)
    }

    /// What the clock does to a caller that would take this position at the time `now`.
    fn held_back(
        &self,
        Snapshot { state, .. }: Snapshot,
        first: Position,
        now: Tick,
        policy: &Policy,
    ) -> Option<Outcome> {
        let tick = first >> self.sequence_bits;
        if tick <= now {
            return None;
        }
        let behind = (state >> self.sequence_bits).saturating_sub(now);
        let mut clock_lag = self.clock_lag.load(Ordering::Relaxed);
        if clock_lag < behind {
            clock_lag = self.clock_lag.fetch_max(behind, Ordering::Relaxed).max(behind);
        }
        outlook::held_back(policy, tick, now, self.highest_clock.load(Ordering::Relaxed), clock_lag)
    }

    /// Takes up to `want` positions from `first` on, which nothing holds back.
    #[inline]
    fn take_from(&self, snapshot: Snapshot, first: Position, now: Tick, want: u32, policy: &Policy) -> Outcome {
        let Snapshot { state, .. } = snapshot;
        let tick = first >> self.sequence_bits;
        let opens = tick != state >> self.sequence_bits;
        if opens && first >= self.soft_limit.load(Ordering::Acquire) {
            return Outcome::Extend(tick);
        }
        // mutant: close-after-claim
        let Ok(span) = self.try_claim(state, first, want) else { return Outcome::Contended };
        if opens {
            // The limit does not fall. A position that is not returned is not issued.
            let limit = self.limit.load(Ordering::Relaxed);
            assert!(span.last < limit, "I1: position {} was taken, and the limit is {limit}", span.last);
            self.close(state, first, policy);
        }
        let lead = tick.saturating_sub(now);
        if lead > 0 {
            self.counters.record_borrowed(first);
        }
        if lead < self.clock_lag.load(Ordering::Relaxed) {
            self.clock_lag.store(lead, Ordering::Relaxed);
        }
        Outcome::Taken(span)
    }

    /// The next position after `state` at the time `now`, in whose tick there are `room` positions from it on.
    fn next_position(&self, state: Position, now: Tick, room: u32, policy: &Policy) -> Position {
        let last_start = self.sequence_mask + 1 - u64::from(room);
        let open = state >> self.sequence_bits;
        if open >= now {
            let next = state + 1;
            // The position after a full tick is the first of the next one.
            return if next & self.sequence_mask <= last_start { next } else { (open + 1) << self.sequence_bits };
        }
        let start = match policy.sequence_start {
            // The counters are not read.
            SequenceStart::Zero => 0,
            start @ (SequenceStart::Random | SequenceStart::Rotate) => {
                let (nth, issued) = (self.counters.ticks(), self.counters.issued_in_open_tick(state));
                start.first_number(now, nth, self.sequence_mask + 1, issued)
            }
        };
        now << self.sequence_bits | start.min(last_start)
    }

    /// Tries once to take `first` and the next positions of its tick, if `seen` is still the state; else returns the
    /// state.
    #[inline(always)]
    fn try_claim(&self, seen: Position, first: Position, want: u32) -> Result<Span, Position> {
        let last = (first + u64::from(want) - 1).min(first | self.sequence_mask);
        // mutant: claim-compares
        self.state.compare_exchange(seen, last, Ordering::AcqRel, Ordering::Relaxed).map(|_| Span { first, last })
    }

    /// Takes positions that the past tick `now` has left over.
    fn take_from_history(&self, now: Tick, want: u32) -> Option<Span> {
        let (first, last) = self.history.take(self.sequence_bits, now, want)?;
        self.counters.count_history(last - first + 1);
        let tick = now << self.sequence_bits;
        Some(Span { first: tick | first, last: tick | last })
    }

    /// Closes the tick of `last`, after `first` has opened another one. Called once for each tick, by the caller that
    /// has opened the next.
    fn close(&self, last: Position, first: Position, policy: &Policy) {
        let (closed, opened) = (last >> self.sequence_bits, first >> self.sequence_bits);
        // The tick below a floor only looks full.
        let exhausted = self.is_full(last) && closed > self.history.floor();
        self.counters.close(last, first, exhausted);
        if policy.clock_regression.reads_history() {
            let used = (last & self.sequence_mask) + 1;
            self.history.enter(self.sequence_bits, closed, used, closed + 1..opened);
        }
    }

    fn is_full(&self, last: Position) -> bool {
        last & self.sequence_mask == self.sequence_mask
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
