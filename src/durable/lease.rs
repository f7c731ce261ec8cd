//! How far the registry lets the mark go. A leased worker has a grant, and the mark never passes it: every timestamp
//! issued is below both.

use crate::config::gucs;
use crate::errors::{IssueError, LeaseError};
use crate::shared::{mark_lock, shared};
use crate::worker;
use snowflake_core::id::layout::Layout;
use snowflake_core::server::lease::{self, LeaseStart};
use snowflake_core::{Tick, UnixMs};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The time below which timestamps may be issued.
pub fn usable_until() -> UnixMs {
    if worker::needs_lease() { shared().lease.granted_until() } else { UnixMs::MAX }
}

/// Where IDs of the lease begin; `None` if no lease is needed. An error if there is no lease yet.
pub fn start() -> Result<Option<LeaseStart>, IssueError> {
    if !worker::needs_lease() {
        return Ok(None);
    }
    shared().lease.start().map(Some).ok_or_else(|| LeaseError::Pending { failure: worker::why_no_lease() }.into())
}

/// The error when the grant does not cover a tick.
pub fn end_error() -> IssueError {
    LeaseError::Ended { until: shared().lease.granted_until(), failure: worker::why_no_lease() }.into()
}

/// As a backend: has the registry client get a grant that covers this tick, or a lease at all, and waits for it, no
/// longer than a call may wait. Returns at once if the grant already covers the tick.
pub fn wait_for_grant(layout: &Layout, tick: Tick) -> Result<(), IssueError> {
    let covers = || {
        let shared = &shared().lease;
        shared.worker().is_some() && layout.time_of(tick) < lease::limit(layout, usable_until())
    };
    let cannot_be_helped = || shared().lease.is_superseded.load(Ordering::Relaxed);
    if !worker::needs_lease() || covers() {
        return Ok(());
    }
    let until = Instant::now() + Duration::from_millis(gucs::max_wait_ms());
    while Instant::now() < until && !covers() && !cannot_be_helped() {
        shared().lease.wake_client();
        mark_lock::wait_for_change(|| covers() || cannot_be_helped(), Duration::from_millis(100));
    }
    if covers() {
        return Ok(());
    }
    start()?;
    Err(end_error())
}
