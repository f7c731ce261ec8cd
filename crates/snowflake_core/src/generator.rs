//! The lock-free state that all backends of a server share.
//!
//! One word, `state`, is the last position issued. A caller computes the next position from the clock, and takes it
//! with one compare-and-swap; whoever loses the race tries again from the winner's position. So no position is
//! taken twice, and each is greater than every position taken before it.
//!
//! A second word, `limit`, is the first position that the durable mark does not cover. Nothing at or above it is ever
//! issued (invariant I1), and it is raised only after the mark is on disk. It starts at 0: until
//! [`Generator::start`] has been told how far an earlier life of the server may have come, nothing can be issued at all.
//!
//! A third word, `soft_limit`, is at most the limit. Callers that open a tick compare with it alone: the first one to come there
//! is told to have the mark extended while there is still room, and the others go on.
//!
//! Most callers [`join`](Generator::join) the tick that is open, and that is all. Whoever finds none open, at the beginning
//! of a tick or when it is full, has to take a [`snapshot`](Generator::snapshot), to read the clock, and to [`take`](Generator::take): in
//! this order, so that a clock behind what was found can only have gone back. The generator itself never reads a
//! clock and never sleeps. It says what to do next, as an [`Outcome`].
//!
//! # When the clock is behind
//!
//! The clock can stand behind the last timestamp issued: it was set back, or the server started above the mark that
//! an earlier life left. What then happens is for the [`Policy`]. Where IDs go on from the last timestamp, they go up to
//! `max_borrow` ahead of the clock. How far the clock is behind is kept in `clock_lag`; the clock plus this lag goes
//! on ticking as the clock does, so a server that is ahead of its clock issues no more IDs per second than one that is
//! not, and its lead never grows by itself (unless full ticks may be borrowed from the future, too). The lag only
//! shrinks, as unused ticks let the clock catch up, until the clock is set back again.

use crate::generator::counters::Counters;
use crate::history::History;
use crate::policy::{ClockRegression, Policy};
use crate::sync::{AtomicU64, Ordering};
use crate::{Position, Tick};

mod counters;

pub use counters::Counts;

/// A generator's shared words. It holds no pointers, so it can lie in memory shared between processes.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Generator {
    /// The last position issued. Written by every caller that takes positions, by compare-and-swap: Release, so that who
    /// joins a tick (Acquire) sees what its opener saw of the mark.
    state: AtomicU64,
    /// Until which count of a steady counter the open tick may be joined without a look at the clock. Advisory: it bounds how
    /// late a timestamp is, not uniqueness, so Relaxed. Written by callers that have read the clock; 0 at first.
    open_until: AtomicU64,
    /// The low bits of a position, which number the IDs of a tick. Never written after [`Generator::new`]; here, since who takes
    /// a position has this cache line already.
    sequence_mask: u64,
    /// The first position the durable mark does not cover. Raised by whoever has just made the mark durable, before
    /// `soft_limit`.
    limit: AtomicU64,
    /// Where callers ask for an extension; at most `limit`. Raised with it (Release), and to it by the one caller that
    /// takes on the extension; read by every caller that opens a tick (Acquire).
    soft_limit: AtomicU64,
    /// How many ticks the clock is behind the timestamps issued; 0 when it is not. Advisory: it bounds the pace, not
    /// uniqueness, so Relaxed. Written by callers that find the clock behind, and set to 0 by the first that does not.
    clock_lag: AtomicU64,
    /// What the clock showed last, to those who opened a tick or found that it had gone back. Relaxed: a value can only be
    /// one that the clock has really shown.
    clock: AtomicU64,
    /// What the clock showed before it went back, and was issued then; 0 if it never has. Raised by whoever finds that.
    highest_clock: AtomicU64,
    /// How many bits these are.
    sequence_bits: u32,
    /// On cache lines of its own, as it is written only when a tick opens or closes.
    counters: Counters,
    /// Positions of closed ticks that were never issued.
    history: History,
}

/// Neighbouring positions taken by one call: `first`, `first + 1`, … `last`. All lie in one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first position taken.
    pub first: Position,
    /// The last position taken.
    pub last: Position,
}

/// What a caller has found before it read the clock.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    state: Position,
    clock: Tick,
}

/// What a caller has got, or has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// These positions are the caller's.
    Taken(Span),
    /// Another caller was faster. Begin again.
    Contended,
    /// The durable mark does not cover this tick, or will not cover those after it for long. Extend it past the tick,
    /// then begin again. Where [`covered_until`](Generator::covered_until) is greater there is still
    /// room: only who [takes on](Generator::take_on_extension) the extension has to try it.
    Extend(Tick),
    /// Wait until the clock reaches this tick, then begin again.
    Wait(Tick),
    /// The clock has gone back, and the policy is to refuse then. It has shown this tick before.
    Behind(Tick),
}

