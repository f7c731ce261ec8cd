//! How long a step of a migration may take: code of an owner can wait for ever, and other migrations would wait for the
//! worker.

use crate::postgres::background_worker::{die, handle};
use pgrx::pg_sys;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

// pgrx has no bindings for utils/timeout.h, and a signal handler can use none of its others.
unsafe extern "C-unwind" {
    fn enable_timeout_every(timeout: c_int, first: pg_sys::TimestampTz, then_ms: c_int);
    fn disable_timeout(timeout: c_int, keep_indicator: bool);
    fn GetCurrentTimestamp() -> pg_sys::TimestampTz;
    fn StatementCancelHandler(signal: c_int, #[cfg(feature = "pg19")] sender: *const pg_sys::pg_signal_info);
}

/// The same number on all versions. Nothing else uses it in a background worker.
const STATEMENT_TIMEOUT: c_int = 3;

static END_AT: AtomicI64 = AtomicI64::new(i64::MAX);
static HAS_PASSED: AtomicBool = AtomicBool::new(false);

/// Cancels what is under way while this exists when so much time has passed. Code can catch that, so the process ends
/// when twice as much has.
pub struct Bound(pg_sys::TimestampTz);

impl Bound {
    pub fn begin(most: Duration) -> Self {
        let most = i32::try_from(most.as_millis()).unwrap_or(i32::MAX).max(1);
        // SAFETY: in a process that has a database, and with it this timeout.
        let now = unsafe { GetCurrentTimestamp() };
        let end = |times: i64| now + times * 1000 * i64::from(most);
        HAS_PASSED.store(false, Relaxed);
        END_AT.store(end(2), Relaxed);
        // SAFETY: as above.
        // mutant: step-for-ever
        unsafe { enable_timeout_every(STATEMENT_TIMEOUT, end(1), most) };
        Self(end(1))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: as in `begin`. What was to cancel the step must not cancel what comes after it.
        unsafe {
            disable_timeout(STATEMENT_TIMEOUT, false);
            pg_sys::QueryCancelPending = 0;
            HAS_PASSED.store(GetCurrentTimestamp() >= self.0, Relaxed);
        }
        END_AT.store(i64::MAX, Relaxed);
    }
}

/// Whether the last step has taken too long.
pub fn has_passed() -> bool {
    HAS_PASSED.load(Relaxed)
}

/// Handles SIGINT, by which the timeout and `pg_cancel_backend()` cancel what is under way.
pub fn handle_cancels() {
    handle(pg_sys::SIGINT, cancel);
}

unsafe extern "C-unwind" fn cancel(signal: c_int, #[cfg(feature = "pg19")] sender: *const pg_sys::pg_signal_info) {
    // SAFETY: PostgreSQL's own handlers, and the time, which a handler may ask for.
    unsafe {
        // mutant: step-that-catches
        let handler = if GetCurrentTimestamp() < END_AT.load(Relaxed) { StatementCancelHandler } else { die };
        handler(
            signal,
            #[cfg(feature = "pg19")]
            sender,
        );
    }
}
