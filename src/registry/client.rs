//! The registry client: a background worker that leases the worker ID of this server, renews the lease, and releases it
//! when the server stops as planned.
//!
//! A process of its own, since the keeper can wait for a synchronous standby, and backends must not wait for the
//! network. A grant is on disk before it is used, and lowered on disk before it is given back. So whatever is lost on
//! the way, every timestamp is below what the registry has granted.

use crate::config::gucs;
use crate::config::gucs::registry::ClockOffset;
use crate::durable::state_file::StateDirectory;
use crate::durable::{lease_file, lock, start};
use crate::errors::{IssueError, warning};
use crate::exit_hook::before_exit;
use crate::libpq::Failure;
use crate::registry::protocol::{About, Claimed, Grant, Renewed, Session, new_token, worker_of};
use crate::server_encoding::shown;
use crate::shared::shared;
use crate::shared::throttle::Throttle;
use crate::{clock, sleep, worker};
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, SignalWakeFlags};
use pgrx::prelude::*;
use pgrx::{PgLogLevel, log};
use snowflake_core::layout::Layout;
use snowflake_core::lease::{Lease, LeaseStart, Token};
use snowflake_core::{UnixMs, display_time};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

mod farewell;

/// How long after its end the postmaster starts a registry client again.
const RESTART: Duration = Duration::from_secs(1);

/// How long an exchange with the registry may take.
const EXCHANGE: Duration = Duration::from_secs(20);

/// The same when the server can begin without it.
const BRIEF: Duration = Duration::from_secs(2);

/// How long after a failure the registry is asked again: from and up to.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Asks the postmaster for a registry client, if the worker of this server is leased. Only while preloading.
pub fn register() {
    // SAFETY: set once, when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } || !worker::needs_lease() {
        return;
    }
    BackgroundWorkerBuilder::new("snowflake_pg registry client")
        .set_library("snowflake_pg")
        .set_function("snowflake_pg_registry_client")
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(RESTART))
        .enable_spi_access()
        .load();
}

/// Where the registry client begins.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_pg_registry_client(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    let Ok(layout) = worker::layout_in_force() else { return };
    // To no database, but so that pg_stat_activity shows the process.
    BackgroundWorker::connect_worker_to_spi(None, None);
    // SAFETY: set when the process started.
    let latch = unsafe { pg_sys::MyLatch };
    shared().lease.set_client(latch);
    before_exit(|_code| shared().lease.set_client(std::ptr::null_mut()));
    Client::new(layout).run();
}

/// Whether the process must end. pgrx tells of a signal once.
fn must_end() -> bool {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if BackgroundWorker::sigterm_received() {
        TOLD.store(true, Ordering::Relaxed);
    }
    TOLD.load(Ordering::Relaxed)
}

/// Ends a wait for the registry then.
fn check_interrupts() -> Result<(), Failure> {
    if must_end() { Err(Failure::local("the server stops")) } else { Ok(()) }
}

/// What the registry client knows.
struct Client {
    layout: Layout,
    /// The lease in force.
    lease: Option<Lease>,
    /// The token of the renewal that is under way. The same one is sent again if the answer is lost.
    new_token: Token,
    /// The same of a claim. The registry would take a renewal with the token of a claim for one that it has answered.
    claim_token: Token,
    /// When the registry was asked last.
    asked: Option<Instant>,
    /// When it is asked again.
    next: Instant,
    /// How many times in a row it was asked in vain.
    failures: u32,
    failure_warnings: Throttle,
    clock_warnings: Throttle,
}

impl Client {
    fn new(layout: Layout) -> Self {
        Self {
            layout,
            lease: None,
            new_token: new_token(),
            claim_token: new_token(),
            asked: None,
            next: Instant::now(),
            failures: 0,
            failure_warnings: Throttle::default(),
            clock_warnings: Throttle::default(),
        }
    }

