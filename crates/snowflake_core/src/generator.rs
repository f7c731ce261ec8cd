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
//! A third word, `early`, is at most the limit. Callers compare with it alone: the first one to come there is told to
//! have the mark extended while there is still room, and the others go on.
//!
//! The generator never reads a clock and never sleeps. It says what to do next, as an [`Outcome`].
//!
//! # When the clock is behind
//!
//! The clock can stand behind the last timestamp issued: it was set back, or the server started above the mark that
//! an earlier life left. IDs then go on from the last timestamp, up to `max_lead` ahead of the clock. How far the clock
//! is behind is kept in `correction`; the clock plus the correction goes on ticking as the clock does, so a server
//! that is ahead of its clock issues no more IDs per second than one that is not, and its lead never grows by itself.
//! The correction only shrinks, as unused ticks let the clock catch up, until the clock is set back again.

use crate::sync::{AtomicU64, Ordering};
use crate::{Position, Tick};

/// A generator's shared words. It holds no pointers, so it can lie in memory shared between processes.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Generator {
    /// The last position issued. Written by every caller that takes positions, by compare-and-swap.
    state: AtomicU64,
    /// The first position the durable mark does not cover. Raised by whoever has just made the mark durable, before
    /// `early`.
    limit: AtomicU64,
    /// Where callers ask for an extension; at most `limit`. Raised with it (Release), and to it by the one caller that
    /// takes on the extension; read by every caller before it takes a position (Acquire).
    early: AtomicU64,
    /// How many ticks the clock is behind the timestamps issued; 0 when it is not. Advisory: it bounds the pace, not
    /// uniqueness, so Relaxed. Written by callers that find the clock behind, and set to 0 by the first that does not.
    correction: AtomicU64,
    /// Low bits of a position that number the IDs of a tick. Never written after [`Generator::new`].
    sequence_bits: u32,
    /// On cache lines of its own, as it is written only when a tick closes.
    closed: Closed,
}

/// Counts what is known only when a tick closes, which is cheaper than counting every ID.
#[derive(Debug)]
#[repr(C, align(128))]
struct Closed {
    /// IDs issued in ticks that are closed, less what the tick below the floor seems to have given (wrapping). Written by
    /// whoever opens the next tick.
    issued: AtomicU64,
}

/// Neighbouring positions taken by one call: `first`, `first + 1`, … `last`. All lie in one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first position taken.
    pub first: Position,
    /// The last position taken.
    pub last: Position,
}

/// What a caller has got, or has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// These positions are the caller's.
    Taken(Run),
    /// The durable mark does not cover this tick, or will not cover those after it for long. Extend it past the tick,
    /// then [`take`](Generator::take) again. Where [`covered_until`](Generator::covered_until) is greater there is still
    /// room: only who [takes on](Generator::take_on_extension) the extension has to try it.
    Extend(Tick),
    /// At the given time there is no position left: read the clock *now* and call
    /// [`take_ahead`](Generator::take_ahead). A reading older than `seen` might only be stale.
    Ahead {
        /// The state that was found.
        seen: Position,
    },
    /// Wait until the clock reaches this tick, then [`take`](Generator::take) again.
    Wait(Tick),
}

