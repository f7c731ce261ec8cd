//! Whether the library was preloaded. Only then does it have shared memory and configuration parameters.

use pgrx::pg_sys;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set in the postmaster, and inherited by the processes that it forks.
static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Whether the postmaster is preloading libraries.
pub fn is_under_way() -> bool {
    // SAFETY: a flag of this process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Records that the postmaster has preloaded the library.
pub fn record() {
    PRELOADED.store(true, Ordering::Relaxed);
}

/// Whether the library was preloaded, so that shared memory and configuration parameters exist.
pub fn is_done() -> bool {
    PRELOADED.load(Ordering::Relaxed)
}
