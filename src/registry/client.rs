//! The registry client: a background worker that leases the worker ID of this server, renews the lease, and releases it
//! when the server stops as planned.
//!
//! A process of its own, since the keeper can wait for a synchronous standby, and backends must not wait for the
//! network. A grant is on disk before it is used, and lowered on disk before it is given back. So whatever is lost on
//! the way, every timestamp is below what the registry has granted.

use crate::config::gucs;
use crate::durable::lock;
use crate::errors::{sentences, warning};
use crate::exit_hook::before_exit;
use crate::libpq::Failure;
use crate::registry::protocol::{About, new_token, worker_of};
use crate::server_encoding::shown;
use crate::shared::shared;
use crate::shared::throttle::Throttle;
use crate::{sleep, trusted_clock, worker};
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, SignalWakeFlags};
use pgrx::prelude::*;
use pgrx::{PgLogLevel, log};
use snowflake_core::layout::Layout;
use snowflake_core::lease::{Lease, Token};
use snowflake_core::{UnixMs, display_time};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

mod exchange;
mod farewell;

/// How long after its end the postmaster starts a registry client again.
const RESTART: Duration = Duration::from_secs(1);

/// How long after a failure the registry is asked again: from and up to.
const RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// The same after it has refused to renew the lease.
const RETRY_REFUSED: Duration = Duration::from_secs(60);

/// How long an exchange may go on when the server stops. If the answer to a claim is lost, nobody has the worker until the
/// lease ends.
const GRACE: Duration = Duration::from_secs(1);

