//! Counters for `snowflake_status`, since the server started, since its last crash, or since a reset.
//!
//! The generator counts IDs, a tick at a time. This file counts what processes do when they wait, write or fail.
//! Nothing is counted for each ID.

use crate::postgres::clock;
use crate::shared::text::SharedText;
use snowflake_core::UnixMs;
use snowflake_core::issue::generator::Counts;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters, in shared memory. Relaxed: each is right by itself.
#[derive(Default)]
pub struct Statistics {
    /// How many times the clock has gone back.
    pub clock_regressions: AtomicU64,
    /// The largest step, in milliseconds.
    pub largest_regression_ms: AtomicU64,
    /// What the clock showed after the last step, in Unix milliseconds; 0 for never.
    pub last_regression_at: AtomicU64,
    /// How many times calls waited for the clock; a batch counts each tick.
    pub waits: AtomicU64,
    /// The total time of these waits, in microseconds.
    pub wait_us: AtomicU64,
    /// Calls that failed with an error of this extension.
    pub refusals: AtomicU64,
    /// When the last of them failed, in Unix milliseconds; 0 for never.
    pub last_refusal_at: AtomicU64,
    /// Its SQLSTATE and its message.
    pub last_refusal: SharedText,
    /// How many times the durable mark was written.
    pub mark_extensions: AtomicU64,
    /// How long calls waited for these writes, in microseconds.
    pub mark_wait_us: AtomicU64,
    /// When counting began, in Unix milliseconds.
    pub since: AtomicU64,
    /// The generator's counts at that time.
    at_reset: [AtomicU64; 4],
}

impl Statistics {
    /// Counters that are zero.
    pub fn new() -> Self {
        Self { since: AtomicU64::new(clock::unix_ms()), ..Self::default() }
    }

    /// The generator's counts since then; `now` has its counts since its start.
    pub fn counts(&self, now: Counts) -> Counts {
        // If a tick closes while the counts are read, the later one can be smaller.
        let [issued, ticks_exhausted, borrowed, history] =
            [0, 1, 2, 3].map(|i| self.at_reset[i].load(Ordering::Relaxed));
        Counts {
            issued: now.issued.saturating_sub(issued),
            ticks_exhausted: now.ticks_exhausted.saturating_sub(ticks_exhausted),
            borrowed: now.borrowed.saturating_sub(borrowed),
            history: now.history.saturating_sub(history),
            ..now
        }
    }

    /// Resets the counters; `now` has the generator's counts since its start.
    pub fn reset(&self, now: Counts) {
        for counter in [
            &self.clock_regressions,
            &self.largest_regression_ms,
            &self.last_regression_at,
            &self.waits,
            &self.wait_us,
            &self.refusals,
            &self.last_refusal_at,
            &self.mark_extensions,
            &self.mark_wait_us,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        for (at_reset, now) in self.at_reset.iter().zip([now.issued, now.ticks_exhausted, now.borrowed, now.history]) {
            at_reset.store(now, Ordering::Relaxed);
        }
        self.since.store(clock::unix_ms(), Ordering::Relaxed);
    }

    /// Counts that the clock has gone back by `step_ms`, to `now`.
    pub fn count_regression(&self, now: UnixMs, step_ms: u64) {
        self.clock_regressions.fetch_add(1, Ordering::Relaxed);
        self.largest_regression_ms.fetch_max(step_ms, Ordering::Relaxed);
        self.last_regression_at.store(now, Ordering::Relaxed);
    }

    /// Counts a call that has failed with this error: SQLSTATE, a space, and the message.
    pub fn count_refusal(&self, error: &str) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        self.last_refusal.write(error);
        self.last_refusal_at.store(clock::unix_ms(), Ordering::Relaxed);
    }

    /// Counts a wait of a call for the clock.
    pub fn count_wait(&self, time: Duration) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.wait_us.fetch_add(clock::microseconds(time), Ordering::Relaxed);
    }

    /// Counts a wait of a call for the durable mark.
    pub fn count_mark_wait(&self, time: Duration) {
        self.mark_wait_us.fetch_add(clock::microseconds(time), Ordering::Relaxed);
    }
}