    fn run(&mut self) {
        while !must_end() {
            if BackgroundWorker::sighup_received() {
                // SAFETY: called by the main loop of a background worker, as PostgreSQL's own do.
                unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
                self.next = Instant::now();
            }
            if self.is_due() {
                self.asked = Some(Instant::now());
                let outcome = self.exchange();
                self.schedule(outcome);
            }
            let pause = self.next.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
            sleep::on_latch(Some(pause), pg_sys::PG_WAIT_EXTENSION);
        }
        if farewell::is_server_stopping() {
            self.release();
        }
        // After exit code 0 the postmaster would not start the process again.
        // SAFETY: the process holds no lock here.
        unsafe { pg_sys::proc_exit(1) };
    }

    /// Whether the registry is to be asked now: at the time, or when a backend needs a grant.
    fn is_due(&self) -> bool {
        let is_superseded = shared().lease.is_superseded.load(Ordering::Relaxed);
        let rested = self.asked.is_none_or(|asked| asked.elapsed() >= RETRY[0]);
        let half = u64::try_from(gucs::registry::registry_lease().as_millis()).unwrap_or(u64::MAX) / 2;
        let is_short = self.lease.is_none_or(|lease| lease.granted_until.saturating_sub(self.clock()) < half);
        !is_superseded && (Instant::now() >= self.next || rested && is_short)
    }

    /// Sets when the registry is asked again, and tells of a failure.
    fn schedule(&mut self, outcome: Result<(), Failure>) {
        let lease = gucs::registry::registry_lease();
        match outcome {
            Ok(()) => {
                if self.failures > 0 {
                    log!("snowflake_pg: the registry answers again");
                }
                self.failures = 0;
                self.failure_warnings.reset();
                shared().lease.failure.write("");
                // Servers that have started at once do not come back at once.
                let spread = 0.9 + 0.2 * f64::from(u16::try_from(self.new_token & 0xFFFF).unwrap_or(0)) / 65536.0;
                self.next = Instant::now() + (lease / 3).mul_f64(spread);
            }
            Err(failure) => {
                shared().lease.failure.write(&failure.to_text());
                if check_interrupts().is_ok() && self.failure_warnings.is_due() {
                    self.log_failure(failure);
                }
                let pause = RETRY[0] * 2_u32.saturating_pow(self.failures.min(10));
                self.failures = self.failures.saturating_add(1);
                self.next = Instant::now() + pause.min(RETRY[1]).min((lease / 10).max(RETRY[0]));
            }
        }
        shared().wake_keeper();
        lock::wake_waiters();
    }

    fn log_failure(&self, failure: Failure) {
        let message = match &self.lease {
            None => warning("the registry has not leased a worker ID to this server"),
            Some(lease) => warning(&format!("could not renew the lease of {}", worker_of(lease.numbers))),
        };
        let until = match &self.lease {
            Some(lease) => format!(" IDs go on up to {}.", display_time(lease.granted_until)),
            None => String::new(),
        };
        let text = failure.message.lines().chain(failure.detail.lines()).map(|line| shown(line.trim()));
        let text = text.collect::<Vec<_>>().join(" ");
        let message = message.set_detail(format!("{}.{until}", text.trim_end_matches('.')));
        let message = if failure.hint.is_empty() { message } else { message.set_hint(shown(&failure.hint)) };
        message.report(PgLogLevel::WARNING);
    }

    /// Asks the registry for what is due.
    fn exchange(&mut self) -> Result<(), Failure> {
        match self.lease {
            Some(lease) => self.renew(lease),
            None => self.begin(),
        }
    }

    /// Begins with the lease that the server has, or leases a worker.
    fn begin(&mut self) -> Result<(), Failure> {
        let directory = start::lock_directory()?;
        if shared().lease.worker().is_some() {
            // The process was restarted. The worker of a running server never changes.
            let found = lease_file::read(&directory).map_err(IssueError::from)?;
            let Some(lease) = found.filter(|lease| shared().lease.numbers() == Some(lease.numbers)) else {
                return Err(Failure::local("the file with the lease of this server is lost"));
            };
            self.lease = Some(lease);
            return self.renew(lease);
        }
        self.lease_in(&directory).inspect_err(|_| start::let_others_lock())
    }

