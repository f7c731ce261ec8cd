//! Which IDs this server may issue by its configuration, and what tells it from other servers.

use crate::errors::Refusal;
use crate::gucs;
use pgrx::pg_sys;
use snowflake_core::identity::{Directory, Identity};
use snowflake_core::layout::{Layout, Series};

/// Which IDs this server may issue, by its configuration.
pub fn configured() -> Result<(Layout, Series), Refusal> {
    let layout = gucs::layout()?;
    if let Some((variable, text)) = gucs::unreadable() {
        return Err(Refusal::Unreadable { variable, text });
    }
    let datacenter = gucs::datacenter_id();
    let worker = gucs::worker_id().ok_or(Refusal::WorkerUnset)?;
    let series = layout.series(datacenter, worker).map_err(|misfit| Refusal::Misfit(layout, misfit))?;
    Ok((layout, series))
}

/// What tells this server from others, its mark lying in this directory. Only after recovery: a standby has no timeline
/// of its own. The file in which PostgreSQL keeps the timeline is behind for a while after a promotion.
pub fn own(directory: Directory) -> Result<Identity, Refusal> {
    let (layout, _) = configured()?;
    let number = |id: i32| u32::try_from(id).expect("a number that fits the layout");
    Ok(Identity {
        // SAFETY: reads shared memory that every backend is attached to.
        system_identifier: unsafe { pg_sys::GetSystemIdentifier() },
        // SAFETY: the same, and it does not change after recovery.
        timeline: unsafe { pg_sys::GetWALInsertionTimeLine() },
        directory,
        datacenter: number(gucs::datacenter_id()),
        worker: number(gucs::worker_id().ok_or(Refusal::WorkerUnset)?),
        layout,
    })
}
