//! How the postmaster is asked for a background worker, and what that does with signals.

use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::pg_sys;
use std::ffi::c_int;
use std::time::Duration;

#[cfg(not(feature = "pg19"))]
type Handler = unsafe extern "C-unwind" fn(c_int);
#[cfg(feature = "pg19")]
type Handler = unsafe extern "C-unwind" fn(c_int, *const pg_sys::pg_signal_info);

// pgrx declares it as a function of Rust's, which cannot be a signal handler.
// SAFETY: as PostgreSQL declares it, in tcop/tcopprot.h.
unsafe extern "C-unwind" {
    pub fn die(signal: c_int, #[cfg(feature = "pg19")] sender: *const pg_sys::pg_signal_info);
}

/// Handles SIGTERM like a backend: pgrx's handler only sets a flag of its own, which ends none of PostgreSQL's waits.
pub fn end_when_told() {
    handle(pg_sys::SIGTERM, die);
}

/// Handles a signal of this process.
pub fn handle(signal: u32, handler: Handler) {
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
    use pg_sys::pqsignal;
    #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
    use pg_sys::pqsignal_be as pqsignal;
    // SAFETY: takes the number of a signal, and a handler that does nothing but what a handler may do.
    unsafe { pqsignal(c_int::try_from(signal).expect("a signal"), Some(handler)) };
}

/// Asks the postmaster for a background worker that begins in this function of the library as soon as the server is no
/// standby, and again this long after its end. Only while preloading. Not during pg_upgrade, which drops the database
/// in which the keeper of a node of Citus would hold a session; no ID is issued then.
pub fn register(name: &str, function: &str, restart: Duration) {
    // SAFETY: set once, when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } {
        return;
    }
    BackgroundWorkerBuilder::new(name)
        .set_library("snowflake_pg")
        .set_function(function)
        .set_restart_time(Some(restart))
        .enable_spi_access()
        .load();
}
