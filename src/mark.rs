//! Keeps the durable mark ahead of the IDs.
//!
//! Two rules make IDs unique on any clock and through any crash:
//!
//! - **I1**: every timestamp issued is below the mark on disk. So the mark is written first, and the generator is
//!   allowed to use it afterwards.
//! - **I2**: after every start of the generator, the first timestamp is at or above the mark that was read.
//!
//! The mark is written under a lock, once for everybody who waits for it: by the keeper while IDs are asked for, by the
//! backend that comes near it first, or by any that comes to it. No demand, no writes.

use crate::errors::{Refusal, StateFileError, StatePath, error};
use crate::gucs::WalMark;
use crate::shmem::{self, shared};
use crate::state_file::StateDirectory;
use crate::{gucs, identity, trusted_clock, wal_mark};
use pgrx::{PgLogLevel, ereport, log, pg_sys};
use snowflake_core::identity::{Beginning, Cause, Directory, Facts, Identity, Record, decide};
use snowflake_core::layout::{Layout, TimeError};
use snowflake_core::{Tick, UnixMs, display_time, reservation};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A mark that the keeper has taken through the write-ahead log.
pub struct Mirrored {
    /// The mark.
    pub mark: UnixMs,
    /// How long the log took.
    pub took: Duration,
    /// What it was chosen for, if the generator was not started.
    pub plan: Option<Plan>,
}

/// Brings the generator to where it may issue `tick`: starts it if need be, or extends the mark past the tick, or lets
/// another process do it. The caller has to try again afterwards, and before that, if a time is returned, to wait for it.
pub fn cover(layout: &Layout, tick: Tick) -> Result<Option<UnixMs>, Refusal> {
    if gucs::wal_mark() == WalMark::Require {
        return wal_mark::ask_keeper(layout, tick);
    }
    if gucs::wal_mark() == WalMark::Prefer && !shared().generator.is_started() {
        may_start()?;
        wal_mark::wait_for_reading();
    }
    let now = now(layout)?;
    let Some(lock) = shmem::lock_mark_or_wait() else { return Ok(None) };
    let outcome = write(layout, tick, tick, now, None);
    drop(lock);
    // It goes on from here as long as IDs are asked for.
    shared().wake_keeper();
    outcome.map(after_release)
}

/// Extends the mark while there is still room between `tick` and `limit`, which it covers, unless somebody is at it. A
/// failure is only logged: at the limit it will be an error.
pub fn extend_early(layout: &Layout, tick: Tick, limit: Tick) {
    if gucs::wal_mark() == WalMark::Require {
        shared().wanted.fetch_max(limit + 1, Ordering::Relaxed);
    } else if let Err(refusal) = now(layout).and_then(|now| {
        let Some(lock) = shmem::try_lock_mark() else { return Ok(()) };
        let outcome = write(layout, tick, limit, now, None);
        drop(lock);
        outcome.map(|_| ())
    }) {
        // Not to the client, which may be nobody who may know where the directory is.
        refusal.report(PgLogLevel::LOG_SERVER_ONLY);
    }
    shared().wake_keeper();
}

/// As the keeper: starts the generator if need be, or extends the mark, which covers what is below `limit`, past `tick`.
pub fn keep(layout: &Layout, tick: Tick, limit: Tick, mirrored: Option<Mirrored>) -> Result<(), Refusal> {
    let now = now(layout)?;
    if let Some(lock) = shmem::lock_mark_or_wait() {
        let outcome = write(layout, tick, limit, now, mirrored);
        drop(lock);
        after_release(outcome?);
    }
    Ok(())
}

/// What the clock says, to be asked before the lock is taken: it may have to be warned of.
fn now(layout: &Layout) -> Result<UnixMs, Refusal> {
    if shared().generator.is_started() { Ok(trusted_clock::now_ms(layout)) } else { Ok(plan()?.now) }
}

/// What was done under the lock.
enum Written {
    /// It was found where IDs begin; this has to be told.
    Found(Beginning),
    /// The same, and the mark came with the lower layer of a file system.
    FoundBelow(Beginning),
    /// Nothing may be issued before this time.
    Held(UnixMs),
    /// What could be done is done.
    Done,
}

/// Logs what was found: not under the lock, since a client that asks for log messages and does not read them must not hold
/// up everybody else.
fn after_release(written: Written) -> Option<UnixMs> {
    match written {
        Written::Found(beginning) => {
            tell(beginning);
            None
        }
        Written::FoundBelow(beginning) => {
            tell(beginning);
            warn_of_lower_layer();
            None
        }
        Written::Held(until) => Some(until),
        Written::Done => None,
    }
}

fn tell(Beginning { floor, cause }: Beginning) {
    let time = display_time(floor);
    let message = match cause {
        Cause::Restart => return log!("snowflake_pg: durable mark found, IDs begin at {time} or later"),
        Cause::Missing => return log!("snowflake_pg: no durable mark found, IDs begin at {time}"),
        Cause::Promotion => return log!("snowflake_pg: durable mark of an older timeline found, IDs begin at {time}"),
        // Nobody else issues IDs of a worker that this server alone has.
        Cause::OtherWorker => return log!("snowflake_pg: durable mark of another worker found, IDs begin at {time}"),
        Cause::PromotedCopy => "durable mark of another directory and an older timeline found",
    };
    ereport!(
        PgLogLevel::WARNING,
        pgrx::PgSqlErrorCode::ERRCODE_WARNING,
        format!("snowflake_pg: {message}, IDs begin at {time}"),
        "Its server must not issue IDs of this worker any more."
    );
}