impl Generator {
    /// A generator that issues nothing before [`start`](Self::start).
    pub fn new(sequence_bits: u32) -> Self {
        Self {
            // Tick 0 looks used up, so that nobody joins it before the start.
            state: AtomicU64::new((1 << sequence_bits) - 1),
            limit: AtomicU64::new(0),
            soft_limit: AtomicU64::new(0),
            clock_lag: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            highest_clock: AtomicU64::new(0),
            open_until: AtomicU64::new(0),
            sequence_bits,
            sequence_mask: (1 << sequence_bits) - 1,
            counters: Counters::new(sequence_bits),
            history: History::new(),
        }
    }

    /// Whether [`start`](Self::start) was called.
    pub fn is_started(&self) -> bool {
        self.limit.load(Ordering::Acquire) > 0
    }

    /// Sets the first tick that may be issued: everything below `floor` may have been issued in an earlier life
    /// (invariant I2). Where the clock, at `now`, is below it, IDs begin at the floor all the same, and go on from there.
    /// To be called once, under the lock that also guards [`cover`](Self::cover). `floor` may not be 0.
    pub fn start(&self, floor: Tick, now: Tick) {
        assert!(floor > 0 && !self.is_started(), "start({floor}) of a generator that runs");
        let last_taken = (floor << self.sequence_bits) - 1;
        self.history.raise_floor(floor);
        self.counters.start(last_taken);
        // Release: whoever opens the first tick enters it in the history, above this floor.
        self.state.store(last_taken, Ordering::Release);
        self.clock_lag.store(floor.saturating_sub(now), Ordering::Relaxed);
        let floor = floor << self.sequence_bits;
        self.limit.store(floor, Ordering::Release);
        // Release: whoever sees this also sees the state above. A caller that has loaded the state earlier loses its
        // compare-and-swap.
        self.soft_limit.store(floor, Ordering::Release);
    }

    /// Allows every tick before `end`, all of which the durable mark must cover by now, and wants to be extended from
    /// the tick `soft_limit` on. To be called under a lock.
    pub fn cover(&self, soft_limit: Tick, end: Tick) {
        let end = end << self.sequence_bits;
        self.limit.fetch_max(end, Ordering::Release);
        self.soft_limit.fetch_max((soft_limit << self.sequence_bits).min(end), Ordering::Release);
    }

