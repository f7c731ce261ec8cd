//! The last ID of this session, as `lastval()` is for sequences.

use std::sync::atomic::{AtomicI64, Ordering};

/// No ID is negative.
const NONE: i64 = -1;

/// The last ID that this process has given to SQL. Relaxed: a process has one thread.
static LAST: AtomicI64 = AtomicI64::new(NONE);

/// Makes this ID the last one.
#[inline]
pub fn set(id: i64) {
    LAST.store(id, Ordering::Relaxed);
}

/// Forgets the last ID, so that the next client of a connection pool does not see it.
pub fn forget() {
    set(NONE);
}

/// The last ID, if there is one.
pub fn get() -> Option<i64> {
    Some(LAST.load(Ordering::Relaxed)).filter(|&last| last != NONE)
}
