//! What the testbed is used for: servers of tests are in memory and wait less.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_TESTING: AtomicBool = AtomicBool::new(false);

/// Whether this is a run of tests, and no example and no benchmark.
pub(crate) fn is_testing() -> bool {
    IS_TESTING.load(Ordering::Relaxed)
}

/// To be called before the first server is made.
#[cfg(feature = "runner")]
pub(crate) fn set_testing() {
    IS_TESTING.store(true, Ordering::Relaxed);
}
