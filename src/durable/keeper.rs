//! The keeper: a background worker that writes the mark early, so that no client waits for it.
//!
//! The keeper starts the generator when the server starts. The server log then shows the outcome at once, and a start
//! margin has usually passed before the first call. While IDs are issued, and for `keep_warm` afterwards, the keeper
//! extends the mark before a backend comes near it. Otherwise it sleeps, usually until a backend wakes it. Without a
//! keeper, an occasional call takes as long as the disk. With `wal_mark = require`, only the keeper writes the mark:
//! the wait for a synchronous standby cannot be cancelled.

use crate::config::gucs;
use crate::durable::{extend, horizon, lease, mark as durable_mark, wal};
use crate::errors::{IssueError, summary};
use crate::postgres::exit_hook::before_exit;
use crate::postgres::report::warning;
use crate::postgres::sleep::{self, WaitEvent};
use crate::postgres::{background_worker, clock};
use crate::shared::machine;
use crate::shared::mark_lock;
use crate::shared::throttle::Throttle;
use crate::shared::{Shared, shared};
use crate::trusted_clock;
use crate::worker::{self, citus_group};
use once_cell::sync::OnceCell;
use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::prelude::*;
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::{self, KeeperSchedule, Work};
use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long after its end the postmaster starts a keeper again.
const RESTART: Duration = Duration::from_secs(5);

/// How long the keeper waits after a failure, even if a backend wakes it.
const RETRY: Duration = Duration::from_secs(1);

/// How long the keeper sleeps at most. Nobody tells it that the clock was set back, so that IDs below the mark are
/// issued again, which standbys are to have.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// How often the keeper looks whether the machine was cloned, also while nobody asks for IDs.
const LOOK_AT_MACHINE: Duration = Duration::from_secs(1);

/// What the keeper calls first.
static AT_START: OnceCell<fn()> = OnceCell::new();

/// Asks the postmaster for a keeper, which calls `at_start` first. Only while preloading.
pub fn register(at_start: fn()) {
    AT_START.get_or_init(|| at_start);
    background_worker::register("snowflake_pg keeper", "snowflake_pg_keeper", RESTART);
}

/// The main function of the keeper.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_pg_keeper(_argument: pg_sys::Datum) {
    background_worker::end_when_told();
    ignore_cancel();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    if let Some(at_start) = AT_START.get() {
        at_start();
    }
    // SAFETY: set when the process started.
    let latch = unsafe { pg_sys::MyLatch };
    shared().set_keeper(latch);
    shared().keeper_pid.store(i32::try_from(std::process::id()).unwrap_or_default(), Ordering::Relaxed);
    before_exit(|_code| {
        shared().set_keeper(std::ptr::null_mut());
        shared().keeper_pid.store(0, Ordering::Relaxed);
        shared().extending_since.take();
    });
    connect();
    if worker::is_in_citus() {
        while !citus_group::find() {
            // A call that waits for the group wakes the keeper.
            sleep::on_latch(Some(RETRY), WaitEvent::KeeperMain);
            end_if_told();
        }
    }
    let layout = loop {
        match worker::layout_and_series().and_then(|(layout, _)| lease::start().map(|_| layout)) {
            Ok(layout) => break layout,
            Err(IssueError::Lease(_)) => sleep::on_latch(None, WaitEvent::KeeperMain),
            Err(_) => return,
        }
        end_if_told();
    };
    Keeper { layout, schedule: KeeperSchedule::default(), is_cloned: false, throttles: HashMap::new() }.run();
}

/// Ignores SIGINT, which would end PostgreSQL's wait for a synchronous standby without an acknowledgment.
fn ignore_cancel() {
    // Nothing in it can panic, which is what pgrx's guard is for.
    unsafe extern "C-unwind" fn ignore(
        _signal: c_int,
        #[cfg(feature = "pg19")] _sender: *const pg_sys::pg_signal_info,
    ) {
    }
    background_worker::handle(pg_sys::SIGINT, ignore);
}

/// Sleeps for this time, even if backends that wait for the keeper wake it.
fn pause(time: Duration) {
    let until = Instant::now() + time;
    while let Some(remaining) = until.checked_duration_since(Instant::now()) {
        sleep::on_latch(Some(remaining), WaitEvent::KeeperMain);
        end_if_told();
    }
}

/// Ends the keeper if it has received SIGTERM.
fn end_if_told() {
    // SAFETY: a flag of this process, which holds no lock here.
    unsafe {
        if pg_sys::ProcDiePending != 0 {
            // Logs no FATAL at every shutdown. After exit code 0 the postmaster would not start a keeper again.
            pg_sys::proc_exit(1);
        }
    }
}

/// Connects to the database with the metadata of Citus, if the worker is there. Otherwise to no database, but still
/// connects, so that pg_stat_activity shows the keeper. Ends the process if the database does not exist.
fn connect() {
    let database = gucs::citus_database();
    BackgroundWorker::connect_worker_to_spi(worker::is_in_citus().then_some(&database.to_string_lossy()), None);
    // Whatever the settings of the server, the database or a role are: the mark must be acknowledged, and the queries
    // must not depend on search_path.
    for (name, value) in [(c"synchronous_commit", c"on"), (c"search_path", c""), (c"role", c"none")] {
        let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_SESSION);
        // SAFETY: takes two C strings, and copies the value.
        unsafe { pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source) };
    }
}