impl Generator {
    /// A generator that issues nothing before [`start`](Self::start).
    pub fn new(sequence_bits: u32) -> Self {
        Self {
            state: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            early: AtomicU64::new(0),
            correction: AtomicU64::new(0),
            sequence_bits,
            // Position 0 counts as one ID of a tick; none was issued.
            closed: Closed { issued: AtomicU64::new(0_u64.wrapping_sub(1)) },
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
        self.closed.issued.store(0_u64.wrapping_sub(self.numbered(last_taken)), Ordering::Relaxed);
        self.state.store(last_taken, Ordering::Relaxed);
        self.correction.store(floor.saturating_sub(now), Ordering::Relaxed);
        let floor = floor << self.sequence_bits;
        self.limit.store(floor, Ordering::Release);
        // Release: whoever sees this also sees the state above. A caller that has loaded the state earlier loses its
        // compare-and-swap.
        self.early.store(floor, Ordering::Release);
    }

    /// Allows every tick before `end`, all of which the durable mark must cover by now, and wants to be extended from
    /// the tick `early` on. To be called under a lock.
    pub fn cover(&self, early: Tick, end: Tick) {
        let end = end << self.sequence_bits;
        self.limit.fetch_max(end, Ordering::Release);
        self.early.fetch_max((early << self.sequence_bits).min(end), Ordering::Release);
    }

    /// Takes on an extension for which there is still time: true for one caller (rarely for two, when they cross an
    /// extension that ends), and until the next extension everybody may go on up to the limit. It may fail; at the limit
    /// everybody is told to extend.
    pub fn take_on_extension(&self) -> bool {
        let (early, limit) = (self.early.load(Ordering::Acquire), self.limit.load(Ordering::Acquire));
        early < limit && self.early.compare_exchange(early, limit, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Raises the state, so that every ID from now on lies in a tick after this one, which the durable mark must cover by
    /// now.
    pub fn advance(&self, past: Tick) {
        let position = past << self.sequence_bits | self.sequence_mask();
        let mut seen = self.state.load(Ordering::Relaxed);
        while seen < position {
            match self.state.compare_exchange(seen, position, Ordering::Relaxed, Ordering::Relaxed) {
                Err(state) => seen = state,
                Ok(_) => {
                    // What the tick seems to have given was not issued; what the last one gave, was.
                    let seeming = self.numbered(seen).wrapping_sub(self.numbered(position));
                    self.closed.issued.fetch_add(seeming, Ordering::Relaxed);
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

    /// IDs issued since [`start`](Self::start).
    pub fn issued(&self) -> u64 {
        // Two loads: a tick that closes between them is counted wrongly for one reading.
        let state = self.state.load(Ordering::Relaxed);
        self.closed.issued.load(Ordering::Relaxed).wrapping_add(self.numbered(state))
    }

    /// Takes up to `want` positions (at least 1) of the tick `now`.
    #[inline]
    pub fn take(&self, now: Tick, want: u32) -> Outcome {
        let mut seen = self.state.load(Ordering::Relaxed);
        loop {
            let first = (now << self.sequence_bits).max(seen + 1);
            if first >> self.sequence_bits > now {
                return Outcome::Ahead { seen };
            }
            match self.claim(seen, first, want) {
                Claim::Lost(state) => seen = state,
                Claim::Ended(outcome) => {
                    if self.opens_tick(seen, first) && self.correction.load(Ordering::Relaxed) != 0 {
                        self.correction.store(0, Ordering::Relaxed);
                    }
                    return outcome;
                }
            }
        }
    }

    /// Takes up to `want` positions (at least 1) above `seen`, where `now` was read after `seen` was. Goes at most
    /// `max_lead` ticks ahead of the clock, and not faster than the clock.
    #[cold]
    pub fn take_ahead(&self, seen: Position, now: Tick, want: u32, max_lead: Tick) -> Outcome {
        let first = (now << self.sequence_bits).max(seen + 1);
        let tick = first >> self.sequence_bits;
        let lead = tick.saturating_sub(now);
        if lead > 0 {
            // A clock below the last tick, although it was read later, has gone back.
            let behind = (seen >> self.sequence_bits).saturating_sub(now);
            let correction = self.correction.fetch_max(behind, Ordering::Relaxed).max(behind);
            let allowed = correction.min(max_lead);
            if lead > allowed {
                return Outcome::Wait(tick - allowed);
            }
        }
        match self.claim(seen, first, want) {
            // Another caller was faster: its position is newer than `now`.
            Claim::Lost(seen) => Outcome::Ahead { seen },
            Claim::Ended(outcome) => {
                if lead < self.correction.load(Ordering::Relaxed) {
                    self.correction.store(lead, Ordering::Relaxed);
                }
                outcome
            }
        }
    }

    /// Tries once to take `first` and its neighbours in the same tick, if `seen` is still the state.
    #[inline]
    fn claim(&self, seen: Position, first: Position, want: u32) -> Claim {
        if first >= self.early.load(Ordering::Acquire) {
            return Claim::Ended(Outcome::Extend(first >> self.sequence_bits));
        }
        // Limits lie between two ticks, so they cover the rest of this one.
        let last = (first + u64::from(want) - 1).min(first | self.sequence_mask());
        match self.state.compare_exchange(seen, last, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                if self.opens_tick(seen, first) {
                    self.closed.issued.fetch_add(self.numbered(seen), Ordering::Relaxed);
                }
                Claim::Ended(Outcome::Taken(Run { first, last }))
            }
            Err(state) => Claim::Lost(state),
        }
    }

    fn opens_tick(&self, seen: Position, first: Position) -> bool {
        seen >> self.sequence_bits != first >> self.sequence_bits
    }

    /// How many IDs a tick has given when its last one is at this position.
    fn numbered(&self, position: Position) -> u64 {
        (position & self.sequence_mask()) + 1
    }

    fn sequence_mask(&self) -> u64 {
        (1 << self.sequence_bits) - 1
    }
}

/// What became of one attempt to take positions.
enum Claim {
    /// Another caller changed the state to this.
    Lost(Position),
    /// The attempt came to an end.
    Ended(Outcome),
}

#[cfg(all(test, not(loom)))]
mod tests;
