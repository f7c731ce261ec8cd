//! The registry client: a background worker that leases the worker ID of this server, renews the lease, and releases it
//! when the server stops as planned.
//!
//! A process of its own, since the keeper can wait for a synchronous standby, and backends must not wait for the
//! network. [`snowflake_core::registry_client`] decides what it does.

use crate::config::gucs;
use crate::errors::sentences;
use crate::postgres::background_worker;
use crate::postgres::exit_hook::before_exit;
use crate::postgres::failure::Failure;
use crate::postgres::report::warning;
use crate::postgres::server_encoding::displayable;
use crate::postgres::sleep::{self, WaitEvent};
use crate::shared::machine;
use crate::shared::throttle::Throttle;
use crate::shared::{mark_lock, shared};
use crate::worker;
use io::ServerIo;
use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::prelude::*;
use pgrx::{PgLogLevel, log};
use snowflake_core::display_time;
use snowflake_core::id::layout::Layout;
use snowflake_core::registry_client::Client;
use snowflake_core::registry_client::io::Io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

mod io;

/// How long after its end the postmaster starts a registry client again.
const RESTART: Duration = Duration::from_secs(1);

/// How long an exchange may continue when the server stops. If the answer to a claim is lost, nobody has the worker
/// until the lease ends.
const GRACE: Duration = Duration::from_secs(4);

/// Asks the postmaster for a registry client, if the worker of this server is leased. Only while preloading.
pub fn register() {
    if worker::needs_lease() && worker::may_issue() {
        background_worker::register("snowflake_pg registry client", "snowflake_pg_registry_client", RESTART);
    }
}

/// The main function of the registry client.
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
    RegistryClient::new(layout).run();
}

/// Since when the process must end. pgrx reports a signal once.
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
        return Err(Failure::local("the server is shutting down"));
    }
    Ok(())
}

/// The client, and the failures that it has reported.
struct RegistryClient {
    client: Client,
    io: ServerIo,
    /// Whether the registry has stopped answering.
    is_away: bool,
    /// What went wrong last. Anything else is reported at once.
    last_failure: String,
    failure_warnings: Throttle,
}

impl RegistryClient {
    fn new(layout: Layout) -> Self {
        let mut io = ServerIo::new(layout);
        Self {
            client: Client::new(&mut io),
            io,
            is_away: false,
            last_failure: String::new(),
            failure_warnings: Throttle::default(),
        }
    }

    fn run(&mut self) {
        while !must_end() {
            if BackgroundWorker::sighup_received() {
                // SAFETY: called by the main loop of a background worker, as PostgreSQL's own do.
                unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
                self.client.hurry(&self.io);
                self.failure_warnings.reset();
            }
            // Copies of a machine have one lease. Neither must take it from the other, nor give it back.
            // mutant: cloned-lease-kept
            let is_cloned = machine::check().is_err();
            if !is_cloned && self.client.is_due(&self.io) {
                let outcome = self.client.ask(&mut self.io);
                self.show(outcome.err());
                shared().wake_keeper();
                mark_lock::wake_waiters();
                // mutant: client-ends
                if must_end() {
                    break;
                }
            }
            let least = if is_cloned { 1000 } else { 10 };
            let pause = self.client.next().map(|next| next.saturating_sub(self.io.monotonic_ms()).max(least));
            sleep::on_latch(pause.map(Duration::from_millis), WaitEvent::RegistryMain);
        }
        // mutant: cloned-lease-released
        if is_server_stopping() && machine::check().is_ok() {
            self.client.release(&mut self.io);
        }
        // After exit code 0 the postmaster would not start the process again.
        // SAFETY: the process holds no lock here.
        unsafe { pg_sys::proc_exit(1) };
    }

    /// Shows the outcome of the last exchange.
    fn show(&mut self, failure: Option<Failure>) {
        let Some(failure) = failure else {
            if self.is_away {
                log!("snowflake_pg: the registry answers again");
            }
            self.is_away = false;
            self.last_failure.clear();
            return shared().lease.failure.write(&Failure::default());
        };
        shared().lease.failure.write(&failure);
        if self.last_failure != failure.message {
            self.last_failure.clone_from(&failure.message);
            self.failure_warnings.reset();
        }
        self.is_away = !ServerIo::is_answer(&failure) && !self.client.is_superseded();
        if check_interrupts().is_ok() && self.failure_warnings.is_due() {
            self.log_failure(&failure);
        }
    }

    fn log_failure(&self, failure: &Failure) {
        let (message, until) = match self.client.lease() {
            None => (warning("the registry has not leased a worker ID to this server"), String::new()),
            Some(lease) => (
                warning(&format!("could not renew the lease of worker {}", lease.worker)),
                if self.client.latest(&self.io) < lease.granted_until {
                    format!(" IDs can be issued until {}.", display_time(lease.granted_until))
                } else {
                    format!(" The lease ended at {}.", display_time(lease.granted_until))
                },
            ),
        };
        let message = message.set_detail(sentences(failure) + &until);
        let message = if failure.hint.is_empty() { message } else { message.set_hint(displayable(&failure.hint)) };
        message.report(PgLogLevel::WARNING);
    }
}

/// Whether the server stops, and not this process alone: the postmaster writes that into a file for pg_ctl.
fn is_server_stopping() -> bool {
    const STATUS_LINE: usize = 8;
    let file = std::fs::read_to_string(gucs::data_directory().join("postmaster.pid")).unwrap_or_default();
    file.lines().nth(STATUS_LINE - 1).is_some_and(|status| status.trim() == "stopping")
}
