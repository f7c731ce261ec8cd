//! What this server does at present, and what keeps it from issuing IDs.

use crate::config::{gucs, preload};
use crate::durable::{self, identity, request, wal};
use crate::errors::summary::summary;
use crate::errors::{ConfigurationError, IssueError};
use crate::issue::issuer;
use crate::postgres::clock;
use crate::shared::lease::SharedLease;
use crate::shared::machine;
use crate::shared::text::SharedText;
use crate::shared::{Shared, shared};
use crate::worker;
use pgrx::pg_sys;
use std::time::Duration;

/// How long a server may take to start its keeper, in microseconds.
const KEEPER_STARTS_US: i64 = 2_000_000;

/// What a server does, in a word, and the error of a call that wants an ID; `None` if the call gets one.
pub struct Condition {
    /// The word, for people and for `snowflake_status`.
    pub state: &'static str,
    error: Option<IssueError>,
}

impl Condition {
    /// What this server does now.
    pub fn now() -> Self {
        let refusing = |state, error| Self { state, error: Some(error) };
        let issuing = |state| Self { state, error: None };
        if !preload::is_done() {
            return refusing("not preloaded", IssueError::NotPreloaded);
        }
        let Shared { generator, lease, mark, .. } = shared();
        let now = clock::unix_ms();
        let layout = match worker::layout_and_series() {
            Err(error @ IssueError::Configuration(ConfigurationError::WorkerUnset(_))) => {
                return refusing("worker unset", error);
            }
            Ok(_) | Err(IssueError::Lease(_) | IssueError::Configuration(ConfigurationError::NoGroup(_)))
                if is_in_recovery() =>
            {
                return refusing(
                    if has_worker_of_primary() { "shared worker" } else { "standby" },
                    IssueError::InRecovery,
                );
            }
            Err(error @ IssueError::Lease(_)) => return refusing("no lease", error),
            Err(error) => return refusing("misconfigured", error),
            Ok((layout, _)) => layout,
        };
        let until = mark.not_before();
        if let Err(outside) = layout.tick_at(now) {
            refusing("outside the layout", IssueError::Clock(now, outside))
        } else if has_no_lease(lease) {
            refusing("no lease", durable::lease::start().err().unwrap_or_else(durable::lease::end_error))
        } else if !generator.is_started() && until > 0 {
            // Once the clock is there, only a failure of the keeper can keep calls from IDs.
            let error = (now < until).then(|| durable::start::pending(now, until));
            Self { state: if mark.is_reset() { "clock behind" } else { "waiting" }, error }
        } else if !generator.is_started() {
            issuing("not started")
        } else if let Err(error) = machine::check() {
            refusing("not started", error.into())
        } else if let Some(error) = issuer::clock_error(&layout) {
            refusing("clock behind", error)
        } else if generator.counts().issued == 0 {
            issuing("idle")
        } else {
            issuing("ready")
        }
    }

    /// The text of the error, or of what the keeper fails to do; `None` if nothing is wrong.
    pub fn problem(self) -> Option<String> {
        if let Some(error) = self.error {
            return Some(summary(error));
        }
        let Shared { keeper_failure, wal_failure, .. } = shared();
        let failure =
            [keeper_failure, wal_failure].map(SharedText::read).into_iter().find(|failure| !failure.is_empty());
        let nobody_writes = || gucs::wal_mark().is_required() && (lacks_keeper() || keeper_is_stuck());
        failure.or_else(|| nobody_writes().then(|| summary(IssueError::MarkNotInWal(request::max_wait()))))
    }
}

/// Whether there is no keeper. Just after its start, a server has none yet, and a call waits for it.
fn lacks_keeper() -> bool {
    // SAFETY: reads the clock, and a variable that is set when the postmaster starts.
    let is_new = unsafe { pg_sys::GetCurrentTimestamp() - pg_sys::PgStartTime } < KEEPER_STARTS_US;
    !shared().has_keeper() && !is_new
}

/// Whether the keeper has worked on a mark for longer than a call waits, as for a standby that does not acknowledge it.
fn keeper_is_stuck() -> bool {
    let waits = |since| Duration::from_millis(clock::monotonic_ms().saturating_sub(since)) > request::max_wait();
    shared().extending_since.get().is_some_and(waits)
}

/// Whether a standby would have its primary's worker, and would not know how far the primary has come.
fn has_worker_of_primary() -> bool {
    let is_in_wal = || worker::flat_worker().and_then(wal::read).is_ok_and(|in_wal| in_wal.mark.is_some());
    identity::is_shared_with_source() && !is_in_wal()
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
