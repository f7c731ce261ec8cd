//! The last ID of this session, as `lastval()` is for sequences.

use std::sync::atomic::{AtomicI64, Ordering};

/// No ID is negative.
const NONE: i64 = -1;

/// The last ID that this process has given to SQL. Relaxed: a process has one thread.
static LAST: AtomicI64 = AtomicI64::new(NONE);

/// Keeps this ID as the last one.
#[inline]
pub fn keep(id: i64) {
    LAST.store(id, Ordering::Relaxed);
}

/// Forgets it, so that the next client of a connection pool does not see it.
pub fn forget() {
    keep(NONE);
}

/// The last one, if there is one.
pub fn get() -> Option<i64> {
    Some(LAST.load(Ordering::Relaxed)).filter(|&last| last != NONE)
}
