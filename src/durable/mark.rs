//! What it takes to write the mark: how far it goes, whose it must still be, and what the generator may do afterwards.

use crate::config::gucs::{self, WalMark};
use crate::durable::identity;
use crate::durable::state_file::StateDirectory;
use crate::errors::{IssueError, StateFileError, StatePath};
use crate::shared::shared;
use snowflake_core::identity::{Directory, Identity, Record};
use snowflake_core::layout::{Layout, TimeError};
use snowflake_core::{Tick, UnixMs, reservation};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A mark that has been through WAL.
#[derive(Clone, Copy)]
pub struct LoggedMark {
    /// The mark.
    pub mark: UnixMs,
    /// How long that took.
    pub took: Duration,
}

/// Under the lock: extends the mark past `tick`, if nobody has extended it past `limit` meanwhile.
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

/// The mark that a server wants that needs this tick.
pub fn wanted(layout: &Layout, tick: Tick, now: UnixMs) -> Result<UnixMs, IssueError> {
    if tick > layout.last_tick() {
        return Err(IssueError::Clock(now, TimeError::AfterEnd { last: layout.last_time() }));
    }
    let reserve_ahead_ms = reservation::reserve_ms(gucs::reserve_ahead_ms(), gucs::max_borrow_ms(), last_writes_ms());
    let mark = layout.time_of(shared().generator.covered_until());
    Ok(reservation::next_mark(now, layout.time_of(tick), mark, reserve_ahead_ms).min(layout.end()))
}

/// The mark that may be written: with `require` none above what has been through WAL, which may have taken a while.
/// (Less is wanted by then if the call has ended that wanted it.)
pub fn writable(wanted: UnixMs, logged: Option<LoggedMark>) -> Option<UnixMs> {
    match (gucs::wal_mark(), logged) {
        (WalMark::Require, None) => None,
        (WalMark::Require, Some(logged)) => Some(wanted.min(logged.mark)),
        (_, logged) => Some(wanted.max(logged.map_or(0, |logged| logged.mark))),
    }
}

/// How long the mark was on its way through WAL.
pub fn log_time(logged: Option<LoggedMark>) -> Duration {
    logged.map_or(Duration::ZERO, |logged| logged.took)
}

/// How long the last two writes of the mark took, in milliseconds, the last one first.
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

/// A failure to write the mark that another process has met, by the operating system's number.
pub fn write_error(number: i32) -> StateFileError {
    let path = StatePath::directory(&gucs::state_directory());
    StateFileError::Io { action: "write file in directory", path, source: std::io::Error::from_raw_os_error(number) }
}

/// Makes a record durable, and notes how long that took, its way through WAL included. Returns what
/// [`StateDirectory::write`] does.
pub fn persist(directory: &StateDirectory, record: &Record, log: Duration) -> Result<Directory, StateFileError> {
    let began = Instant::now();
    let written = directory.write(record)?;
    let took = u64::try_from((log + began.elapsed()).as_millis()).unwrap_or(u64::MAX / 8);
    let [last, before] = &shared().last_writes_ms;
    before.store(last.swap(took, Ordering::Relaxed), Ordering::Relaxed);
    shared().statistics.mark_extensions.fetch_add(1, Ordering::Relaxed);
    Ok(written)
}

/// Lets the generator use a mark that is durable.
pub fn publish(layout: &Layout, needed: Tick, now: UnixMs, mark: UnixMs) {
    let soft_limit = reservation::soft_limit(now, layout.time_of(needed), mark);
    shared().generator.cover(layout.first_tick_from(soft_limit), layout.first_tick_from(mark));
}

/// The directory in which the mark of this life lies; an error if another one has taken its place.
pub fn check_unchanged(directory: &StateDirectory) -> Result<Directory, IssueError> {
    let [inode, born_ns] = [0, 1].map(|i| shared().directory[i].load(Ordering::Relaxed));
    let found = directory.identity()?;
    if found.same_directory(&Directory { inode, born_ns }) {
        Ok(found)
    } else {
        Err(IssueError::StateDirectoryReplaced(directory.file()))
    }
}

/// An error if a record lies there by now that is another server's. One that was lost or damaged is replaced.
fn check_owner(directory: &StateDirectory, own: &Identity) -> Result<(), IssueError> {
    match directory.read() {
        Ok(Some(record)) if !record.identity.same_source(own) => {
            Err(IssueError::StateDirectoryReplaced(directory.file()))
        }
        _ => Ok(()),
    }
}