    /// Takes on an extension for which there is still time: true for one caller (rarely for two, when they cross an
    /// extension that ends), and until the next extension everybody may go on up to the limit. It may fail; at the limit
    /// everybody is told to extend.
    pub fn take_on_extension(&self) -> bool {
        let (soft_limit, limit) = (self.soft_limit.load(Ordering::Acquire), self.limit.load(Ordering::Acquire));
        soft_limit < limit
            && self.soft_limit.compare_exchange(soft_limit, limit, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Raises the state, so that every ID from now on lies in a tick after this one, which the durable mark must cover by
    /// now.
    pub fn advance(&self, past: Tick) {
        // The history first: what lies before is not entered, and what was entered is not taken any more.
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

    /// What was issued since [`start`](Self::start).
    pub fn counts(&self) -> Counts {
        self.counters.read(self.state.load(Ordering::Relaxed))
    }

    /// Takes up to `want` positions (at least 1) of the tick that is open, if that is `now`.
    #[inline(always)]
    pub fn join(&self, now: Tick, want: u32) -> Option<Span> {
        let (begin, mask) = (now << self.sequence_bits, self.sequence_mask);
        // Another tick, before or after, or the last position of this one: all in one comparison.
        self.claim_while(want, |seen| seen.wrapping_sub(begin) < mask)
    }

    /// The same without a clock: takes positions of whatever tick is open, if whoever read the clock last has
    /// [said](Self::keep_open) that it goes on, as `count` on a steady counter shows, within the last `max_age` counts.
    #[inline(always)]
    pub fn join_open(&self, count: u64, max_age: u64, want: u32) -> Option<Span> {
        // From 1 to `max_age` counts are left. Wrapping: a counter that has begun anew is far from all that was said before.
        let left = self.open_until.load(Ordering::Relaxed).wrapping_sub(count);
        if left.wrapping_sub(1) >= max_age {
            return None;
        }
        self.claim_while(want, |seen| !self.is_full(seen))
    }

    /// Lets others [join](Self::join_open) the tick that is open until this count, if it is `now`: what the clock has just shown.
    /// It can also be a later one, which is for the policy.
    pub fn keep_open(&self, now: Tick, until: u64) {
        if self.last_tick() == now {
            self.open_until.store(until, Ordering::Relaxed);
        }
    }

    /// Has the next caller look at the clock.
    pub fn shut(&self) {
        self.open_until.store(0, Ordering::Relaxed);
    }

    /// Takes the positions after the last one, as long as that `is_open`.
    #[inline(always)]
    fn claim_while(&self, want: u32, is_open: impl Fn(Position) -> bool) -> Option<Span> {
        let mut seen = self.state.load(Ordering::Relaxed);
        while is_open(seen) {
            // The limit lies between two ticks: it covers the rest of one that is open.
            match self.try_claim(seen, seen + 1, want) {
                Ok(span) => return Some(span),
                Err(state) => seen = state,
            }
        }
        None
    }

    /// What there is before the clock is read.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.state.load(Ordering::Relaxed), clock: self.clock.load(Ordering::Relaxed) }
    }

    /// Records what the clock shows, `now`, since a caller has taken a snapshot. One of the callers that find that the clock has gone
    /// back is told by how many ticks.
    pub fn observe_clock(&self, found: Snapshot, now: Tick) -> Option<Tick> {
        if now < found.clock {
            // Not what it has shown when nothing could be issued: IDs are not behind that.
            self.highest_clock.fetch_max(found.clock.min(self.last_tick()), Ordering::Relaxed);
        }
        let first = now != found.clock
            && self.clock.compare_exchange(found.clock, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        (first && now < found.clock).then(|| found.clock - now)
    }

    /// Takes up to `want` positions (at least 1) at the time `now`, which was read after the snapshot.
    #[cold]
    pub fn take(&self, found: Snapshot, now: Tick, want: u32, policy: &Policy) -> Outcome {
        let Snapshot { state, .. } = found;
        let first = self.next_position(state, now, policy);
        let tick = first >> self.sequence_bits;
        let lead = tick.saturating_sub(now);
        if lead > 0 {
            let highest = self.highest_clock.load(Ordering::Relaxed);
            let regressed = now < highest;
            if regressed
                && policy.clock_regression == ClockRegression::History
                && let Some(span) = self.take_from_history(now, want, policy.history_ticks)
            {
                return Outcome::Taken(span);
            }
            let behind = (state >> self.sequence_bits).saturating_sub(now);
            let mut clock_lag = self.clock_lag.load(Ordering::Relaxed);
            if clock_lag < behind {
                clock_lag = self.clock_lag.fetch_max(behind, Ordering::Relaxed).max(behind);
            }
            let allowed = policy.allowed_lead(regressed, clock_lag);
            if lead > allowed {
                return match policy.clock_regression {
                    ClockRegression::Error if regressed => Outcome::Behind(highest),
                    ClockRegression::Wait if regressed => Outcome::Wait(tick.min(highest)),
                    _ => Outcome::Wait(tick - allowed),
                };
            }
        }
        let opens = tick != state >> self.sequence_bits;
        if opens && first >= self.soft_limit.load(Ordering::Acquire) {
            return Outcome::Extend(tick);
        }
        let Ok(span) = self.try_claim(state, first, want) else { return Outcome::Contended };
        if opens {
            self.close(state, first, policy);
        }
        if lead > 0 {
            self.counters.record_borrowed(first);
        }
        if lead < self.clock_lag.load(Ordering::Relaxed) {
            self.clock_lag.store(lead, Ordering::Relaxed);
        }
        Outcome::Taken(span)
    }

    /// The position after `state` at the time `now`.
    fn next_position(&self, state: Position, now: Tick, policy: &Policy) -> Position {
        if state >> self.sequence_bits >= now {
            return state + 1;
        }
        let nth = self.counters.opened();
        let start = if self.is_full(state) { 0 } else { policy.sequence_start.of(now, nth, self.sequence_mask) };
        now << self.sequence_bits | start
    }

    /// Tries once to take `first` and its neighbours in the same tick, if `seen` is still the state; says what it is if not.
    #[inline(always)]
    fn try_claim(&self, seen: Position, first: Position, want: u32) -> Result<Span, Position> {
        let last = (first + u64::from(want) - 1).min(first | self.sequence_mask);
        self.state.compare_exchange(seen, last, Ordering::AcqRel, Ordering::Relaxed).map(|_| Span { first, last })
    }

    /// Takes what the past has left of the tick `now`.
    fn take_from_history(&self, now: Tick, want: u32, ticks: Tick) -> Option<Span> {
        let (first, last) = self.history.take(self.sequence_bits, now, want, ticks)?;
        self.counters.count_history(last - first + 1);
        let tick = now << self.sequence_bits;
        Some(Span { first: tick | first, last: tick | last })
    }

    /// Settles the tick of `last`, now that `first` has opened another one. Called once for each tick, by whoever has
    /// opened the next.
    fn close(&self, last: Position, first: Position, policy: &Policy) {
        let (closed, opened) = (last >> self.sequence_bits, first >> self.sequence_bits);
        // The tick below a floor only looks full.
        let exhausted = self.is_full(last) && closed > self.history.floor();
        self.counters.close(last, first & self.sequence_mask, exhausted);
        if policy.clock_regression == ClockRegression::History {
            let used = (last & self.sequence_mask) + 1;
            self.history.enter(self.sequence_bits, closed, used, closed + 1..opened, policy.history_ticks);
        }
    }

    fn is_full(&self, last: Position) -> bool {
        last & self.sequence_mask == self.sequence_mask
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
