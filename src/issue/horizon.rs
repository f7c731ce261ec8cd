//! The horizon: the ID below which no row can appear any more.

use crate::durable::horizon::{id_at, is_below_others};
use crate::errors::IssueError;
use crate::issue::issuer;
use crate::shared::{holders, shared};
use snowflake_core::UnixMs;
use snowflake_core::id::layout::{Layout, Series};

/// Why there is no horizon now.
#[derive(Debug)]
pub enum NoHorizon {
    /// A transaction that was prepared before the server started, or before its last crash, has drawn IDs: nobody knows
    /// which. The last horizon in WAL before that start remains right, if there is one.
    PreparedBefore(Option<i64>),
    /// Other workers of this cluster have come further, up to this time, and so may readers.
    BelowOtherWorkers(UnixMs),
}

impl NoHorizon {
    /// A horizon that remains right.
    pub fn last_in_wal(&self) -> Option<i64> {
        if let Self::PreparedBefore(last) = *self { last } else { None }
    }
}

/// The ID below which every transaction of this server that has drawn IDs has ended. A snapshot taken afterwards shows
/// their rows.
pub fn read() -> Result<Result<i64, NoHorizon>, IssueError> {
    // A server that has just started begins above all IDs that it has issued before.
    let (layout, series) = issuer::start()?;
    // mutant: past-tick-closed
    issuer::move_to_clock();
    Ok(current(&layout, &series))
}

/// The horizon of a server that has started, without moving an idle one to the clock.
pub fn current(layout: &Layout, series: &Series) -> Result<i64, NoHorizon> {
    let Some(position) = holders::horizon() else {
        // mutant: last-horizon
        let last = shared().mark.last_horizon().map(u64::cast_signed);
        return Err(NoHorizon::PreparedBefore(last));
    };
    // mutant: horizon-below-other-workers
    if is_below_others(layout, position) {
        return Err(NoHorizon::BelowOtherWorkers(shared().mark.horizon_from()));
    }
    Ok(id_at(layout, series, position))
}