    fn lease_in(&mut self, directory: &StateDirectory) -> Result<(), Failure> {
        let place = lease_file::place(directory);
        let found = lease_file::read(directory).map_err(IssueError::from)?;
        let own = match found {
            Some(lease) if Some(lease.place) == place && self.is_wanted(&lease) => {
                start::goes_on_as(directory, lease.numbers)?.then_some(lease)
            }
            _ => None,
        };
        let at_most = if own.is_some() { BRIEF } else { EXCHANGE };
        let session = self.session(found.as_ref(), at_most);
        let mut session = match (session, own) {
            (Err(failure), Some(lease)) if self.clock() < lease.granted_until => {
                self.lease = Some(lease);
                shared().lease.publish(lease.numbers, LeaseStart::Continued(lease.begins), lease.granted_until);
                log!(
                    "snowflake_pg: begins with the lease of {}, until {}, without the registry",
                    worker_of(lease.numbers),
                    display_time(lease.granted_until)
                );
                return Err(failure);
            }
            (session, _) => session?,
        };
        self.check_clock(&session)?;
        let about = self.about();
        if let Some(lease) = own {
            match session.renew(&lease, self.new_token, &about)? {
                Renewed::Granted(grant) => {
                    self.take(directory, self.renewed(&lease, grant))?;
                    shared().lease.publish(lease.numbers, LeaseStart::Continued(lease.begins), self.granted_until());
                    self.log_lease("renewed the lease of");
                    return Ok(());
                }
                Renewed::Refused(other) => {
                    self.new_token = new_token();
                    warn_of_other(&lease, &other);
                }
            }
        }
        let datacenter = worker::datacenter_number()?;
        let (configured, greatest) = (worker::configured(), *self.layout.workers().end());
        let claimed = session.claim(found.as_ref(), self.claim_token, datacenter, configured, greatest, &about)?;
        let Claimed { worker, begins, grant, other } = claimed;
        if let (Some(lease), Some(other), None) = (found, other, own) {
            warn_of_other(&lease, &other);
        }
        let numbers = (u32::try_from(datacenter).expect("a data center of the layout"), worker);
        let Grant { until, receipt, revision } = grant;
        let place = place.unwrap_or(snowflake_core::lease::Place { boot: 0, device: 0 });
        let tokens = [self.claim_token, self.claim_token];
        self.take(directory, Lease { numbers, tokens, begins, granted_until: until, receipt, revision, place })?;
        shared().lease.publish(numbers, LeaseStart::At(begins), until);
        self.log_lease("leased");
        Ok(())
    }

    /// Whether this is a lease as the configuration wants it.
    fn is_wanted(&self, lease: &Lease) -> bool {
        let (datacenter, leased) = lease.numbers;
        worker::datacenter_number().is_ok_and(|number| number == u64::from(datacenter))
            && worker::configured().is_none_or(|number| number == u64::from(leased))
            && self.layout.workers().contains(&u64::from(leased))
    }

    /// Extends the lease in force.
    fn renew(&mut self, lease: Lease) -> Result<(), Failure> {
        let mut session = self.session(Some(&lease), EXCHANGE)?;
        let _ = self.check_clock(&session);
        match session.renew(&lease, self.new_token, &self.about())? {
            Renewed::Granted(grant) => {
                let directory = StateDirectory::open(&gucs::state_directory()).map_err(IssueError::from)?;
                self.take(&directory, self.renewed(&lease, grant))?;
                shared().lease.grant(self.granted_until());
                Ok(())
            }
            Renewed::Refused(other) => {
                shared().lease.is_superseded.store(true, Ordering::Relaxed);
                self.next = Instant::now() + Duration::from_secs(3600);
                warn_of_other(&lease, &other);
                Err(superseded(&lease, &other))
            }
        }
    }

    fn renewed(&self, lease: &Lease, grant: Grant) -> Lease {
        let Grant { until, receipt, revision } = grant;
        let tokens = [self.new_token, lease.tokens[0]];
        // The clock of a grant can have been another one: a grant is never shorter than before.
        Lease { tokens, granted_until: until.max(lease.granted_until), receipt, revision, ..*lease }
    }

    /// Makes a lease durable. Only then it may be used.
    fn take(&mut self, directory: &StateDirectory, lease: Lease) -> Result<(), Failure> {
        lease_file::write(directory, &lease).map_err(IssueError::from)?;
        self.lease = Some(lease);
        self.new_token = new_token();
        Ok(())
    }

