//! Messages that are logged once a minute at most, so that they do not flood the server log.

use crate::postgres::clock;
use std::sync::atomic::{AtomicU64, Ordering};

const INTERVAL_S: u64 = 60;

/// When a message was last logged, in seconds of the monotonic clock plus 1; 0 for never.
#[derive(Default)]
pub struct Throttle(AtomicU64);

impl Throttle {
    /// Whether to log the message now; true for one process.
    pub fn is_due(&self) -> bool {
        let now = clock::since_boot().as_secs() + 1;
        let last = self.0.load(Ordering::Relaxed);
        (last == 0 || now.saturating_sub(last) >= INTERVAL_S)
            && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Lets the next message be logged at once.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
