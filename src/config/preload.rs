//! Whether the library was preloaded, which decides what it can do: only the postmaster, while it starts, can give it
//! shared memory and configuration variables.

use pgrx::pg_sys;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set in the postmaster, and inherited by every process it starts.
static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Whether the postmaster is loading the library right now.
pub fn is_under_way() -> bool {
    // SAFETY: read in the one thread that writes it.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Records that the postmaster has loaded the library.
pub fn record() {
    PRELOADED.store(true, Ordering::Relaxed);
}

/// Whether the library was preloaded, so that shared memory and configuration variables exist.
pub fn is_done() -> bool {
    PRELOADED.load(Ordering::Relaxed)
}
