//! The end of a server that was asked to stop.
//!
//! The mark is ahead of the clock, and so IDs would be after a planned restart. When the postmaster ends without an error,
//! all other processes are gone, and the last ID of this life is known: then, and only then, the mark can be lowered.

use crate::config::gucs;
use crate::durable::state_file::StateDirectory;
use crate::durable::{identity, mark};
use crate::exit_hook::before_exit;
use crate::shared::shared;
use crate::trusted_clock;
use crate::worker;
use pgrx::prelude::*;
use snowflake_core::identity::Record;
use std::ffi::c_int;

/// Has the mark lowered when the postmaster ends. To be called in the postmaster, whenever shared memory has been set up.
pub fn prepare() {
    before_exit(at_exit);
}

fn at_exit(code: c_int) {
    // SAFETY: fixed when a process starts.
    let me = unsafe { pg_sys::MyProcPid };
    // SAFETY: the same. Other processes forget this function when they start; this is for those that might not.
    let postmaster = unsafe { pg_sys::PostmasterPid };
    if me != postmaster {
        return;
    }
    if code == 0 {
        lower_mark();
    } else {
        // Shared memory will be set up anew after a crash.
        trusted_clock::remember_offset();
    }
}

/// Lowers the mark to just above what was issued. `None` is that there was nothing to lower, or that it failed, which
/// does no harm.
fn lower_mark() -> Option<()> {
    let generator = &shared().generator;
    let (layout, _) = worker::layout_and_series().ok()?;
    if !generator.is_started() {
        return None;
    }
    let lowest = layout.time_of(generator.last_tick() + 1);
    let directory = StateDirectory::open(&gucs::state_directory()).ok()?;
    let own = identity::own(mark::check_unchanged(&directory).ok()?).ok()?;
    let found = directory.read().ok()??;
    if lowest < found.mark && found.identity.same_source(&own) {
        directory.write(&Record { mark: lowest, ..found }).ok()?;
    }
    Some(())
}
