//! The worker that this server is configured to be, and so the IDs that it may issue.

use crate::config::gucs;
use crate::errors::IssueError;
use snowflake_core::layout::{Layout, Series};

/// The layout and the series of IDs that this server may issue.
pub fn layout_and_series() -> Result<(Layout, Series), IssueError> {
    let layout = layout_in_force()?;
    if let Some(invalid) = gucs::invalid_setting() {
        return Err(IssueError::InvalidSetting(invalid));
    }
    let datacenter = gucs::datacenter_id();
    let worker = gucs::worker_id().ok_or(IssueError::WorkerUnset(layout))?;
    let series = layout.series(datacenter, worker).map_err(|misfit| IssueError::InvalidSeries(layout, misfit))?;
    Ok((layout, series))
}

/// The layout of this server.
pub fn layout_in_force() -> Result<Layout, IssueError> {
    gucs::layout().map_err(|error| IssueError::InvalidLayout(gucs::layout_text(), error))
}

/// The data center and the worker, and the layout, which has room for them.
pub fn numbers() -> Result<((u32, u32), Layout), IssueError> {
    let (layout, _) = layout_and_series()?;
    let number = |id: i32| u32::try_from(id).expect("a number that fits the layout");
    let worker = gucs::worker_id().ok_or(IssueError::WorkerUnset(layout))?;
    Ok(((number(gucs::datacenter_id()), number(worker)), layout))
}
