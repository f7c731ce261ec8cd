//! Asks the keeper for a mark, and waits for it.

use crate::config::gucs;
use crate::durable::{mark, start};
use crate::errors::IssueError;
use crate::postgres::exit_hook::before_exit;
use crate::shared::optional::OptionalNumber;
use crate::shared::{mark_lock, shared};
use crate::trusted_clock;
use once_cell::sync::OnceCell;
use snowflake_core::id::layout::Layout;
use snowflake_core::{Tick, UnixMs};
use std::time::{Duration, Instant};

/// How long a call waits for a mark at least, even if `max_wait` is shorter: WAL may have to reach a standby.
const LEAST_WAIT: Duration = Duration::from_secs(2);

/// The tick that this process wants the keeper to cover. Outside of [`Want`], since a process that ends drops nothing.
static WANTED: OptionalNumber = OptionalNumber::new();

/// A tick that this backend wants the keeper to cover, until it is dropped.
struct Want(Tick);

impl Want {
    fn new(tick: Tick) -> Self {
        static AT_EXIT: OnceCell<()> = OnceCell::new();
        AT_EXIT.get_or_init(|| before_exit(|_code| give_up()));
        WANTED.set(tick);
        Self(tick)
    }

    /// Must be repeated: another backend that gives up lowers the shared value.
    fn post(&self) {
        shared().wanted.raise(self.0);
        shared().wake_keeper();
    }
}

impl Drop for Want {
    fn drop(&mut self) {
        give_up();
    }
}

/// A call that has ended must not move the mark any more.
fn give_up() {
    if let Some(wanted) = WANTED.take() {
        // mutant: want-given-up
        shared().wanted.clear(wanted);
    }
}

/// Has the keeper start the generator or extend the mark past `tick`. Returns like
/// [`extend::cover`](crate::durable::extend::cover).
pub fn ask_keeper(layout: &Layout, tick: Tick) -> Result<Option<UnixMs>, IssueError> {
    let shared = shared();
    check_may_begin()?;
    let max_wait = max_wait();
    let until = Instant::now() + max_wait;
    let want = Want::new(tick);
    loop {
        let not_before = shared.mark.not_before();
        if trusted_clock::now_ms(layout) < not_before {
            return Ok(Some(not_before));
        }
        let covered = || tick < shared.generator.covered_until();
        if covered() {
            return Ok(None);
        }
        if Instant::now() >= until {
            check_may_begin()?;
            let error = shared.keeper_error.get();
            return Err(error.map_or(IssueError::MarkNotInWal(max_wait), |error| mark::write_error(error).into()));
        }
        want.post();
        mark_lock::wait_for_change(covered, Duration::from_millis(100));
    }
}

/// The error, if the generator cannot be started. Only the keeper starts it.
fn check_may_begin() -> Result<(), IssueError> {
    if !shared().generator.is_started() {
        start::plan()?;
        start::let_others_lock();
    }
    Ok(())
}

/// How long a call waits for a mark.
pub fn max_wait() -> Duration {
    LEAST_WAIT.max(Duration::from_millis(gucs::max_wait_ms()))
}
