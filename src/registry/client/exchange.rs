//! What the registry client asks of the registry, and what it does with the answer.

use super::{Client, check_interrupts};
use crate::config::gucs;
use crate::config::gucs::registry::ClockOffset;
use crate::durable::mark::{self, ServersMark};
use crate::durable::state_file::StateDirectory;
use crate::durable::{lease_file, start};
use crate::errors::{IssueError, warning};
use crate::libpq::Failure;
use crate::registry::protocol::{Claim, Claimed, Grant, Renewed, Session, new_token, worker_of};
use crate::server_encoding::shown;
use crate::shared::shared;
use crate::worker;
use pgrx::{PgLogLevel, log};
use snowflake_core::lease::{Lease, LeaseStart, Place};
use snowflake_core::{UnixMs, display_time};
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long an exchange with the registry may take.
const EXCHANGE: Duration = Duration::from_secs(20);

/// The same when the server can begin without it.
const BRIEF: Duration = Duration::from_secs(2);

impl Client {
    /// Asks the registry for what is due.
    pub(super) fn exchange(&mut self) -> Result<(), Failure> {
        match self.lease {
            Some(lease) => {
                let directory = StateDirectory::open(&gucs::state_directory()).map_err(IssueError::from)?;
                self.renew(&directory, lease)
            }
            None => self.begin(),
        }
    }

    /// Begins with the lease that the server has, or leases a worker.
    fn begin(&mut self) -> Result<(), Failure> {
        let server = mark::within(start::lock_directory()?)?;
        let directory = &server.storage.directory;
        // A damaged one counts when it is repaired.
        self.found_mark = server.own_mark().unwrap_or(0);
        if shared().lease.worker().is_some() {
            // The process was restarted. The worker of a running server never changes.
            let found = lease_file::read(directory).map_err(IssueError::from)?;
            let Some(lease) = found.filter(|lease| shared().lease.numbers() == Some(lease.numbers)) else {
                return Err(Failure::local("the file with the lease of this server is lost"));
            };
            self.keep(lease);
            return self.renew(directory, lease);
        }
        self.lease_in(&server).inspect_err(|_| start::let_others_lock())
    }

    fn lease_in(&mut self, server: &ServersMark) -> Result<(), Failure> {
        let directory = &server.storage.directory;
        let place = lease_file::place(directory);
        let found = lease_file::read(directory).map_err(IssueError::from)?;
        let start = match found {
            Some(lease) if Some(lease.place) == place && self.is_wanted(&lease) => {
                server.start_of_lease(lease.numbers, lease.begins, start::now_at_start)?
            }
            _ => None,
        };
        if let (Some(lease), Some(start)) = (found, start)
            && self.go_on(directory, lease, start)?
        {
            return Ok(());
        }
        let mut session = self.session(found.as_ref(), EXCHANGE)?;
        self.check_clock(&session)?;
        let datacenter = worker::datacenter_number()?;
        let (configured, greatest) = (worker::configured()?, *self.layout.workers().end());
        if configured.is_some_and(|number| number > greatest) {
            return Err(Failure::local("the layout has no room for the worker ID"));
        }
        let original = server.worker_of_original(start::now_at_start)?.filter(|_| configured.is_none());
        let avoided = original.filter(|numbers| u64::from(numbers.0) == datacenter).map(|numbers| numbers.1);
        let claim = Claim { new_token: self.claim_token, datacenter, configured, greatest, avoided };
        let Claimed { worker, start: (first, begins), grant, other } =
            session.claim(found.as_ref(), &claim, &self.about(None))?;
        if let (Some(lease), Some(other), None) = (found, other, start) {
            self.warn_of_refusal(&lease, &format!("The last server that has leased it is {other}."));
        }
        self.warn_of_layout(&grant);
        let numbers = (u32::try_from(datacenter).expect("a data center of the layout"), worker);
        let lease = Lease {
            numbers,
            tokens: [self.claim_token, self.claim_token],
            begins,
            granted_until: grant.until,
            receipt: grant.receipt,
            revision: grant.revision,
            place: place.unwrap_or(Place { boot: 0, device: 0, directory: 0 }),
        };
        self.take(directory, lease)?;
        shared().lease.publish(numbers, first(begins), lease.granted_until);
        log_lease("leased", &lease, "");
        Ok(())
    }

