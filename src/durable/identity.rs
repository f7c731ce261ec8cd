//! Which IDs this server may issue by its configuration, and what tells it from other servers.

use crate::durable::state_file::StateDirectory;
use crate::errors::Refusal;
use crate::gucs::{self, WalMark};
use pgrx::pg_sys;
use snowflake_core::identity::{Directory, Identity};
use snowflake_core::layout::{Layout, Series};

/// Which IDs this server may issue, by its configuration.
pub fn configured() -> Result<(Layout, Series), Refusal> {
    let layout = layout_in_force()?;
    if let Some(unreadable) = gucs::unreadable() {
        return Err(Refusal::Unreadable(unreadable));
    }
    let datacenter = gucs::datacenter_id();
    let worker = gucs::worker_id().ok_or(Refusal::WorkerUnset(layout))?;
    let series = layout.series(datacenter, worker).map_err(|misfit| Refusal::Misfit(layout, misfit))?;
    Ok((layout, series))
}

/// The layout by which this server issues, and reads IDs if it is told no other.
pub fn layout_in_force() -> Result<Layout, Refusal> {
    gucs::layout().map_err(|error| Refusal::BadLayout(gucs::layout_text(), error))
}

/// Whether this server has the worker of the server that it was copied from, and `wal_mark` is off. Two of them would issue the
/// same IDs, and what a promoted one knows of the other is only what their clocks say. Told by the mark that came with the
/// copy; false where none did.
pub fn is_shared_with_source() -> bool {
    let Ok((own, _)) = numbers() else { return false };
    let found = || {
        let directory = StateDirectory::find(&gucs::state_directory()).ok()??;
        Some((directory.read().ok()??.identity, directory.identity().ok()?))
    };
    // SAFETY: read from the control file before the postmaster loads any library.
    let system_identifier = unsafe { pg_sys::GetSystemIdentifier() };
    gucs::wal_mark() == WalMark::Off
        && found().is_some_and(|(identity, here)| {
            identity.system_identifier == system_identifier
                && (identity.datacenter, identity.worker) == own
                && !identity.directory.is(&here)
        })
}

/// What tells this server from others, its mark lying in this directory. Only after recovery: a standby has no timeline
/// of its own. The file in which PostgreSQL keeps the timeline is behind for a while after a promotion.
pub fn own(directory: Directory) -> Result<Identity, Refusal> {
    let ((datacenter, worker), layout) = numbers()?;
    Ok(Identity {
        // SAFETY: reads shared memory that every backend is attached to.
        system_identifier: unsafe { pg_sys::GetSystemIdentifier() },
        // SAFETY: the same, and it does not change after recovery.
        timeline: unsafe { pg_sys::GetWALInsertionTimeLine() },
        directory,
        datacenter,
        worker,
        layout,
    })
}

/// The data center and the worker, and the layout that they fit.
fn numbers() -> Result<((u32, u32), Layout), Refusal> {
    let (layout, _) = configured()?;
    let number = |id: i32| u32::try_from(id).expect("a number that fits the layout");
    let worker = gucs::worker_id().ok_or(Refusal::WorkerUnset(layout))?;
    Ok(((number(gucs::datacenter_id()), number(worker)), layout))
}