/// Everything that is made of the same image finds the same mark, and the same worker if that is in the image, too.
fn warn_of_lower_layer() {
    error(
        pgrx::PgSqlErrorCode::ERRCODE_WARNING,
        "the state directory was copied up from the lower layer of a file system",
    )
    .set_detail(format!(
        "Another server that is made of the same layer, with snowflake_pg.worker_id = {} as well, issues the same IDs.",
        gucs::worker_id().unwrap_or(-1)
    ))
    .set_hint("Give each container of an image a snowflake_pg.worker_id of its own.")
    .report(PgLogLevel::WARNING);
}

/// Under the lock: starts the generator, or extends the mark past `tick`, if nobody has extended it past `limit` meanwhile.
fn write(
    layout: &Layout,
    tick: Tick,
    limit: Tick,
    now: UnixMs,
    mirrored: Option<Mirrored>,
) -> Result<Written, Refusal> {
    let shared = shared();
    if !shared.generator.is_started() {
        return start(layout, now, mirrored);
    }
    if shared.generator.covered_until() <= limit {
        let needed = tick.max(shared.generator.last_tick());
        let directory = StateDirectory::open(&gucs::state_directory())?;
        let own = identity::own(still_the_same(&directory)?)?;
        nobody_elses(&directory, &own)?;
        let Some(mark) = allowed(wanted(layout, needed, now)?, mirrored.as_ref()) else { return Ok(Written::Done) };
        persist(&directory, &Record { mark, identity: own }, log_time(mirrored))?;
        allow(layout, needed, now, mark);
    }
    Ok(Written::Done)
}

/// What matters at a start beside the record.
pub fn facts(layout: &Layout, now: UnixMs) -> Facts {
    Facts { now, guard_ms: gucs::guard_ms(layout), wal_mark: wal_mark::known() }
}

/// What the clock says at a start that finds this record.
pub fn now_at(found: Option<&Record>) -> UnixMs {
    trusted_clock::now_ms_above(found.map_or(0, |record| record.mark))
}

/// Refuses to start where nobody may.
pub fn may_start() -> Result<(), Refusal> {
    // SAFETY: set once, when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } {
        return Err(Refusal::BinaryUpgrade);
    }
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Err(Refusal::InRecovery);
    }
    Ok(())
}

/// What a start has found, and what follows from it.
pub struct Plan {
    directory: StateDirectory,
    own: Identity,
    found: Option<Record>,
    /// What the clock says.
    pub now: UnixMs,
    /// Where IDs begin.
    beginning: Beginning,
}

impl Plan {
    /// The first tick. Position 0 is what a generator holds that was not started, so tick 0 is never issued.
    pub fn first_tick(&self, layout: &Layout) -> Tick {
        layout.first_tick_from(self.beginning.floor).max(1)
    }

    /// Whether there is no mark, and the time has not come yet at which IDs begin without one.
    pub fn is_held(&self) -> bool {
        let hold_until = shared().hold_until.load(Ordering::Relaxed);
        self.beginning.cause == Cause::Missing && (hold_until == 0 || self.now < hold_until)
    }
}

/// Reads the mark, and decides by the start table where IDs begin, or why they can't.
pub fn plan() -> Result<Plan, Refusal> {
    plan_at(now_at)
}

fn plan_at(now: impl FnOnce(Option<&Record>) -> UnixMs) -> Result<Plan, Refusal> {
    may_start()?;
    let directory = StateDirectory::open(&gucs::state_directory())?;
    let own = identity::own(directory.identity()?)?;
    let found = directory.read()?;
    let now = now(found.as_ref());
    match decide(found.as_ref(), &own, facts(&own.layout, now)) {
        Ok(mut beginning) => {
            let hold_until = shared().hold_until.load(Ordering::Relaxed);
            if beginning.cause == Cause::Missing && hold_until > 0 {
                beginning.floor = hold_until;
            }
            Ok(Plan { directory, own, found, now, beginning })
        }
        Err(objection) => Err(Refusal::Objection { objection, found: found.map(Box::new), own: Box::new(own) }),
    }
}

