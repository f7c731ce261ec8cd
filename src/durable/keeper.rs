//! The keeper: a background worker that does early what a backend would otherwise have to do while its client waits.
//!
//! When the server starts, it starts the generator, so that the server log says at once what a DBA has to know, and the start margin of
//! a start without a mark has usually passed before the first call. While IDs are asked for, it extends the mark before
//! anybody comes near it. When none are, it sleeps until a backend wakes it. Without it everything works, but for a call
//! now and then that takes as long as the disk does (and for a mark that has to go through WAL, which
//! only the keeper can do).

use crate::config::gucs;
use crate::config::gucs::WalMark;
use crate::durable::mark::{self, LoggedMark};
use crate::durable::start::{self, Plan};
use crate::durable::{extend, wal};
use crate::errors::IssueError;
use crate::exit_hook::before_exit;
use crate::shared::shared;
use crate::shared::throttle::Throttle;
use crate::worker;
use crate::{sleep, trusted_clock};
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, SignalWakeFlags};
use pgrx::prelude::*;
use snowflake_core::layout::Layout;
use std::collections::HashMap;
use std::ffi::c_int;
use std::mem::{Discriminant, discriminant};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After how long the postmaster starts a keeper again that has ended.
const RESTART: Duration = Duration::from_secs(5);

/// How long the keeper waits after a failure before it tries again, whoever wakes it.
const RETRY: Duration = Duration::from_secs(1);

/// Asks the postmaster for a keeper. Only while preloading. Not for pg_upgrade, which drops the very database that the keeper
/// holds a session in; nothing is issued meanwhile.
pub fn register() {
    // SAFETY: set once, when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } {
        return;
    }
    BackgroundWorkerBuilder::new("snowflake_pg keeper")
        .set_library("snowflake_pg")
        .set_function("snowflake_pg_keeper")
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(RESTART))
        .enable_spi_access()
        .load();
}

/// Where the keeper begins.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_pg_keeper(_argument: pg_sys::Datum) {
    handle_signals();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    let Ok((layout, _)) = worker::layout_and_series() else { return };
    // SAFETY: set when the process started.
    let latch = unsafe { pg_sys::MyLatch };
    shared().set_keeper(latch);
    before_exit(|_code| shared().set_keeper(std::ptr::null_mut()));
    wal::connect();
    Keeper { layout, issued: 0, next: None, throttles: HashMap::new(), has_read: false }.run();
}

/// Takes SIGTERM as backends do: pgrx's own handler is not noticed where PostgreSQL waits for a synchronous standby. Takes no
/// notice of SIGINT, which would end that wait without an answer.
fn handle_signals() {
    #[pg_guard]
    unsafe extern "C-unwind" fn die(_signal: c_int) {
        // What is interrupted may be about to look at its error.
        // SAFETY: asks where this thread's own error is.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: lies there as long as the thread lives.
        let interrupted = unsafe { *errno };
        // SAFETY: flags for signal handlers to set.
        unsafe { pg_sys::InterruptPending = 1 };
        // SAFETY: the same.
        unsafe { pg_sys::ProcDiePending = 1 };
        // SAFETY: set when the process started.
        let latch = unsafe { pg_sys::MyLatch };
        // SAFETY: a process's own latch may be set in a handler.
        unsafe { pg_sys::SetLatch(latch) };
        // SAFETY: as above.
        unsafe { *errno = interrupted };
    }
    #[pg_guard]
    unsafe extern "C-unwind" fn ignore(_signal: c_int) {}
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
    use pg_sys::pqsignal;
    #[cfg(feature = "pg18")]
    use pg_sys::pqsignal_be as pqsignal;
    // SAFETY: the handler does nothing but what a handler may.
    unsafe { pqsignal(c_int::try_from(pg_sys::SIGTERM).expect("a signal"), Some(die)) };
    // SAFETY: the same.
    unsafe { pqsignal(c_int::try_from(pg_sys::SIGINT).expect("a signal"), Some(ignore)) };
}

/// Sleeps for this time, whoever wants something: backends that wait for the keeper wake it again and again.
fn rest(time: Duration) {
    let until = Instant::now() + time;
    while let Some(remaining) = until.checked_duration_since(Instant::now()) {
        sleep::on_latch(Some(remaining), pg_sys::PG_WAIT_EXTENSION);
        end_if_told();
    }
}

/// Ends the keeper if it was told to.
fn end_if_told() {
    // SAFETY: a flag of this process.
    if unsafe { pg_sys::ProcDiePending } != 0 {
        // Without a FATAL in the server log at every shutdown. After 0 the postmaster would not start a keeper again.
        // SAFETY: nothing is held here.
        unsafe { pg_sys::proc_exit(1) };
    }
}

