//! Writes the mark: how far ahead it goes, whose it must be, and how far the generator may go afterwards.
//!
//! Before each write, the record in the directory must be the one that this server wrote last, with its revision and
//! the number of its life. Otherwise another server writes there, or an old copy has taken the place of the file.

use crate::clock;
use crate::config::gucs::{self, WalMark};
use crate::durable::state_file::StateDirectory;
use crate::durable::{citus_group, identity, lease, life_file, wal};
use crate::errors::{IssueError, StateFileError, StatePath, summary};
use crate::shared::{Shared, shared};
use crate::sleep::{self, WaitEvent};
use pgrx::PgLogLevel;
use snowflake_core::identity::{Inode, Numbers};
use snowflake_core::layout::{Layout, TimeError};
use snowflake_core::life::{LastLife, Life};
use snowflake_core::policy::SequenceExhaustion;
use snowflake_core::record::{OtherMarks, Record};
use snowflake_core::reservation::{self, Extension};
use snowflake_core::{Tick, UnixMs};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Under the lock: extends the mark past `tick()`, unless another process has extended it past `limit`.
pub fn extend(layout: &Layout, tick: impl Fn() -> Tick, limit: Tick, now: UnixMs) -> Result<(), IssueError> {
    let generator = &shared().generator;
    if generator.covered_until() > limit {
        return Ok(());
    }
    let needed = || tick().max(generator.last_tick());
    let directory = StateDirectory::open(&gucs::state_directory())?;
    let identity = identity::own(check_unchanged(&directory)?)?;
    let found = read_own(&directory)?;
    let began = Instant::now();
    let mark = log(layout, identity.numbers, wanted(layout, needed(), now)?)?;
    // A call that has ended meanwhile must not move the mark to where it wanted it.
    let mark = mark.min(wanted(layout, needed(), now)?);
    let life = shared().life.load(Ordering::Relaxed);
    // If the record is lost, all other workers begin above the highest mark that one of them had.
    let lost = || OtherMarks::all_at(shared().others.load(Ordering::Relaxed));
    let others = found.map_or_else(lost, |found| found.others);
    let previous_life = found.map_or(0, |found| found.previous_life);
    let record = Record { revision: 0, life, previous_life, mark, logged: 0, identity, others };
    persist(&directory, found.as_ref(), record, began)?;
    publish(layout, needed(), now, mark);
    Ok(())
}

/// The mark that covers this tick, `reserve_ahead` ahead of the clock or more.
pub fn wanted(layout: &Layout, tick: Tick, now: UnixMs) -> Result<UnixMs, IssueError> {
    if tick > layout.last_tick() {
        return Err(IssueError::Clock(now, TimeError::AfterEnd { last: layout.last_time() }));
    }
    citus_group::check()?;
    let reserve_ahead_ms = reservation::reserve_ms(gucs::reserve_ahead_ms(), gucs::max_borrow_ms(), last_writes_ms());
    let mark = layout.time_of(shared().generator.covered_until());
    let next = this_extension(layout.time_of(tick), 0);
    let borrows_ticks = gucs::sequence_exhaustion() == SequenceExhaustion::Borrow;
    let borrow_ms = if borrows_ticks { gucs::max_borrow_ms() } else { 0 };
    let step_ms = reservation::step_ms(shared().last_extension(), next, now, gucs::reserve_ahead_ms(), borrow_ms);
    let mark = reservation::next_mark(now, next.needed, mark, reserve_ahead_ms, step_ms);
    // In ticks of the layout, so not beyond its end.
    let mark = layout.time_of(layout.first_tick_from(mark)).min(lease::limit(layout));
    if mark > layout.time_of(tick) { Ok(mark) } else { Err(lease::ended()) }
}

fn this_extension(needed: UnixMs, step_ms: u64) -> Extension {
    Extension { at: clock::microseconds(clock::since_boot()) / 1000, needed, step_ms }
}

/// Takes the mark of a worker to WAL, if marks go there. Returns the mark that may be written to the state directory: the
/// limit of a lease is lower meanwhile if the server stops.
///
/// Unless `wal_mark` requires it, a failure is only told.
pub fn log(layout: &Layout, numbers: Numbers, mark: UnixMs) -> Result<UnixMs, IssueError> {
    if wal::is_wanted() {
        let failure = match wal::write(numbers, *layout, mark) {
            Err(failure) if gucs::wal_mark() == WalMark::Require => return Err(failure),
            written => written.err(),
        };
        tell_of_wal(failure);
    }
    Ok(mark.min(lease::limit(layout)))
}