/// Starts the generator above everything an earlier life of this server may have issued.
///
/// Not before the first mark of this life is on disk: a directory that can't be written may be the wrong one, and the
/// right one, with the right mark in it, may come back. For the same reason a server that finds no mark waits until its
/// clock has passed the floor, instead of going ahead of it: what it has issued by then, a right clock has passed, too.
/// Until then it writes nothing, so that a crash meanwhile makes it wait anew.
fn start(layout: &Layout, now: UnixMs, mut mirrored: Option<Mirrored>) -> Result<Written, Refusal> {
    let mut plan = plan_at(|_| now)?;
    let shared = shared();
    if plan.is_held() {
        let until = shared.hold_until.load(Ordering::Relaxed);
        if until > 0 {
            return Ok(Written::Held(until));
        }
        shared.hold_until.store(plan.beginning.floor, Ordering::Relaxed);
        return Ok(Written::Found(plan.beginning));
    }
    // Only time has passed while the log was written: then IDs begin where they were to, below the mark in it.
    if let Some(planned) = mirrored.as_mut().and_then(|mirrored| mirrored.plan.take())
        && (planned.found, planned.own) == (plan.found, plan.own)
    {
        plan.beginning = planned.beginning;
    }
    let now_tick = layout.tick_at(now).map_err(|error| Refusal::Clock(now, error))?;
    let first = plan.first_tick(layout);
    let Some(mark) = allowed(wanted(layout, first, now)?, mirrored.as_ref()) else { return Ok(Written::Done) };
    if mark <= layout.time_of(first) {
        return Err(outrun());
    }
    let Plan { directory, own, beginning, .. } = plan;
    let written = persist(&directory, &Record { mark, identity: own }, log_time(mirrored))?;
    shared.directory[0].store(written.inode, Ordering::Relaxed);
    shared.directory[1].store(written.born_ns, Ordering::Relaxed);
    // For good: a clock that is set back later is an ordinary one that is behind.
    let held = shared.hold_until.swap(0, Ordering::Relaxed) > 0;
    shared.generator.start(first, now_tick);
    allow(layout, first, now, mark);
    Ok(match beginning.cause {
        _ if held => Written::Done,
        Cause::Restart if !written.is(&own.directory) => Written::FoundBelow(beginning),
        _ => Written::Found(beginning),
    })
}

/// The mark that a server wants that needs this tick.
pub fn wanted(layout: &Layout, tick: Tick, now: UnixMs) -> Result<UnixMs, Refusal> {
    if tick > layout.last_tick() {
        return Err(Refusal::Clock(now, TimeError::AfterEnd { last: layout.last_time() }));
    }
    let reserve_ahead_ms = reservation::reserve_ms(gucs::reserve_ahead_ms(), gucs::max_borrow_ms(), last_writes_ms());
    let mark = layout.time_of(shared().generator.covered_until());
    Ok(reservation::next_mark(now, layout.time_of(tick), mark, reserve_ahead_ms).min(layout.end()))
}

/// The mark that may be written: with `require` none above what has been through the log, which may have taken a while.
/// (Less is wanted by then if the call has ended that wanted it.)
fn allowed(wanted: UnixMs, mirrored: Option<&Mirrored>) -> Option<UnixMs> {
    match (gucs::wal_mark(), mirrored) {
        (WalMark::Require, None) => None,
        (WalMark::Require, Some(mirrored)) => Some(wanted.min(mirrored.mark)),
        (_, mirrored) => Some(wanted.max(mirrored.map_or(0, |mirrored| mirrored.mark))),
    }
}

fn log_time(mirrored: Option<Mirrored>) -> Duration {
    mirrored.map_or(Duration::ZERO, |mirrored| mirrored.took)
}

/// How long the last two writes of the mark took, in milliseconds, the last one first.
fn last_writes_ms() -> [u64; 2] {
    [0, 1].map(|i| shared().last_writes_ms[i].load(Ordering::Relaxed))
}

/// Marks have passed before they were there.
pub fn outrun() -> Refusal {
    Refusal::Outrun {
        last_writes_ms: last_writes_ms(),
        reserve_ahead_ms: gucs::reserve_ahead_ms(),
        max_borrow_ms: gucs::max_borrow_ms(),
    }
}

/// A failure to write the mark that another process has met, by the operating system's number.
pub fn write_error(number: i32) -> StateFileError {
    let path = StatePath::directory(&gucs::state_directory());
    StateFileError::Io { action: "write the mark in", path, source: std::io::Error::from_raw_os_error(number) }
}

/// Makes a record durable, and notes how long that took, its way through the log included. Returns what
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
fn allow(layout: &Layout, needed: Tick, now: UnixMs, mark: UnixMs) {
    let early = reservation::early(now, layout.time_of(needed), mark);
    shared().generator.cover(layout.first_tick_from(early), layout.first_tick_from(mark));
}

/// The directory in which the mark of this life lies; an error if another one has taken its place.
pub fn still_the_same(directory: &StateDirectory) -> Result<Directory, Refusal> {
    let [inode, born_ns] = [0, 1].map(|i| shared().directory[i].load(Ordering::Relaxed));
    let found = directory.identity()?;
    if found.is(&Directory { inode, born_ns }) { Ok(found) } else { Err(Refusal::Replaced(directory.file())) }
}

/// An error if a record lies there by now that is another server's. One that was lost or damaged is replaced.
fn nobody_elses(directory: &StateDirectory, own: &Identity) -> Result<(), Refusal> {
    match directory.read() {
        Ok(Some(record)) if !record.identity.is(own) => Err(Refusal::Replaced(directory.file())),
        _ => Ok(()),
    }
}