    /// Whether this is a lease as the configuration wants it.
    fn is_wanted(&self, lease: &Lease) -> bool {
        let (datacenter, leased) = lease.numbers;
        worker::datacenter_number().is_ok_and(|number| number == u64::from(datacenter))
            && worker::configured().is_ok_and(|wanted| wanted.is_none_or(|number| number == u64::from(leased)))
            && self.layout.workers().contains(&u64::from(leased))
    }

    /// Begins with a lease that the server had before; false if the registry does not renew it. Without the registry,
    /// while the lease lasts: that is an error, too.
    fn go_on(&mut self, directory: &StateDirectory, mut lease: Lease, start: LeaseStart) -> Result<bool, Failure> {
        let at_most = if self.clock() < lease.granted_until { BRIEF } else { EXCHANGE };
        let renewed = self.session(Some(&lease), at_most).and_then(|mut session| {
            self.check_clock(&session)?;
            lease = with_next_token(directory, lease)?;
            self.renew_by(&mut session, directory, lease)
        });
        match renewed {
            Ok(None) => {
                shared().lease.publish(lease.numbers, start, self.granted_until());
                self.lease.iter().for_each(|lease| log_lease("renewed the lease of", lease, ""));
                Ok(true)
            }
            Ok(Some(refusal)) => {
                self.warn_of_refusal(&lease, &refusal.detail);
                Ok(false)
            }
            Err(failure) => {
                if !self.must_not_start && self.clock() < lease.granted_until {
                    self.keep(lease);
                    shared().lease.publish(lease.numbers, start, lease.granted_until);
                    log_lease("begins with the lease of", &lease, ", without the registry");
                }
                Err(failure)
            }
        }
    }

    /// Extends the lease in force.
    fn renew(&mut self, directory: &StateDirectory, lease: Lease) -> Result<(), Failure> {
        let mut session = self.session(Some(&lease), EXCHANGE)?;
        let _ = self.check_clock(&session);
        let lease = with_next_token(directory, lease)?;
        self.lease = Some(lease);
        let refusal = self.renew_by(&mut session, directory, lease)?;
        shared().lease.is_superseded.store(refusal.is_some(), Ordering::Relaxed);
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        shared().lease.grant(self.granted_until());
        Ok(())
    }

    /// Asks for a longer lease, and makes it durable. Returns why the registry refuses, if it does.
    fn renew_by(
        &mut self,
        session: &mut Session,
        directory: &StateDirectory,
        lease: Lease,
    ) -> Result<Option<Failure>, Failure> {
        match session.renew(&lease, &self.about(Some(&lease)))? {
            Renewed::Refused { reason: detail, hint, is_final, must_stop } => {
                if must_stop && self.lease.is_some() {
                    self.lower_grant(&lease, Instant::now() + BRIEF);
                    warning(&format!("{} is leased to another server for the same time", worker_of(lease.numbers)))
                        .set_detail(format!("{} This server issues no more IDs.", shown(&detail)))
                        .set_hint("Look for IDs that both have issued, and restart this server.")
                        .report(PgLogLevel::WARNING);
                }
                if is_final || must_stop {
                    self.disown(directory, lease)?;
                }
                let hint = if !hint.is_empty() {
                    hint
                } else if worker::configured().is_ok_and(|number| number.is_some()) {
                    "Configure another worker ID, and restart this server.".to_owned()
                } else {
                    "Restart this server, so that it leases another worker.".to_owned()
                };
                let message = format!("the registry does not renew the lease of {}", worker_of(lease.numbers));
                Ok(Some(Failure { detail, hint, ..Failure::local(message) }))
            }
            Renewed::Granted(grant) => {
                self.warn_of_layout(&grant);
                if let Some(conflict) = &grant.conflict {
                    warning("the worker of this server was leased to another server for the same time")
                        .set_detail(shown(conflict))
                        .set_hint("Look for IDs that both have issued. The registry has told the other server to stop.")
                        .report(PgLogLevel::WARNING);
                }
                // The clock of a grant can have been another one: a grant is never shorter than before.
                let granted_until = grant.until.max(lease.granted_until);
                let tokens = [lease.tokens[1]; 2];
                let (receipt, revision) = (grant.receipt, grant.revision);
                self.take(directory, Lease { tokens, granted_until, receipt, revision, ..lease })?;
                Ok(None)
            }
        }
    }