    fn granted_until(&self) -> UnixMs {
        self.lease.map_or(0, |lease| lease.granted_until)
    }

    fn session(&self, known: Option<&Lease>, at_most: Duration) -> Result<Session, Failure> {
        let conninfo = gucs::registry::registry();
        if conninfo.is_empty() {
            return Err(Failure::local("snowflake_pg.registry is not set"));
        }
        let text = CString::new(conninfo.as_str()).unwrap_or_default();
        if let Some(reason) = gucs::registry::objection(&text) {
            return Err(Failure {
                hint: gucs::registry::PASSWORD_HINT.to_owned(),
                ..Failure::local(reason.to_string_lossy())
            });
        }
        Session::begin(&conninfo, known, Instant::now() + at_most, check_interrupts)
    }

    /// Records how far the clock is off, and warns if that is far. An error if it must not be.
    fn check_clock(&self, session: &Session) -> Result<(), Failure> {
        let (offset, error) = (session.clock_offset_ms, session.clock_error_ms);
        shared().lease.record_clock_offset(offset);
        let allowed = gucs::registry::max_clock_offset_ms();
        if offset.unsigned_abs().saturating_sub(error) <= allowed {
            self.clock_warnings.reset();
            return Ok(());
        }
        let which = if offset > 0 { "ahead of" } else { "behind" };
        let message = format!("the clock is {} ms {which} the registry's", offset.unsigned_abs());
        let detail = format!("snowflake_pg.max_clock_offset is {allowed} ms.");
        let hint = "Check the clocks of this server and of the registry.";
        if gucs::registry::clock_offset() == ClockOffset::Error {
            return Err(Failure { detail, hint: hint.to_owned(), ..Failure::local(message) });
        }
        if self.clock_warnings.is_due() {
            warning(&message).set_detail(detail).set_hint(hint).report(PgLogLevel::WARNING);
        }
        Ok(())
    }

    /// The later one of what the clock shows and the last timestamp issued.
    fn clock(&self) -> UnixMs {
        let generator = &shared().generator;
        let last = if generator.is_started() { shared().last_timestamp(&self.layout) } else { 0 };
        clock::unix_ms().max(last)
    }

    fn issued_until(&self) -> UnixMs {
        let generator = &shared().generator;
        if generator.counts().issued > 0 { self.layout.time_of(generator.last_tick() + 1) } else { 0 }
    }

    fn about(&self) -> About {
        let name = gucs::raw_setting(c"cluster_name").unwrap_or_default().to_string_lossy().into_owned();
        About {
            layout: self.layout.to_string(),
            server: Some(name).filter(|name| !name.is_empty()),
            // SAFETY: reads shared memory that every backend is attached to.
            system: unsafe { pg_sys::GetSystemIdentifier() },
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            // SAFETY: fixed when the server starts.
            port: unsafe { pg_sys::PostPortNumber },
            lease_ms: u64::try_from(gucs::registry::registry_lease().as_millis()).unwrap_or(u64::MAX),
            clock: self.clock(),
            issued_until: self.issued_until(),
        }
    }

    fn log_lease(&self, what: &str) {
        if let Some(lease) = self.lease {
            log!("snowflake_pg: {what} {}, until {}", worker_of(lease.numbers), display_time(lease.granted_until));
        }
    }
}

fn superseded(lease: &Lease, other: &str) -> Failure {
    let has = if other.is_empty() { String::new() } else { format!("; it has {other}") };
    Failure {
        hint: "Restart this server, so that it leases another worker.".to_owned(),
        ..Failure::local(format!("the registry does not renew the lease of {}{has}", worker_of(lease.numbers)))
    }
}

fn warn_of_other(lease: &Lease, other: &str) {
    let message = warning(&format!("the registry does not renew the lease of {}", worker_of(lease.numbers)));
    let detail = if other.is_empty() {
        "The registry does not know the lease.".to_owned()
    } else {
        format!("It has {}.", shown(other))
    };
    message
        .set_detail(format!(
            "{detail} The state directory is a copy, was put back to an earlier state, or the lease was over."
        ))
        .report(PgLogLevel::WARNING);
}
