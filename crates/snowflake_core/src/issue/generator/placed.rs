//! Positions that a caller chooses: of those that come next, the first one that `fits`, as where an ID decides in which
//! shard its row is. Those before it are skipped, and nobody gets them.

use super::{Generator, Outcome, Snapshot};
use crate::issue::policy::Policy;
use crate::issue::sync::Ordering;
use crate::{Position, Tick};

impl Generator {
    /// [`join_open`](Self::join_open) for one position that fits. `None` also if nothing that is left of the tick does.
    #[inline]
    pub fn join_open_where(&self, count: u64, max_age: u64, fits: impl Fn(Position) -> bool) -> Option<Position> {
        if !self.is_open_at(count, max_age) {
            return None;
        }
        let mut seen = self.state.load(Ordering::Relaxed);
        let mut found = seen;
        while !self.is_full(seen) {
            // Who has lost a race need not look again at what is still above.
            if found <= seen {
                found = self.rest_of_tick(seen + 1).find(|&next| fits(next))?;
            }
            match self.try_claim(seen, found, 1) {
                Ok(_) => {
                    // mutant: place-skipped
                    self.counters.skip_within_tick(found - seen - 1);
                    return Some(found);
                }
                Err(state) => seen = state,
            }
        }
        None
    }

    /// [`take`](Self::take) for one position that fits. The history is not used. A tick of which nothing that is left
    /// fits counts as full, so `fits` must be true once in a while: else this looks at each position up to where the
    /// policy stops it.
    #[cold]
    pub fn take_where(
        &self,
        snapshot: Snapshot,
        now: Tick,
        policy: &Policy,
        fits: impl Fn(Position) -> bool,
    ) -> Outcome {
        let mut from = self.next_position(snapshot.state, now, 1, policy);
        loop {
            if let Some(outcome) = self.held_back(snapshot, from, now, policy) {
                return outcome;
            }
            let Some(found) = self.rest_of_tick(from).find(|&position| fits(position)) else {
                from = (from | self.sequence_mask) + 1;
                continue;
            };
            let outcome = self.take_from(snapshot, found, now, 1, policy);
            // What is skipped in a tick that this opens is not counted from the start.
            if matches!(outcome, Outcome::Taken(_)) && from == snapshot.state + 1 && !self.is_full(snapshot.state) {
                self.counters.skip_within_tick(found - from);
            }
            return outcome;
        }
    }

    /// A position and those after it, up to the last one of its tick.
    fn rest_of_tick(&self, from: Position) -> impl Iterator<Item = Position> + use<> {
        from..=from | self.sequence_mask
    }
}
