//! What backends want of the keeper, and how long they wait for it.

use crate::config::gucs::{self, WalMark};
use crate::config::preload;
use crate::durable::{lock, mark, start, wal};
use crate::errors::IssueError;
use crate::exit_hook::before_exit;
use crate::shared::shared;
use crate::trusted_clock;
use once_cell::sync::OnceCell;
use snowflake_core::layout::Layout;
use snowflake_core::{Tick, UnixMs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a backend waits for the keeper to look, before it starts without.
const READING: Duration = Duration::from_secs(2);

/// How long a call waits for a mark at least, whatever `max_wait` says: WAL may have to reach another server.
const LEAST_WAIT: Duration = Duration::from_secs(2);

/// Lets a backend that is about to start the generator wait a moment for the keeper, which has to read the mark first.
pub fn wait_for_reading() {
    let until = Instant::now() + READING;
    while wal::known_mark().is_none() && Instant::now() < until {
        shared().wake_keeper();
        lock::wait_for_change(|| wal::known_mark().is_some(), Duration::from_millis(100));
    }
}

/// Before a DBA decides what the mark is to be: an error if WAL may know better, and nobody has looked.
pub fn must_be_read() -> Result<(), IssueError> {
    if !preload::is_done() || !wal::is_wanted() || shared().generator.is_started() {
        return Ok(());
    }
    start::check_may_start()?;
    wait_for_reading();
    if wal::known_mark().is_none() && gucs::wal_mark() == WalMark::Require {
        return Err(IssueError::MarkNotInWal(READING));
    }
    Ok(())
}

/// What this process wants the keeper to cover, for as long as it waits: a tick plus 1, or 0. Not in a [`Want`], for
/// the end of the process, which drops nothing.
static WANTED: AtomicU64 = AtomicU64::new(0);

/// A tick that a backend wants the keeper to cover, for as long as it waits.
struct Want(Tick);

impl Want {
    fn new(tick: Tick) -> Self {
        static AT_EXIT: OnceCell<()> = OnceCell::new();
        AT_EXIT.get_or_init(|| before_exit(|_code| give_up()));
        WANTED.store(tick + 1, Ordering::Relaxed);
        Self(tick)
    }

    /// Again and again, since another backend that gives up lowers the common word.
    fn post(&self) {
        shared().wanted.fetch_max(self.0 + 1, Ordering::Relaxed);
        shared().wake_keeper();
    }
}

impl Drop for Want {
    fn drop(&mut self) {
        give_up();
    }
}

/// A call that has ended must not have the mark go where it wanted it.
fn give_up() {
    let wanted = WANTED.swap(0, Ordering::Relaxed);
    if wanted > 0 {
        let _ = shared().wanted.compare_exchange(wanted, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Lets the keeper bring the generator to where it may issue `tick`. Returns until when the caller has to wait, like
/// [`extend::cover`](crate::durable::extend::cover).
pub fn ask_keeper(layout: &Layout, tick: Tick) -> Result<Option<UnixMs>, IssueError> {
    let shared = shared();
    if !shared.generator.is_started() {
        start::check_may_start()?;
        if wal::known_mark().is_some() {
            start::plan()?; // If it can't be started, this says why.
        }
    }
    let max_wait = max_wait();
    let until = Instant::now() + max_wait;
    let want = Want::new(tick);
    loop {
        let start_not_before = shared.start_not_before.load(Ordering::Relaxed);
        if trusted_clock::now_ms(layout) < start_not_before {
            return Ok(Some(start_not_before));
        }
        let covered = || tick < shared.generator.covered_until();
        if covered() {
            return Ok(None);
        }
        if Instant::now() >= until {
            return Err(match shared.keeper_error.load(Ordering::Relaxed) {
                0 => IssueError::MarkNotInWal(max_wait),
                error => mark::write_error(error).into(),
            });
        }
        want.post();
        lock::wait_for_change(covered, Duration::from_millis(100));
    }
}

/// How long a call waits for a mark.
pub fn max_wait() -> Duration {
    LEAST_WAIT.max(Duration::from_millis(gucs::max_wait_ms()))
}
