//! Which worker this server is by its configuration, and so which IDs it may issue.

use crate::config::gucs;
use crate::errors::IssueError;
use snowflake_core::layout::{Layout, Series};

/// Which IDs this server may issue, by its configuration.
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

/// The layout by which this server issues, and reads IDs if it is told no other.
pub fn layout_in_force() -> Result<Layout, IssueError> {
    gucs::layout().map_err(|error| IssueError::InvalidLayout(gucs::layout_text(), error))
}

/// The data center and the worker, and the layout that they fit.
pub fn numbers() -> Result<((u32, u32), Layout), IssueError> {
    let (layout, _) = layout_and_series()?;
    let number = |id: i32| u32::try_from(id).expect("a number that fits the layout");
    let worker = gucs::worker_id().ok_or(IssueError::WorkerUnset(layout))?;
    Ok(((number(gucs::datacenter_id()), number(worker)), layout))
}