/// Shows in the view what is wrong with the mark in WAL, if anything is, and logs it once a minute.
fn tell_of_wal(failure: Option<IssueError>) {
    let Shared { wal_failure, wal_warnings, .. } = shared();
    match failure {
        Some(failure) => {
            wal_failure.write(&summary::log_recorded(failure, PgLogLevel::LOG_SERVER_ONLY, wal_warnings.is_due()));
        }
        None => wal_failure.write(""),
    }
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
    let path = if number < 0 {
        StatePath::data_directory(&gucs::data_directory())
    } else {
        StatePath::directory(&gucs::state_directory())
    };
    let source = std::io::Error::from_raw_os_error(number.abs());
    StateFileError::Io { action: "write file in directory", path, source }
}

/// Makes the first record of a life durable, and has the data directory keep that life. Returns what [`persist`]
/// returns.
///
/// The record comes first, and names the life before, too: whenever the server dies, the two fit. If there is no room
/// for the new life, the record stays as it is: a server that is started again and again must not raise its mark.
pub fn persist_first(
    directory: &StateDirectory,
    found: Option<&Record>,
    record: Record,
    last_life: Option<LastLife>,
    began: Instant,
) -> Result<Inode, StateFileError> {
    let revision = LastLife::revision_of_next(last_life, found);
    shared().revision.fetch_max(revision, Ordering::Relaxed);
    // WAL knows of this life if it has a mark that is as high as this.
    let wal_mark = if wal::is_wanted() { record.mark } else { 0 };
    let life = Life { number: record.life, revision, numbers: record.identity.numbers, wal_mark };
    life_file::prepare(life, record.identity.directory)?;
    let written = persist(directory, found, record, began)?;
    if !written.same_inode(&record.identity.directory) {
        life_file::prepare(life, written)?;
    }
    life_file::commit()?;
    Ok(written)
}

/// Makes a record durable after the one that was found, with the next revision and with what is known to be in WAL. Keeps
/// how long that took since then. Returns what [`StateDirectory::add`] returns.
pub fn persist(
    directory: &StateDirectory,
    found: Option<&Record>,
    record: Record,
    began: Instant,
) -> Result<Inode, StateFileError> {
    let shared = shared();
    let before = found.map_or(0, |found| found.revision);
    let revision = before.max(shared.revision.load(Ordering::Relaxed)) + 1;
    let logged = if wal::is_wanted() { wal::known_mark() } else { 0 };
    let record = Record { revision, logged, ..record };
    let failed_before = shared.write_failed.swap(true, Ordering::Relaxed);
    let add = !failed_before && before > 0 && revision == before + 1;
    let written =
        sleep::shown(WaitEvent::MarkWrite, || if add { directory.add(&record) } else { directory.replace(&record) })?;
    shared.write_failed.store(false, Ordering::Relaxed);
    shared.revision.store(revision, Ordering::Relaxed);
    shared.life.store(record.life, Ordering::Relaxed);
    shared.others.store(record.others.highest(), Ordering::Relaxed);
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX / 8);
    let [last, before] = &shared.last_writes_ms;
    before.store(last.swap(took, Ordering::Relaxed), Ordering::Relaxed);
    shared.statistics.mark_extensions.fetch_add(1, Ordering::Relaxed);
    Ok(written)
}

/// Lets the generator use a durable mark.
pub fn publish(layout: &Layout, needed: Tick, now: UnixMs, mark: UnixMs) {
    let needed = layout.time_of(needed);
    shared().keep_extension(this_extension(needed, mark.saturating_sub(needed)));
    let soft_limit = reservation::soft_limit(now, needed, mark);
    shared().generator.cover(layout.first_tick_from(soft_limit), layout.first_tick_from(mark));
}

/// The directory of the mark; an error if another directory has replaced it since the start.
pub fn check_unchanged(directory: &StateDirectory) -> Result<Inode, IssueError> {
    let [number, born_ns] = [0, 1].map(|i| shared().directory[i].load(Ordering::Relaxed));
    let found = directory.inode()?;
    if found.same_inode(&Inode { number, born_ns }) {
        Ok(found)
    } else {
        Err(IssueError::StateDirectoryReplaced(directory.file()))
    }
}

/// The record that this server wrote last; an error if there is another one. A lost or damaged record may be replaced,
/// and is `None`.
pub fn read_own(directory: &StateDirectory) -> Result<Option<Record>, IssueError> {
    let shared = shared();
    match directory.read() {
        Ok(Some(record)) => {
            // After a failure the record can be the one whose write has failed.
            let is_the_last = record.life == shared.life.load(Ordering::Relaxed)
                && record.revision >= shared.revision.load(Ordering::Relaxed);
            if is_the_last { Ok(Some(record)) } else { Err(IssueError::StateDirectoryReplaced(directory.file())) }
        }
        Ok(None) | Err(StateFileError::Damaged { .. }) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}
