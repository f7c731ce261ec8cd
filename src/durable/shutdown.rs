//! Lowers the mark when the server stops as planned, so that IDs are not ahead of the clock after a restart.
//!
//! Only the postmaster can do that, when it ends without an error: all other processes have ended, and the last ID is
//! known.

use crate::durable::{directory_lock, mark};
use crate::errors::IssueError;
use crate::postgres::exit_hook::before_exit;
use crate::shared::shared;
use crate::trusted_clock;
use pgrx::prelude::*;
use std::ffi::c_int;

/// Has the postmaster lower the mark when it ends. To be called in the postmaster, whenever shared memory is set up.
pub fn prepare() {
    before_exit(at_exit);
}

fn at_exit(code: c_int) {
    // PostgreSQL removes this hook from its other processes. This check is for those where it does not.
    // SAFETY: both are fixed when a process starts.
    if unsafe { pg_sys::MyProcPid != pg_sys::PostmasterPid } {
        return;
    }
    if code == 0 {
        if let Err(error) = lower_mark() {
            error.log(PgLogLevel::DEBUG1);
        }
        // mutant: lock-released
        directory_lock::release();
    } else {
        // Shared memory is set up again after a crash.
        trusted_clock::remember_offset();
    }
}

/// Lowers the mark to just above what was issued. A failure does no harm: IDs begin at the old mark.
fn lower_mark() -> Result<(), IssueError> {
    if !shared().generator.is_started() {
        return Ok(());
    }
    // An idle server that is stopped may not have noticed.
    mark::note_clone()?;
    mark::open()?.lower()
}
