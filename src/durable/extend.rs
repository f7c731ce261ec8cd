//! I1: the mark is extended before a timestamp above it is issued. The keeper does it, or the backend that comes near
//! the mark, or the backend that reaches it.

use crate::config::gucs;
use crate::durable::{lease, mark, request, start};
use crate::errors::IssueError;
use crate::shared::{mark_lock, shared};
use crate::trusted_clock;
use pgrx::PgLogLevel;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::Begin;
use snowflake_core::{Tick, UnixMs};
use std::time::Instant;

/// Starts the generator or extends the mark past `tick`, or waits while another process does. The caller tries again
/// afterwards. If a time is returned, it waits for that time first.
pub fn cover(layout: &Layout, tick: Tick) -> Result<Option<UnixMs>, IssueError> {
    lease::wait_for_grant(layout, tick)?;
    if gucs::wal_mark().is_required() {
        return request::ask_keeper(layout, tick);
    }
    let now = now(layout)?;
    let Some(lock) = mark_lock::take_or_wait() else { return Ok(None) };
    let outcome = write(|| tick, tick, now);
    drop(lock);
    // The keeper continues from here while IDs are issued.
    shared().wake_keeper();
    Ok(outcome?.and_then(start::log_start))
}

/// Extends the mark while there is still room between `tick` and `limit`, unless another process holds the lock. A
/// failure is only logged: it becomes an error at the limit.
pub fn extend_early(layout: &Layout, tick: Tick, limit: Tick) {
    if gucs::wal_mark().is_required() {
        shared().wanted.raise(limit);
    } else if let Err(error) = now(layout).and_then(|now| {
        let Some(lock) = mark_lock::try_take() else { return Ok(()) };
        let since = Instant::now();
        let outcome = write(|| tick, limit, now);
        drop(lock);
        shared().statistics.count_mark_wait(since.elapsed());
        outcome.map(|_| ())
    }) {
        // Not to the client, who may not be allowed to know the directory. The registry client reports a lease that
        // ends.
        if !matches!(error, IssueError::Lease(_)) {
            error.log(PgLogLevel::LOG_SERVER_ONLY);
        }
    }
    shared().wake_keeper();
}

/// As the keeper: starts the generator, or extends the mark from `limit` past `tick()`.
pub fn start_or_extend(layout: &Layout, tick: impl Fn() -> Tick, limit: Tick) -> Result<(), IssueError> {
    let now = now(layout)?;
    if let Some(lock) = mark_lock::take_or_wait() {
        let outcome = write(tick, limit, now);
        drop(lock);
        outcome?.map(start::log_start);
    }
    Ok(())
}

/// What the clock shows. To be asked before the lock is taken, since it may log a warning.
fn now(layout: &Layout) -> Result<UnixMs, IssueError> {
    if shared().generator.is_started() { Ok(trusted_clock::now_ms(layout)) } else { Ok(start::plan()?.now) }
}

/// Under the lock: starts the generator, or extends the mark.
fn write(tick: impl Fn() -> Tick, limit: Tick, now: UnixMs) -> Result<Option<Begin>, IssueError> {
    let generator = &shared().generator;
    if !generator.is_started() {
        return start::start(now).map(Some);
    }
    // Unless another process has done so meanwhile.
    if generator.covered_until() <= limit {
        mark::open()?.extend(tick, now)?;
    }
    Ok(None)
}
