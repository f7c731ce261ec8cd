//! What the registry client does when the server stops as planned: it gives its lease back.

use super::Client;
use crate::config::gucs;
use crate::durable::state_file::StateDirectory;
use crate::durable::{lease_file, lock, mark};
use crate::registry::protocol::{Grant, Session, new_token, worker_of};
use crate::shared::shared;
use pgrx::log;
use snowflake_core::UnixMs;
use snowflake_core::lease::Lease;
use std::time::{Duration, Instant};

/// How long that may take. A registry that does not answer must not hold up a shutdown.
const FAREWELL: Duration = Duration::from_secs(1);

impl Client {
    /// Lowers the grant to the mark, and gives the rest back. If that fails, the worker is free when the lease ends.
    ///
    /// Only to a registry that answers: the lease is lowered before it is told, and cannot be raised again, as another
    /// server may have the worker by then. Where it does not answer, the server keeps its lease, as in a crash: the next
    /// start may have to do without the registry, too.
    pub(super) fn release(&mut self) {
        let Some(held) = self.lease.filter(|_| self.failures == 0) else { return };
        let worker = worker_of(held.numbers);
        let until = Instant::now() + 2 * FAREWELL;
        let answered = Session::begin(&gucs::registry::registry(), Some(&held), Instant::now() + FAREWELL, || Ok(()));
        let Ok(session) = answered else {
            return log!("snowflake_pg: could not tell the registry that {worker} is released");
        };
        let mut session = session.until(until);
        let Some(lowered) = self.lower_grant(&held, until) else { return };
        // The next renewal has another token: a release that arrives after it must not lower what it grants.
        let tokens = [held.tokens[0], new_token()];
        let lease = Lease { tokens, granted_until: lowered, receipt: [0; 32], ..held };
        let Ok(directory) = StateDirectory::open(&gucs::state_directory()) else { return };
        if lease_file::write(&directory, &lease).is_ok() {
            let Ok(Grant { until: granted_until, receipt, revision, .. }) =
                session.release(&held, &lease, &self.about(Some(&held)))
            else {
                return log!(
                    "snowflake_pg: could not tell the registry that {worker} is released, and does without the rest"
                );
            };
            log!("snowflake_pg: released {worker}");
            // So that the next start can tell whether the registry was put back to before the release.
            let lease = Lease { tokens: [lease.tokens[1]; 2], granted_until, receipt, revision, ..lease };
            let _ = lease_file::write(&directory, &lease);
        }
    }

    /// Lowers the grant to the mark that is on disk, so that the mark is not extended any more.
    pub(super) fn lower_grant(&self, lease: &Lease, until: Instant) -> Option<UnixMs> {
        while Instant::now() < until {
            if let Some(_lock) = lock::try_take() {
                let generator = &shared().generator;
                let known = if generator.is_started() {
                    self.layout.time_of(generator.covered_until())
                } else {
                    mark::open().ok()?.own_mark().ok()?
                };
                let lowered = known.max(lease.begins).min(shared().lease.granted_until());
                shared().lease.grant(lowered);
                return Some(lowered);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

/// Whether the server stops, and not this process alone: the postmaster writes that into a file for pg_ctl.
pub(super) fn is_server_stopping() -> bool {
    const STATUS_LINE: usize = 8;
    let file = std::fs::read_to_string(gucs::data_directory().join("postmaster.pid")).unwrap_or_default();
    file.lines().nth(STATUS_LINE - 1).is_some_and(|status| status.trim() == "stopping")
}
