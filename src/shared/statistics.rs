//! Counts of what happened, for `snowflake_status`: since the server started, came back from a crash, or was told to forget.
//!
//! What IDs are is counted by the generator, a tick at a time; what processes do is counted here, by those that wait, write
//! or refuse. Nothing is counted for each ID.

use crate::clock;
use snowflake_core::UnixMs;
use snowflake_core::generator::Counts;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counts, in shared memory. Relaxed: each is right by itself.
#[derive(Default)]
pub struct Statistics {
    /// How often the clock was found to have gone back.
    pub clock_regressions: AtomicU64,
    /// By how many milliseconds at most.
    pub largest_regression_ms: AtomicU64,
    /// What the clock showed when it had done so last, in Unix milliseconds; 0 for never.
    pub last_regression_at: AtomicU64,
    /// How often calls waited for the clock; a batch, for every tick.
    pub waits: AtomicU64,
    /// How long all of them waited, in microseconds.
    pub wait_us: AtomicU64,
    /// Calls for IDs that ended with an error of this extension's.
    pub refusals: AtomicU64,
    /// How often the durable mark was written.
    pub mark_extensions: AtomicU64,
    /// How long calls waited for that, in microseconds.
    pub mark_wait_us: AtomicU64,
    /// Since when all this is counted, in Unix milliseconds.
    pub since: AtomicU64,
    /// What the generator had counted by then.
    before: [AtomicU64; 4],
}

impl Statistics {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self { since: AtomicU64::new(clock::unix_ms()), ..Self::default() }
    }

    /// What the generator has counted since then; `now` is what it has counted in all.
    pub fn counts(&self, now: Counts) -> Counts {
        // A tick that closes while two counts are read can make the later one look smaller.
        let [issued, ticks_exhausted, borrowed, history] = [0, 1, 2, 3].map(|i| self.before[i].load(Ordering::Relaxed));
        Counts {
            issued: now.issued.saturating_sub(issued),
            ticks_exhausted: now.ticks_exhausted.saturating_sub(ticks_exhausted),
            borrowed: now.borrowed.saturating_sub(borrowed),
            history: now.history.saturating_sub(history),
        }
    }

    /// Begins anew. `now` is what the generator has counted.
    pub fn reset(&self, now: Counts) {
        for counter in [
            &self.clock_regressions,
            &self.largest_regression_ms,
            &self.last_regression_at,
            &self.waits,
            &self.wait_us,
            &self.refusals,
            &self.mark_extensions,
            &self.mark_wait_us,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        for (before, now) in self.before.iter().zip([now.issued, now.ticks_exhausted, now.borrowed, now.history]) {
            before.store(now, Ordering::Relaxed);
        }
        self.since.store(clock::unix_ms(), Ordering::Relaxed);
    }

    /// The clock has gone back by `step_ms`, to `now`.
    pub fn count_regression(&self, now: UnixMs, step_ms: u64) {
        self.clock_regressions.fetch_add(1, Ordering::Relaxed);
        self.largest_regression_ms.fetch_max(step_ms, Ordering::Relaxed);
        self.last_regression_at.store(now, Ordering::Relaxed);
    }

    /// A call has waited for the clock.
    pub fn count_wait(&self, time: Duration) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.wait_us.fetch_add(clock::microseconds(time), Ordering::Relaxed);
    }

    /// A call has waited for the durable mark.
    pub fn count_mark_wait(&self, time: Duration) {
        self.mark_wait_us.fetch_add(clock::microseconds(time), Ordering::Relaxed);
    }
}