struct Keeper {
    layout: Layout,
    /// IDs issued when the keeper looked last.
    issued: u64,
    /// When it wants to look again.
    next: Option<Instant>,
    /// What was in the way.
    throttles: HashMap<Discriminant<IssueError>, Throttle>,
    /// Whether there was a sequence when the keeper looked.
    has_read: bool,
}

impl Keeper {
    fn run(&mut self) {
        loop {
            end_if_told();
            pgrx::check_for_interrupts!();
            if BackgroundWorker::sighup_received() {
                // SAFETY: called by the main loop of a background worker, as PostgreSQL's own do.
                unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
            }
            match self.work() {
                Ok(next) => {
                    shared().keeper_error.store(0, Ordering::Relaxed);
                    sleep::on_latch(next, pg_sys::PG_WAIT_EXTENSION);
                }
                Err(error) => {
                    shared().keeper_error.store(error.os_error().unwrap_or(0), Ordering::Relaxed);
                    self.log(error);
                    rest(RETRY);
                }
            }
        }
    }

    /// Does what is to be done, and says when to look again; `None` is when somebody asks.
    fn work(&mut self) -> Result<Option<Duration>, IssueError> {
        let generator = &shared().generator;
        let issued = generator.counts().issued;
        let wanted = shared().wanted.load(Ordering::Relaxed) > generator.covered_until();
        let started = generator.is_started();
        if started && issued == self.issued && !wanted {
            // Woken before its time it looks again then: IDs may be asked for in a moment.
            return Ok(self.next.and_then(|next| next.checked_duration_since(Instant::now())));
        }
        self.issued = issued;
        // A backend that has just extended the mark wakes the keeper to go on from there.
        if !started || wanted || wal::is_wanted() || self.is_due() {
            self.extend(started)?;
        }
        let period = Duration::from_millis(gucs::reserve_ahead_ms() / 2);
        self.next = Some(Instant::now() + period);
        Ok(Some(period))
    }

    /// Whether a fair part of the reservation is used up.
    fn is_due(&self) -> bool {
        let mark = self.layout.time_of(shared().generator.covered_until());
        let latest = trusted_clock::now_ms(&self.layout).max(shared().last_timestamp(&self.layout));
        mark.saturating_sub(latest) < gucs::reserve_ahead_ms() * 3 / 4
    }

    /// Starts the generator, or extends the mark; through WAL before, where it has to go there.
    fn extend(&mut self, started: bool) -> Result<(), IssueError> {
        let (layout, shared) = (&self.layout, shared());
        if wal::is_wanted() && !self.has_read {
            self.has_read = wal::read_mark();
            if !self.has_read {
                return self.without_sequence(started);
            }
        }
        let limit = shared.generator.covered_until();
        let needed = || shared.generator.last_tick().max(shared.wanted.load(Ordering::Relaxed).saturating_sub(1));
        let (now, tick, plan) = if started {
            (trusted_clock::now_ms(layout), needed(), None)
        } else {
            let plan = start::plan()?;
            (plan.now, plan.first_tick(layout), Some(plan))
        };
        let mut logged = None;
        if wal::is_wanted() && !plan.as_ref().is_some_and(Plan::is_pending) {
            let mark = mark::wanted(layout, tick, now)?;
            let began = Instant::now();
            if !wal::write_mark(mark) {
                return self.without_sequence(started);
            }
            // A wait for a synchronous standby also ends when the process has to. Then nobody has acknowledged the mark.
            end_if_told();
            logged = Some(LoggedMark { mark, took: began.elapsed() });
        }
        // Anew: a call that has ended meanwhile must not find the mark where it wanted it.
        extend::keep(layout, needed(), limit, logged, plan.filter(|_| logged.is_some()))
    }

    /// Goes on where the extension was not created in the database of the sequence: unless the mark is required there.
    fn without_sequence(&mut self, started: bool) -> Result<(), IssueError> {
        if gucs::wal_mark() == WalMark::Require {
            return Err(IssueError::NoSequence(gucs::wal_mark_database()));
        }
        self.log(IssueError::NoSequence(gucs::wal_mark_database()));
        let generator = &shared().generator;
        let tick = if started { generator.last_tick() } else { 0 };
        extend::keep(&self.layout, tick, generator.covered_until(), None, None)
    }

    /// Logs what is in the way, each thing once a minute.
    fn log(&mut self, error: IssueError) {
        if self.throttles.entry(discriminant(&error)).or_default().is_due() {
            error.log(PgLogLevel::WARNING);
        }
    }
}
