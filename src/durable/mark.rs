//! Writes the mark: how far ahead it goes, whose it must be, and how far the generator may go afterwards.

use crate::config::gucs::{self, WalMark};
use crate::durable::identity;
use crate::durable::state_file::StateDirectory;
use crate::errors::{IssueError, StateFileError, StatePath};
use crate::shared::shared;
use crate::sleep::{self, WaitEvent};
use snowflake_core::identity::{Directory, Identity, Record};
use snowflake_core::layout::{Layout, TimeError};
use snowflake_core::{Tick, UnixMs, reservation};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A mark that is in WAL.
#[derive(Clone, Copy)]
pub struct LoggedMark {
    /// The mark.
    pub mark: UnixMs,
    /// How long it took to get there.
    pub took: Duration,
}

/// Under the lock: extends the mark past `tick`, unless another process has extended it past `limit`.
pub fn extend(
    layout: &Layout,
    tick: Tick,
    limit: Tick,
    now: UnixMs,
    logged: Option<LoggedMark>,
) -> Result<(), IssueError> {
    let generator = &shared().generator;
    if generator.covered_until() > limit {
        return Ok(());
    }
    let needed = tick.max(generator.last_tick());
    let directory = StateDirectory::open(&gucs::state_directory())?;
    let own = identity::own(check_unchanged(&directory)?)?;
    check_owner(&directory, &own)?;
    if let Some(mark) = writable(wanted(layout, needed, now)?, logged) {
        persist(&directory, &Record { mark, identity: own }, log_time(logged))?;
        publish(layout, needed, now, mark);
    }
    Ok(())
}

/// The mark that covers this tick, `reserve_ahead` ahead of the clock or more.
pub fn wanted(layout: &Layout, tick: Tick, now: UnixMs) -> Result<UnixMs, IssueError> {
    if tick > layout.last_tick() {
        return Err(IssueError::Clock(now, TimeError::AfterEnd { last: layout.last_time() }));
    }
    let reserve_ahead_ms = reservation::reserve_ms(gucs::reserve_ahead_ms(), gucs::max_borrow_ms(), last_writes_ms());
    let mark = layout.time_of(shared().generator.covered_until());
    Ok(reservation::next_mark(now, layout.time_of(tick), mark, reserve_ahead_ms).min(layout.end()))
}

/// The mark that may be written: with `wal_mark = require`, none above the mark in WAL. (That one is higher than the
/// wanted one if the call that needed it has ended meanwhile.)
pub fn writable(wanted: UnixMs, logged: Option<LoggedMark>) -> Option<UnixMs> {
    match (gucs::wal_mark(), logged) {
        (WalMark::Require, None) => None,
        (WalMark::Require, Some(logged)) => Some(wanted.min(logged.mark)),
        (_, logged) => Some(wanted.max(logged.map_or(0, |logged| logged.mark))),
    }
}

/// How long it took to write the mark to WAL.
pub fn log_time(logged: Option<LoggedMark>) -> Duration {
    logged.map_or(Duration::ZERO, |logged| logged.took)
}

/// How long the last two writes of the mark took, in milliseconds; the last one first.
fn last_writes_ms() -> [u64; 2] {
    [0, 1].map(|i| shared().last_writes_ms[i].load(Ordering::Relaxed))
}

/// The error when the clock overtakes each mark before it is on disk.
pub fn too_slow() -> IssueError {
    IssueError::MarkTooSlow {
        last_writes_ms: last_writes_ms(),
        reserve_ahead_ms: gucs::reserve_ahead_ms(),
        max_borrow_ms: gucs::max_borrow_ms(),
    }
}

/// The error of another process that could not write the mark, by its errno.
pub fn write_error(number: i32) -> StateFileError {
    let path = StatePath::directory(&gucs::state_directory());
    StateFileError::Io { action: "write file in directory", path, source: std::io::Error::from_raw_os_error(number) }
}

/// Makes a record durable, and records how long that took, with the time for WAL. Returns what
/// [`StateDirectory::write`] returns.
pub fn persist(directory: &StateDirectory, record: &Record, log: Duration) -> Result<Directory, StateFileError> {
    let began = Instant::now();
    let written = sleep::shown(WaitEvent::MarkWrite, || directory.write(record))?;
    let took = u64::try_from((log + began.elapsed()).as_millis()).unwrap_or(u64::MAX / 8);
    let [last, before] = &shared().last_writes_ms;
    before.store(last.swap(took, Ordering::Relaxed), Ordering::Relaxed);
    shared().statistics.mark_extensions.fetch_add(1, Ordering::Relaxed);
    Ok(written)
}

/// Lets the generator use a durable mark.
pub fn publish(layout: &Layout, needed: Tick, now: UnixMs, mark: UnixMs) {
    let soft_limit = reservation::soft_limit(now, layout.time_of(needed), mark);
    shared().generator.cover(layout.first_tick_from(soft_limit), layout.first_tick_from(mark));
}

/// The directory of the mark; an error if another directory has replaced it since the start.
pub fn check_unchanged(directory: &StateDirectory) -> Result<Directory, IssueError> {
    let [inode, born_ns] = [0, 1].map(|i| shared().directory[i].load(Ordering::Relaxed));
    let found = directory.identity()?;
    if found.same_directory(&Directory { inode, born_ns }) {
        Ok(found)
    } else {
        Err(IssueError::StateDirectoryReplaced(directory.file()))
    }
}

/// An error if the record in the directory is another server's. A lost or damaged record may be replaced.
fn check_owner(directory: &StateDirectory, own: &Identity) -> Result<(), IssueError> {
    match directory.read() {
        Ok(Some(record)) if !record.identity.same_source(own) => {
            Err(IssueError::StateDirectoryReplaced(directory.file()))
        }
        _ => Ok(()),
    }
}
