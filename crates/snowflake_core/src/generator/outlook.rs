//! What the next call will meet, without making it.

use super::{Generator, Outcome, Snapshot};
use crate::Tick;
use crate::policy::{ClockRegression, Policy};
use crate::sync::Ordering;

impl Generator {
    /// What keeps a call for an ID at the time `now` from one: [`Outcome::Wait`] or [`Outcome::Behind`], as
    /// [`take`](Self::take) would return it; `None` if the clock keeps it from nothing. Changes nothing.
    pub fn outlook(&self, now: Tick, policy: &Policy) -> Option<Outcome> {
        let Snapshot { state, clock } = self.snapshot();
        let open = state >> self.sequence_bits;
        // As a call would record it.
        let went_back = if now < clock { clock.min(open) } else { 0 };
        let highest = self.highest_clock.load(Ordering::Relaxed).max(went_back);
        let clock_lag = self.clock_lag.load(Ordering::Relaxed).max(open.saturating_sub(now));
        if now < highest
            && policy.clock_regression == ClockRegression::History
            && self.history.has_left(self.sequence_bits, now, policy.history_ticks)
        {
            return None;
        }
        let tick = self.next_position(state, now, 1, policy) >> self.sequence_bits;
        policy.held_back(tick, now, highest, clock_lag)
    }
}
