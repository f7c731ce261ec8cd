//! How the postmaster is asked for a background worker.

use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::pg_sys;
use std::time::Duration;

/// Asks the postmaster for a background worker that begins in this function of the library as soon as the server is no
/// standby, and again this long after its end. Only while preloading. Not during pg_upgrade, which drops the database in
/// which the keeper of a node of Citus would hold a session; no ID is issued then.
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