/// Writes the horizon to WAL, for standbys.
fn log_horizon() {
    // Another process that writes the mark writes the horizon, too, and reports what is wrong with the page.
    if let Some(_lock) = mark_lock::try_take() {
        let _ = wal::in_transaction(wal::write_horizon);
    }
}

struct Keeper {
    layout: Layout,
    schedule: KeeperSchedule,
    /// Whether it has logged that the machine was cloned.
    is_cloned: bool,
    /// For warnings of each kind of error.
    throttles: HashMap<Discriminant<IssueError>, Throttle>,
}

impl Keeper {
    fn run(&mut self) {
        loop {
            end_if_told();
            pgrx::check_for_interrupts!();
            if BackgroundWorker::sighup_received() {
                // SAFETY: called by the main loop of a background worker, as PostgreSQL's own do.
                unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
                if worker::ignores_registry() {
                    warning("snowflake_pg.registry_conninfo takes effect when the server is restarted")
                        .set_detail("Until then the registry does not know the worker ID of this server.")
                        .report(PgLogLevel::WARNING);
                }
            }
            match self.look_at_machine().and_then(|()| self.work()) {
                Ok(next) => {
                    shared().keeper_error.set(None);
                    let look = machine::is_watched().then_some(LOOK_AT_MACHINE);
                    // mutant: keeper-looks-again
                    let next = next.into_iter().chain(look).fold(LONGEST_SLEEP, Duration::min);
                    sleep::on_latch(Some(next), WaitEvent::KeeperMain);
                }
                Err(error) => {
                    // A keeper that must end may have stopped waiting for standbys before they answered.
                    end_if_told();
                    shared().keeper_error.set(error.os_error());
                    self.log(error);
                    pause(RETRY);
                }
            }
        }
    }

    /// Logs that the machine was cloned, and makes it durable. The mark is still extended: who accepts the clone may
    /// need it.
    fn look_at_machine(&mut self) -> Result<(), IssueError> {
        let Err(change) = machine::check() else {
            self.is_cloned = false;
            return Ok(());
        };
        if !std::mem::replace(&mut self.is_cloned, true) {
            IssueError::from(change).log(PgLogLevel::WARNING);
        }
        if shared().generator.is_started()
            && let Some(_lock) = mark_lock::try_take()
        {
            durable_mark::note_clone()?;
        }
        Ok(())
    }

    /// Extends the mark if that is due, and returns when to look again; `None` if nothing is to be done.
    fn work(&mut self) -> Result<Option<Duration>, IssueError> {
        let generator = &shared().generator;
        let is_started = generator.is_started();
        let is_wanted = shared().wanted.get().is_some_and(|tick| tick >= generator.covered_until());
        let now = clock::monotonic_ms;
        let keep_warm_ms = u64::try_from(gucs::keep_warm().as_millis()).unwrap_or(u64::MAX);
        let is_awaited = is_started && horizon::is_awaited(&self.layout, self.mark());
        let issued = generator.counts().issued;
        let work = self.schedule.wake(now(), issued, is_started, is_wanted, is_awaited, keep_warm_ms);
        if let Work::Sleep(left) = work {
            return Ok(left.map(Duration::from_millis));
        }
        if is_awaited {
            // Also a page with another mark has the horizon.
            // mutant: past-tick-closed-for-standbys
            horizon::close_past_tick(&self.layout);
        }
        // A backend that has just extended the mark wakes the keeper to continue from there.
        if work == Work::Look && (!is_started || is_wanted || self.is_due()) {
            self.extend()?;
            shared().keeper_failure.write("");
        } else if is_awaited {
            log_horizon();
        }
        Ok(Some(Duration::from_millis(self.schedule.pause(now(), gucs::reserve_ahead_ms()))))
    }

    fn mark(&self) -> UnixMs {
        self.layout.time_of(shared().generator.covered_until())
    }

    fn is_due(&self) -> bool {
        let latest = trusted_clock::now_ms(&self.layout).max(shared().last_timestamp(&self.layout));
        mark::is_due(self.mark(), latest, gucs::reserve_ahead_ms())
    }

    /// Starts the generator or extends the mark.
    fn extend(&mut self) -> Result<(), IssueError> {
        if worker::is_in_citus() {
            citus_group::check_again();
        }
        let Shared { generator, wanted, extending_since, .. } = shared();
        let limit = generator.covered_until();
        let needed = || generator.last_tick().max(wanted.get().unwrap_or(0));
        extending_since.set(clock::monotonic_ms());
        let extended = wal::in_transaction(|| extend::start_or_extend(&self.layout, needed, limit));
        extending_since.take();
        extended
    }

    /// Shows an error in the view, and logs each kind once a minute.
    fn log(&mut self, error: IssueError) {
        let is_due = self.throttles.entry(discriminant(&error)).or_default().is_due();
        shared().keeper_failure.write(&summary::log_recorded(error, PgLogLevel::WARNING, is_due));
    }
}
