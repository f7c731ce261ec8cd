//! The [`Io`] of the registry client: the state directory, shared memory, the clocks, and the registry.

use super::check_interrupts;
use crate::config::gucs;
use crate::durable::mark::{self, ServersMark};
use crate::durable::{lease_file, start, trace};
use crate::errors::IssueError;
use crate::postgres::failure::Failure;
use crate::postgres::report::warning;
use crate::postgres::server_encoding::displayable;
use crate::postgres::{clock, sleep};
use crate::registry::protocol::{About, Session, new_token};
use crate::shared::throttle::Throttle;
use crate::shared::{mark_lock, shared};
use crate::stops;
use crate::{trusted_clock, worker};
use pgrx::{PgLogLevel, log, pg_sys};
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::StoredMark;
use snowflake_core::mark::trace::Event as Traced;
use snowflake_core::registry_client::io::{Claim, Claimed, DurableLease, Event, Grant, Io, Occasion, Renewal, Wish};
use snowflake_core::server::identity::Worker;
use snowflake_core::server::lease::{Lease, LeaseStart, Location, Token};
use snowflake_core::{UnixMs, display_time};
use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long an exchange with the registry may take.
const EXCHANGE: Duration = Duration::from_secs(20);

/// How long an exchange may take when the server can begin without it.
const BRIEF: Duration = Duration::from_secs(2);

/// How long an exchange may take when the server stops: a second to connect, one for the lock of the mark, and the rest
/// for the release. A registry that does not answer must not hold the server up.
const RELEASE: Duration = Duration::from_secs(3);

/// How long the registry has to accept a connection when the server stops, once its name is looked up; and how long the
/// lock of the mark may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// What this server does with its lease.
pub(super) struct ServerIo {
    layout: Layout,
    /// The state directory that was locked for a start whose outcome is open.
    locked: Option<ServersMark>,
    must_not_start: bool,
    clock_warnings: Throttle,
    layout_warnings: Throttle,
    refusal_warnings: Throttle,
}

impl ServerIo {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            locked: None,
            must_not_start: false,
            clock_warnings: Throttle::default(),
            layout_warnings: Throttle::default(),
            refusal_warnings: Throttle::default(),
        }
    }

    fn about(&self, lease: Option<&Lease>, latest: UnixMs) -> About {
        let generator = &shared().generator;
        let has_issued = generator.counts().issued > 0;
        let name = gucs::raw_setting(c"cluster_name").unwrap_or_default().to_string_lossy().into_owned();
        About {
            layout: self.layout.flat().to_string(),
            server: Some(name).filter(|name| !name.is_empty()),
            // SAFETY: reads shared memory that every backend is attached to.
            system: unsafe { pg_sys::GetSystemIdentifier() },
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            // SAFETY: fixed when the server starts.
            port: unsafe { pg_sys::PostPortNumber },
            lease_ms: self.lease_ms(),
            clock: latest,
            issued_until: if has_issued { self.layout.time_of(generator.last_tick() + 1) } else { 0 },
            begins: lease.map(|lease| lease.begins),
        }
    }

    /// Records how far the clock is off, and warns if that is far. An error if the server must not start then.
    fn check_clock(&mut self, session: &Session) -> Result<(), Failure> {
        let (offset, error) = (session.clock_offset_ms, session.clock_error_ms);
        shared().lease.record_clock_offset(offset);
        let allowed = gucs::registry::max_clock_offset_ms();
        // mutant: clock-compared
        let is_off = offset.unsigned_abs().saturating_sub(error) > allowed;
        self.must_not_start = is_off && gucs::registry::must_start_with_right_clock();
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

    /// Does something in the state directory: at a start, in the locked one.
    fn within_directory<T>(&self, work: impl FnOnce(&ServersMark) -> Result<T, IssueError>) -> Result<T, Failure> {
        Ok(match &self.locked {
            Some(server) => work(server)?,
            None => work(&mark::open()?)?,
        })
    }

    /// IDs of two layouts can be equal.
    fn warn_of_layout(&self, other: Option<String>) {
        if let Some(other) = other.filter(|_| self.layout_warnings.is_due()) {
            warning("another server of the registry has a different layout")
                .set_detail(format!(
                    "{} This server has {}. IDs of two layouts can be equal.",
                    displayable(&other),
                    self.layout
                ))
                .set_hint("Set the same snowflake_pg.layout on all servers of a fleet.")
                .report(PgLogLevel::WARNING);
        }
    }

    fn warn_of_refusal(&self, lease: &Lease, refusal: &str) {
        if self.refusal_warnings.is_due() {
            warning(&not_renewed(lease))
                .set_detail(format!(
                    "{} The state directory is a copy, or was restored to an earlier state, or the lease had ended.",
                    displayable(refusal)
                ))
                .report(PgLogLevel::WARNING);
        }
    }
}

