//! How a process sleeps.

use pgrx::prelude::*;
use std::ffi::c_long;
use std::time::Duration;

/// Shorter than any sleep.
const BRIEF: Duration = Duration::from_micros(5);

/// Sleeps shorter than this are exact to well under a tick, and are not worth a latch.
pub const SHORT: Duration = Duration::from_millis(2);

/// A sleeper looks at the clock at least this often, since it may be set at any time.
const LONG: Duration = Duration::from_millis(20);

/// Sleeps for this time, or less: a latch may be set by somebody. Can be cancelled like any query.
pub fn sleep(time: Duration) {
    if time < BRIEF {
        std::hint::spin_loop();
    } else if time < SHORT {
        show_wait_event(wait_event());
        std::thread::sleep(time);
        show_wait_event(0);
    } else {
        on_latch(Some(time.min(LONG)), wait_event());
    }
    pgrx::check_for_interrupts!();
}

/// Sleeps until somebody wakes this process, or for this time, and shows this event meanwhile. Ends the process when the
/// postmaster is gone.
pub fn on_latch(at_most: Option<Duration>, wait_event: u32) {
    let mut events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;
    let mut timeout = -1;
    if let Some(time) = at_most {
        events |= pg_sys::WL_TIMEOUT;
        timeout = c_long::try_from(time.as_millis()).unwrap_or(c_long::MAX);
    }
    // SAFETY: set by PostgreSQL when it starts a process.
    let latch = unsafe { pg_sys::MyLatch };
    // SAFETY: a process's own latch can be waited on at any time.
    unsafe { pg_sys::WaitLatch(latch, events.cast_signed(), timeout, wait_event) };
    // SAFETY: as above.
    unsafe { pg_sys::ResetLatch(latch) };
}

/// What `pg_stat_activity` shows of a process that waits for the clock.
#[cfg(not(any(feature = "pg15", feature = "pg16")))]
pub fn wait_event() -> u32 {
    static EVENT: once_cell::sync::OnceCell<u32> = once_cell::sync::OnceCell::new();
    // SAFETY: gives the number of this name, a C string, in every process the same.
    *EVENT.get_or_init(|| unsafe { pg_sys::WaitEventExtensionNew(c"SnowflakeClock".as_ptr()) })
}

/// What `pg_stat_activity` shows of a process that waits for the clock: before PostgreSQL 17 extensions have no names
/// for it.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub fn wait_event() -> u32 {
    pg_sys::PG_WAIT_EXTENSION
}

/// As pgstat_report_wait_start() and _end() do, which are inline functions.
fn show_wait_event(event: u32) {
    // SAFETY: points to a word that belongs to this process, as soon as it has started.
    let shown = unsafe { pg_sys::my_wait_event_info };
    // SAFETY: as above; others only read it.
    unsafe { shown.write_volatile(event) };
}
