//! What this server does at present, and what keeps it from issuing IDs.

use crate::clock;
use crate::config::preload;
use crate::durable::{self, identity, wal};
use crate::errors::summary::summary;
use crate::errors::{ConfigurationError, IssueError};
use crate::issue::issuer;
use crate::shared::lease::SharedLease;
use crate::shared::text::SharedText;
use crate::shared::{Shared, shared};
use crate::worker;
use pgrx::pg_sys;
use std::sync::atomic::Ordering;

/// What this server does at present, in a word.
pub fn state() -> &'static str {
    if !preload::is_done() {
        return "not preloaded";
    }
    let Shared { generator, lease, .. } = shared();
    let in_recovery = is_in_recovery();
    match worker::layout_and_series() {
        Err(IssueError::Configuration(ConfigurationError::WorkerUnset(_))) => "worker unset",
        Ok(_) | Err(IssueError::Lease(_) | IssueError::Configuration(ConfigurationError::NoGroup(_)))
            if in_recovery =>
        {
            let is_in_wal =
                || worker::numbers().and_then(|(own, _)| wal::read(own)).is_ok_and(|own| own.mark.is_some());
            if identity::is_shared_with_source() && !is_in_wal() { "shared worker" } else { "standby" }
        }
        Err(IssueError::Lease(_)) => "no lease",
        Err(_) => "misconfigured",
        Ok((layout, _)) if layout.tick_at(clock::unix_ms()).is_err() => "outside the layout",
        Ok(_) if has_no_lease(lease) => "no lease",
        Ok(_) if !generator.is_started() && shared().mark.is_reset() => "clock behind",
        Ok(_) if !generator.is_started() && shared().mark.not_before() > 0 => "waiting",
        Ok(_) if !generator.is_started() => "not started",
        Ok((layout, _)) if issuer::clock_error(&layout).is_some() => "clock behind",
        Ok(_) if generator.counts().issued == 0 => "idle",
        Ok(_) => "ready",
    }
}

/// Whether this server is a standby, or has not finished its recovery.
pub fn is_in_recovery() -> bool {
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Whether the registry has leased nothing to this server, or the lease has ended.
fn has_no_lease(lease: &SharedLease) -> bool {
    worker::needs_lease() && (lease.worker().is_none() || lease.granted_until() <= clock::unix_ms())
}

/// The text of the error that [`state`] stands for, or of what the keeper fails to do; `None` if nothing is wrong.
pub fn problem() -> Option<String> {
    if !preload::is_done() {
        return Some(summary(IssueError::NotPreloaded));
    }
    let Shared { generator, lease, keeper_failure, wal_failure, .. } = shared();
    let now = clock::unix_ms();
    let error = match worker::layout_and_series() {
        Ok(_) | Err(IssueError::Lease(_) | IssueError::Configuration(ConfigurationError::NoGroup(_)))
            if is_in_recovery() =>
        {
            IssueError::InRecovery
        }
        Err(error) => error,
        Ok((layout, _)) => match layout.tick_at(now) {
            Err(error) => IssueError::Clock(now, error),
            Ok(_) if has_no_lease(lease) => durable::lease::start().err().unwrap_or_else(durable::lease::ended),
            Ok(_) => {
                let failures = [keeper_failure, wal_failure].map(SharedText::read);
                let failure = failures.into_iter().find(|failure| !failure.is_empty());
                let until = shared().mark.not_before();
                if failure.is_some() {
                    return failure;
                }
                match issuer::clock_error(&layout).filter(|_| generator.is_started()) {
                    Some(error) => error,
                    None if generator.is_started() || until == 0 => return None,
                    None => durable::start::pending(now, until),
                }
            }
        },
    };
    Some(summary(error))
}