    /// Has no start and no registry take a lease for this server's any more. It is used to its end.
    fn disown(&mut self, directory: &StateDirectory, lease: Lease) -> Result<(), Failure> {
        let nowhere = Place { boot: 0, device: 0, directory: 0 };
        lease_file::write(directory, &Lease { place: nowhere, receipt: [0; 32], ..lease }).map_err(IssueError::from)?;
        self.is_over = self.lease.is_some();
        Ok(())
    }

    /// Makes a lease durable. Only then it may be used.
    fn take(&mut self, directory: &StateDirectory, lease: Lease) -> Result<(), Failure> {
        lease_file::write(directory, &lease).map_err(IssueError::from)?;
        self.keep(lease);
        Ok(())
    }

    fn keep(&mut self, lease: Lease) {
        let left = Duration::from_millis(lease.granted_until.saturating_sub(self.clock()));
        self.term = left.clamp(Duration::from_secs(1), gucs::registry::registry_lease());
        self.lease = Some(lease);
    }

    fn granted_until(&self) -> UnixMs {
        self.lease.map_or(0, |lease| lease.granted_until)
    }

    fn session(&self, known: Option<&Lease>, at_most: Duration) -> Result<Session, Failure> {
        let conninfo = gucs::registry::registry();
        if conninfo.is_empty() {
            return Err(gucs::registry::unset());
        }
        let text = CString::new(conninfo.as_str()).unwrap_or_default();
        if let Some((reason, hint)) = gucs::registry::objection(&text) {
            let hint = hint.to_string_lossy().into_owned();
            return Err(Failure { hint, ..Failure::local(reason.to_string_lossy()) });
        }
        Session::begin(&conninfo, known, Instant::now() + at_most, check_interrupts)
    }

    /// Records how far the clock is off, and warns if that is far. An error if the server must not start then.
    fn check_clock(&mut self, session: &Session) -> Result<(), Failure> {
        let (offset, error) = (session.clock_offset_ms, session.clock_error_ms);
        shared().lease.record_clock_offset(offset);
        let allowed = gucs::registry::max_clock_offset_ms();
        let is_off = offset.unsigned_abs().saturating_sub(error) > allowed;
        self.must_not_start = is_off && gucs::registry::clock_offset() == ClockOffset::Error;
        if !is_off {
            self.clock_warnings.reset();
            return Ok(());
        }
        let which = if offset > 0 { "ahead of" } else { "behind" };
        let message = format!("the clock is {} ms {which} the registry's", offset.unsigned_abs());
        let detail = format!("snowflake_pg.max_clock_offset is {allowed} ms.");
        let hint = "Check the clocks of this server and of the registry.";
        if self.must_not_start {
            return Err(Failure { detail, hint: hint.to_owned(), ..Failure::local(message) });
        }
        if self.clock_warnings.is_due() {
            warning(&message).set_detail(detail).set_hint(hint).report(PgLogLevel::WARNING);
        }
        Ok(())
    }

    /// IDs of two layouts can be equal, whatever their workers are.
    fn warn_of_layout(&self, grant: &Grant) {
        if let Some(other) = grant.other_layout.as_ref().filter(|_| self.layout_warnings.is_due()) {
            warning("another server of the registry has another layout")
                .set_detail(format!(
                    "{} This server has {}. IDs of two layouts can be equal.",
                    shown(other),
                    self.layout
                ))
                .set_hint("Set the same snowflake_pg.layout on all servers of a fleet.")
                .report(PgLogLevel::WARNING);
        }
    }

    fn warn_of_refusal(&self, lease: &Lease, refusal: &str) {
        if self.refusal_warnings.is_due() {
            warning(&format!("the registry does not renew the lease of {}", worker_of(lease.numbers)))
                .set_detail(format!(
                    "{} The state directory is a copy, was put back to an earlier state, or the lease was over.",
                    shown(refusal)
                ))
                .report(PgLogLevel::WARNING);
        }
    }
}

/// The lease with the token of its next renewal, which is on disk: the answer can be lost, and this process too. Then the
/// server has the token that the registry has.
fn with_next_token(directory: &StateDirectory, lease: Lease) -> Result<Lease, Failure> {
    let [token, next] = lease.tokens;
    if next != token {
        return Ok(lease);
    }
    let lease = Lease { tokens: [token, new_token()], ..lease };
    lease_file::write(directory, &lease).map_err(IssueError::from)?;
    Ok(lease)
}

fn log_lease(what: &str, lease: &Lease, how: &str) {
    let until = display_time(lease.granted_until);
    log!("snowflake_pg: {what} {}, until {until}{how}", worker_of(lease.numbers));
}
