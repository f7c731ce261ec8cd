//! What the next call would return, without making it.

use super::{Generator, Outcome, Snapshot};
use crate::Tick;
use crate::issue::policy::{ClockRegression, Policy};
use crate::issue::sync::Ordering;

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
        if now < highest && policy.clock_regression.reads_history() && self.history.has_left(self.sequence_bits, now) {
            return None;
        }
        let tick = self.next_position(state, now, 1, policy) >> self.sequence_bits;
        held_back(policy, tick, now, highest, clock_lag)
    }
}

/// What a caller must do before it may take an ID of this tick at the time `now`; `None` if it may take one at once.
/// The clock has shown `highest` before it went back, and is `clock_lag` behind the timestamps issued.
pub(super) fn held_back(policy: &Policy, tick: Tick, now: Tick, highest: Tick, clock_lag: Tick) -> Option<Outcome> {
    let regressed = now < highest;
    let allowed = policy.allowed_lead(regressed, clock_lag);
    (tick.saturating_sub(now) > allowed).then(|| match policy.clock_regression {
        ClockRegression::Error if regressed => Outcome::Behind(highest),
        ClockRegression::Wait if regressed => Outcome::Wait(tick.min(highest)),
        ClockRegression::Borrow | ClockRegression::Wait | ClockRegression::Error | ClockRegression::History => {
            Outcome::Wait(tick - allowed)
        }
    })
}
