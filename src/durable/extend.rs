//! I1: the mark is extended before a timestamp is issued that it does not cover: by the backend that comes to it, early by the
//! one that comes near it, or by the keeper.

use crate::config::gucs::{self, WalMark};
use crate::durable::mark::{self, LoggedMark};
use crate::durable::start::{self, Plan, WriteOutcome};
use crate::durable::{lock, request};
use crate::errors::IssueError;
use crate::shared::shared;
use crate::trusted_clock;
use pgrx::PgLogLevel;
use snowflake_core::layout::Layout;
use snowflake_core::{Tick, UnixMs};
use std::sync::atomic::Ordering;

/// Brings the generator to where it may issue `tick`: starts it if need be, or extends the mark past the tick, or lets
/// another process do it. The caller has to try again afterwards, and before that, if a time is returned, to wait for it.
pub fn cover(layout: &Layout, tick: Tick) -> Result<Option<UnixMs>, IssueError> {
    if gucs::wal_mark() == WalMark::Require {
        return request::ask_keeper(layout, tick);
    }
    if gucs::wal_mark() == WalMark::Prefer && !shared().generator.is_started() {
        start::check_may_start()?;
        request::wait_for_reading();
    }
    let now = now(layout)?;
    let Some(lock) = lock::take_or_wait() else { return Ok(None) };
    let outcome = write(layout, tick, tick, now, None, None);
    drop(lock);
    // It goes on from here as long as IDs are asked for.
    shared().wake_keeper();
    outcome.map(start::log_start)
}

/// Extends the mark while there is still room between `tick` and `limit`, which it covers, unless somebody is at it. A
/// failure is only logged: at the limit it will be an error.
pub fn extend_early(layout: &Layout, tick: Tick, limit: Tick) {
    if gucs::wal_mark() == WalMark::Require {
        shared().wanted.fetch_max(limit + 1, Ordering::Relaxed);
    } else if let Err(error) = now(layout).and_then(|now| {
        let Some(lock) = lock::try_take() else { return Ok(()) };
        let outcome = write(layout, tick, limit, now, None, None);
        drop(lock);
        outcome.map(|_| ())
    }) {
        // Not to the client, which may be nobody who may know where the directory is.
        error.log(PgLogLevel::LOG_SERVER_ONLY);
    }
    shared().wake_keeper();
}

/// As the keeper: starts the generator if need be, by the plan for which the mark was chosen that has been through WAL; or
/// extends the mark, which covers what is below `limit`, past `tick`.
pub fn keep(
    layout: &Layout,
    tick: Tick,
    limit: Tick,
    logged: Option<LoggedMark>,
    planned: Option<Plan>,
) -> Result<(), IssueError> {
    let now = now(layout)?;
    if let Some(lock) = lock::take_or_wait() {
        let outcome = write(layout, tick, limit, now, logged, planned);
        drop(lock);
        start::log_start(outcome?);
    }
    Ok(())
}

/// What the clock shows, to be asked before the lock is taken: it may have to be warned of.
fn now(layout: &Layout) -> Result<UnixMs, IssueError> {
    if shared().generator.is_started() { Ok(trusted_clock::now_ms(layout)) } else { Ok(start::plan()?.now) }
}

/// Under the lock: starts the generator, or extends the mark.
fn write(
    layout: &Layout,
    tick: Tick,
    limit: Tick,
    now: UnixMs,
    logged: Option<LoggedMark>,
    planned: Option<Plan>,
) -> Result<WriteOutcome, IssueError> {
    if shared().generator.is_started() {
        mark::extend(layout, tick, limit, now, logged).map(|()| WriteOutcome::Done)
    } else {
        start::start(layout, now, logged, planned)
    }
}
