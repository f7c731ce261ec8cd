//! Identifies this server, so that it recognizes its own durable mark.

use crate::config::gucs;
use crate::durable::state_file::StateDirectory;
use crate::worker;
use pgrx::pg_sys;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::record::Record;
use snowflake_core::server::identity::{Identity, Inode, Worker};

/// Whether this server has the worker of the server that it was copied from, whose marks did not go through WAL. After
/// a promotion, it would not know how far that server has come. Recognized by the mark in the copy; false if there is
/// none.
pub fn is_shared_with_source() -> bool {
    let Ok(this_worker) = worker::flat_worker() else { return false };
    let record_and_directory = || {
        let directory = StateDirectory::find(&gucs::state_directory()).ok()??;
        Some((directory.read().ok()??, directory.inode().ok()?))
    };
    // SAFETY: read from the control file before the postmaster loads any library.
    let system_identifier = unsafe { pg_sys::GetSystemIdentifier() };
    record_and_directory().is_some_and(|(Record { logged, identity, .. }, here)| {
        logged == 0
            && identity.system_identifier == system_identifier
            && identity.worker == this_worker
            // mutant: copy-of-primary
            && !identity.directory.same_inode(&here)
    })
}

/// The identity of this server with this data center and worker, whose mark is in this directory. Only after recovery:
/// a standby has no timeline of its own. The timeline comes from memory, since the control file is behind for a while
/// after a promotion.
pub fn this_server(directory: Inode, worker: Worker, layout: Layout) -> Identity {
    // SAFETY: reads shared memory that every backend is attached to. The timeline does not change after recovery.
    let (system_identifier, timeline) = unsafe { (pg_sys::GetSystemIdentifier(), pg_sys::GetWALInsertionTimeLine()) };
    Identity { system_identifier, timeline, directory, worker, layout }
}