fn not_renewed(lease: &Lease) -> String {
    format!("the registry does not renew the lease of worker {}", lease.worker)
}

impl Io for ServerIo {
    type Failure = Failure;
    type Session = Session;

    fn monotonic_ms(&self) -> u64 {
        clock::monotonic_ms()
    }

    fn latest(&self, mark_at_start: UnixMs) -> UnixMs {
        let is_started = shared().generator.is_started();
        let last = if is_started { shared().last_timestamp(&self.layout) } else { mark_at_start };
        trusted_clock::now_ms_above(last).max(last)
    }

    fn lease_ms(&self) -> u64 {
        u64::try_from(gucs::registry::registry_lease().as_millis()).unwrap_or(u64::MAX)
    }

    fn new_token(&mut self) -> Token {
        new_token()
    }

    fn wish(&self) -> Result<Wish, Failure> {
        let (datacenter, worker) = (worker::datacenter_number()?, worker::configured()?);
        let greatest = *self.layout.workers().end();
        if worker.is_some_and(|number| number > greatest) {
            return Err(Failure::local("the layout has no room for the worker ID"));
        }
        // mutant: lease-datacenter
        let flat = |worker| self.layout.flatten(datacenter, worker);
        Ok(Wish { worker: worker.map(flat), least: flat(0), greatest: flat(greatest) })
    }

    fn lock(&mut self) -> Result<(), Failure> {
        self.locked = Some(mark::within(start::lock_directory()?)?);
        Ok(())
    }

    fn unlock(&mut self) {
        self.locked = None;
        start::let_others_lock();
    }

    fn location(&self) -> Option<Location> {
        self.within_directory(|server| Ok(lease_file::location(&server.storage.directory))).ok().flatten()
    }

    fn read_stored_mark(&mut self) -> Result<StoredMark, Failure> {
        self.within_directory(|server| server.read_stored_mark(start::now_at_start))
    }

    fn read_lease(&self) -> Result<Option<Lease>, Failure> {
        self.within_directory(|server| Ok(lease_file::read(&server.storage.directory)?))
    }

    fn write_lease(&mut self, lease: &Lease) -> Result<(), Failure> {
        self.within_directory(|server| Ok(lease_file::write(&server.storage.directory, lease)?))
    }

    fn worker(&self) -> Option<Worker> {
        shared().lease.worker()
    }

    fn lost_lease(&self) -> Failure {
        Failure::local("the file with the lease of this server is lost")
    }

    fn begin(&mut self, lease: &DurableLease, start: LeaseStart) {
        self.locked = None;
        let (LeaseStart::Continued(begins) | LeaseStart::First(begins) | LeaseStart::At(begins)) = start;
        stops::here("grant-use");
        trace::record(&[Traced::Granted { worker: lease.worker, begins, until: lease.granted_until }]);
        shared().lease.publish(lease.worker, start, lease.granted_until);
    }

    fn extend(&mut self, lease: &DurableLease) {
        self.locked = None;
        stops::here("grant-use");
        grant(lease.granted_until);
    }

    fn lower_grant(&mut self, lease: &Lease) -> Option<UnixMs> {
        let until = Instant::now() + FAREWELL;
        while Instant::now() < until {
            if let Some(_lock) = mark_lock::try_take() {
                let granted_until = shared().lease.granted_until();
                let lowered = mark::open().ok()?.lowest_grant(lease, granted_until).ok()??;
                grant(lowered);
                return Some(lowered);
            }
            sleep::pause(Duration::from_millis(1));
        }
        None
    }

    fn end_grant(&mut self, lease: &Lease) {
        // Without the lock, which a slow disk can hold for long: an extension looks at the grant again before it is
        // written.
        let generator = &shared().generator;
        let covered = if generator.is_started() { self.layout.time_of(generator.covered_until()) } else { 0 };
        grant(covered.max(lease.begins).min(shared().lease.granted_until()));
    }

    fn show_superseded(&mut self, is_superseded: bool) {
        shared().lease.is_superseded.store(is_superseded, Ordering::Relaxed);
    }