/// Asks the postmaster for a registry client, if the worker of this server is leased. Only while preloading.
pub fn register() {
    // SAFETY: set once, when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } || !worker::needs_lease() || !worker::may_issue() {
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

/// Since when the process must end. pgrx tells of a signal once.
fn must_end_since() -> Option<Instant> {
    static TOLD: OnceLock<Instant> = OnceLock::new();
    if BackgroundWorker::sigterm_received() {
        TOLD.get_or_init(Instant::now);
    }
    TOLD.get().copied()
}

fn must_end() -> bool {
    must_end_since().is_some()
}

/// Ends a wait for the registry when the process must end.
fn check_interrupts() -> Result<(), Failure> {
    if must_end_since().is_some_and(|since| since.elapsed() >= GRACE) {
        return Err(Failure::local("the server stops"));
    }
    Ok(())
}

/// What the registry client knows.
struct Client {
    layout: Layout,
    /// The lease in force.
    lease: Option<Lease>,
    /// How long the lease was when it was granted.
    term: Duration,
    /// The token of the next claim. The same one is sent again if the answer is lost. No renewal has it: the registry would
    /// not tell the two apart.
    claim_token: Token,
    /// The mark that the server has found at its start.
    found_mark: UnixMs,
    /// Whether the registry has given the worker to another server. It is not asked again: in a failover it could forget.
    is_over: bool,
    /// Whether the clock is too far from the registry's for a start.
    must_not_start: bool,
    /// When the registry was asked last.
    asked: Option<Instant>,
    /// When it is asked again.
    next: Instant,
    /// How long it is not asked, even if IDs are needed.
    rest: Duration,
    /// How many times in a row it was asked in vain.
    failures: u32,
    /// Whether that was since it did not answer.
    is_away: bool,
    /// What went wrong last. Anything else is told at once.
    last_failure: String,
    failure_warnings: Throttle,
    clock_warnings: Throttle,
    layout_warnings: Throttle,
    refusal_warnings: Throttle,
}

impl Client {
    fn new(layout: Layout) -> Self {
        Self {
            layout,
            lease: None,
            term: gucs::registry::registry_lease(),
            claim_token: new_token(),
            found_mark: 0,
            is_over: false,
            must_not_start: false,
            asked: None,
            next: Instant::now(),
            rest: RETRY[0],
            failures: 0,
            is_away: false,
            last_failure: String::new(),
            failure_warnings: Throttle::default(),
            clock_warnings: Throttle::default(),
            layout_warnings: Throttle::default(),
            refusal_warnings: Throttle::default(),
        }
    }

    fn run(&mut self) {
        while !must_end() {
            if BackgroundWorker::sighup_received() {
                // SAFETY: called by the main loop of a background worker, as PostgreSQL's own do.
                unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
                self.next = Instant::now();
                self.failure_warnings.reset();
            }
            if self.is_due() {
                self.asked = Some(Instant::now());
                let outcome = self.exchange();
                self.schedule(outcome);
                if must_end() {
                    break;
                }
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
        let has_rested = self.asked.is_none_or(|asked| asked.elapsed() >= self.rest);
        let half = u64::try_from(self.term.as_millis()).unwrap_or(u64::MAX) / 2;
        let is_short = self.lease.is_none_or(|lease| lease.granted_until.saturating_sub(self.clock()) < half);
        !self.is_over && (Instant::now() >= self.next || has_rested && is_short)
    }

    /// Sets when the registry is asked again, and tells of a failure.
    fn schedule(&mut self, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) => {
                if self.is_away {
                    log!("snowflake_pg: the registry answers again");
                }
                self.is_away = false;
                self.failures = 0;
                self.last_failure.clear();
                shared().lease.failure.write("");
                // Servers that have started at once do not come back at once.
                let spread = 0.9 + 0.2 * f64::from(u16::try_from(self.token() & 0xFFFF).unwrap_or(0)) / 65536.0;
                self.next = Instant::now() + (self.term / 3).mul_f64(spread);
                self.rest = RETRY[0];
            }
            Err(failure) => {
                shared().lease.failure.write(&failure.to_text());
                if self.last_failure != failure.message {
                    self.last_failure.clone_from(&failure.message);
                    self.failure_warnings.reset();
                }
                let is_refused = shared().lease.is_superseded.load(Ordering::Relaxed);
                let at_most = RETRY[1].min((self.term / 10).max(RETRY[0]));
                let pause = if is_refused { RETRY_REFUSED } else { self.pause().min(at_most) };
                self.failures = self.failures.saturating_add(1);
                self.is_away = failure.sqlstate.is_none() && !is_refused;
                self.next = Instant::now() + pause;
                // A registry that has answered will not answer otherwise so soon.
                self.rest = if failure.sqlstate.is_some() || is_refused { pause } else { pause.min(RETRY[0]) };
                if check_interrupts().is_ok() && self.failure_warnings.is_due() {
                    self.log_failure(&failure);
                }
            }
        }
        shared().wake_keeper();
        lock::wake_waiters();
    }

    /// The token of the lease in force.
    fn token(&self) -> Token {
        self.lease.map_or(0, |lease| lease.tokens[0])
    }

    /// How long to wait after a failure: twice as long as after the one before.
    fn pause(&self) -> Duration {
        RETRY[0] * 2_u32.saturating_pow(self.failures.min(10))
    }

    fn log_failure(&self, failure: &Failure) {
        let (message, until) = match &self.lease {
            None => (warning("the registry has not leased a worker ID to this server"), String::new()),
            Some(lease) => (
                warning(&format!("could not renew the lease of {}", worker_of(lease.numbers))),
                if self.clock() < lease.granted_until {
                    format!(" IDs go on up to {}.", display_time(lease.granted_until))
                } else {
                    format!(" IDs ended at {}.", display_time(lease.granted_until))
                },
            ),
        };
        let message = message.set_detail(sentences(failure) + &until);
        let message = if failure.hint.is_empty() { message } else { message.set_hint(shown(&failure.hint)) };
        message.report(PgLogLevel::WARNING);
    }

    /// The latest of what the clock shows, of the last timestamp issued, and of the mark that was found: what a grant must
    /// be beyond.
    fn clock(&self) -> UnixMs {
        let generator = &shared().generator;
        let last = if generator.is_started() { shared().last_timestamp(&self.layout) } else { self.found_mark };
        trusted_clock::now_ms_above(last).max(last)
    }

    fn issued_until(&self) -> UnixMs {
        let generator = &shared().generator;
        if generator.counts().issued > 0 { self.layout.time_of(generator.last_tick() + 1) } else { 0 }
    }

    fn about(&self, lease: Option<&Lease>) -> About {
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
            begins: lease.map(|lease| lease.begins),
        }
    }
}