    fn connect(&mut self, lease: Option<&Lease>, occasion: Occasion) -> Result<Session, Failure> {
        let conninfo = gucs::registry::registry();
        if conninfo.is_empty() {
            return Err(gucs::registry::unset());
        }
        let text = CString::new(conninfo.as_str()).unwrap_or_default();
        if let Some((reason, hint)) = gucs::registry::objection(&text) {
            let hint = hint.to_string_lossy().into_owned();
            return Err(Failure { hint, ..Failure::local(reason.to_string_lossy()) });
        }
        let now = Instant::now();
        let within = |time| Session::begin(&conninfo, lease, now + time, check_interrupts);
        match occasion {
            Occasion::Start { is_optional } => {
                let session = within(if is_optional { BRIEF } else { EXCHANGE })?;
                self.check_clock(&session)?;
                Ok(session)
            }
            Occasion::Renewal => {
                let session = within(EXCHANGE)?;
                // A running server continues.
                let _ = self.check_clock(&session);
                Ok(session)
            }
            Occasion::Release => Ok(Session::begin(&conninfo, lease, now + FAREWELL, || Ok(()))?.until(now + RELEASE)),
        }
    }

    fn claim(
        &mut self,
        session: &mut Session,
        had: Option<&Lease>,
        claim: &Claim,
        latest: UnixMs,
    ) -> Result<Claimed, Failure> {
        let (claimed, notes) = session.claim(had, claim, &self.about(None, latest))?;
        if let (Some(lease), Some(other)) = (had, notes.holder) {
            self.warn_of_refusal(lease, &format!("The last server to lease it was {other}."));
        }
        self.warn_of_layout(notes.layout);
        Ok(claimed)
    }

    fn renew(&mut self, session: &mut Session, lease: &Lease, latest: UnixMs) -> Result<Renewal<Failure>, Failure> {
        let (mut renewal, notes) = session.renew(lease, &self.about(Some(lease), latest))?;
        if let Renewal::Refused { failure, .. } = &mut renewal {
            failure.message = not_renewed(lease);
            if failure.hint.is_empty() {
                failure.hint = if worker::configured().is_ok_and(|number| number.is_some()) {
                    "Configure another worker ID, and restart this server.".to_owned()
                } else {
                    "Restart this server, so that it leases another worker.".to_owned()
                };
            }
        }
        self.warn_of_layout(notes.layout);
        if let Some(conflict) = notes.conflict {
            warning("the worker of this server was leased to another server for the same time")
                .set_detail(displayable(&conflict))
                .set_hint("Look for IDs that both servers have issued. The registry has told the other server to stop.")
                .report(PgLogLevel::WARNING);
        }
        Ok(renewal)
    }

    fn release(
        &mut self,
        session: &mut Session,
        held: &Lease,
        lowered: &Lease,
        latest: UnixMs,
    ) -> Result<Grant, Failure> {
        session.release(held, lowered, &self.about(Some(held), latest))
    }

    fn must_not_start(&self) -> bool {
        self.must_not_start
    }

    fn is_answer(failure: &Failure) -> bool {
        failure.is_answer()
    }

    fn tell(&mut self, event: Event<'_, Failure>) {
        let until = |lease: &Lease| display_time(lease.granted_until);
        match event {
            Event::Leased(lease) => {
                log!("snowflake_pg: leased worker {}, until {}", lease.worker, until(lease));
            }
            Event::Continued(lease) => {
                log!("snowflake_pg: renewed the lease of worker {}, until {}", lease.worker, until(lease));
            }
            Event::Alone(lease) => {
                let (worker, until) = (lease.worker, until(lease));
                log!(
                    "snowflake_pg: the registry does not answer; IDs can be issued with the lease of worker {worker} \
                     until {until}"
                );
            }
            Event::NotRenewed(lease, refusal) => self.warn_of_refusal(lease, &refusal.detail),
            Event::Stopped(lease, refusal) => {
                warning(&format!("worker {} is leased to another server for the same time", lease.worker))
                    .set_detail(format!("{} This server issues no more IDs.", displayable(&refusal.detail)))
                    .set_hint("Look for IDs that both have issued, and restart this server.")
                    .report(PgLogLevel::WARNING);
            }
            Event::Released(lease) => log!("snowflake_pg: released worker {}", lease.worker),
            Event::NotTold(lease) => {
                let (worker, until) = (lease.worker, until(lease));
                log!(
                    "snowflake_pg: could not tell the registry that worker {worker} is free; this server keeps it until {until}"
                );
            }
            Event::Unheard(lease) => {
                let worker = lease.worker;
                log!(
                    "snowflake_pg: the registry did not confirm that worker {worker} is free; this server gives up its lease"
                );
            }
        }
    }
}

/// Allows timestamps below another time. Records it while the lower grant is in force: nobody else records a mark above
/// what was granted, except one who has read the grant before.
fn grant(until: UnixMs) {
    let lease = &shared().lease;
    if until < lease.granted_until() {
        lease.grant(until);
    }
    trace::record(&[Traced::GrantEnds { until }]);
    lease.grant(until);
}
