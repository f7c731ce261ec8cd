//! I2: the generator starts at or above the mark that it finds, or not at all. [`snowflake_core::start_table`] decides.

use crate::config::gucs::{self, WalMark};
use crate::durable::state_file::StateDirectory;
use crate::durable::{directory_lock, identity, lease, life_file, lock, mark, wal};
use crate::errors::{IssueError, StateFileError, warning};
use crate::shared::shared;
use crate::trusted_clock;
use crate::worker;
use pgrx::{PgLogLevel, log, pg_sys};
use snowflake_core::identity::{Identity, Numbers};
use snowflake_core::layout::Layout;
use snowflake_core::lease::LeaseStart;
use snowflake_core::life::LastLife;
use snowflake_core::record::{OtherMarks, Record};
use snowflake_core::start_table::{StartContext, StartPoint, StartReason, decide};
use snowflake_core::{Tick, UnixMs, display_time};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What matters at a start, apart from the record. What is wrong with WAL is told when marks are written there, unless
/// they must go there.
pub fn context(own: &Identity, now: UnixMs, last_life: Option<LastLife>) -> Result<StartContext, IssueError> {
    let mut in_wal = match wal::read(own.numbers) {
        Err(failure) if gucs::wal_mark() == WalMark::Require => return Err(failure),
        found => found.unwrap_or_default(),
    };
    // Not what this server itself has written there in a start that then has failed: each would begin further ahead.
    let [found, logged] = [0, 1].map(|i| shared().unfinished_start[i].load(Ordering::Relaxed));
    if logged > 0 && in_wal.mark == Some(logged) {
        in_wal.mark = Some(found).filter(|&mark| mark > 0);
    }
    let lease = shared().lease.start();
    Ok(StartContext { wal: Some(in_wal), lease, ..context_without_lease(&own.layout, now, last_life) })
}

/// What matters without a registry, and without what WAL knows.
fn context_without_lease(layout: &Layout, now: UnixMs, last_life: Option<LastLife>) -> StartContext {
    StartContext {
        now,
        start_margin_ms: gucs::start_margin_ms(layout),
        wal: None,
        was_standby: worker::starts_as_standby(),
        last_life,
        lease: None,
    }
}

/// What the clock shows at a start that finds this record.
pub fn now_at_start(found: Option<&Record>) -> UnixMs {
    trusted_clock::now_ms_above(found.map_or(0, |record| record.mark))
}

/// An error during pg_upgrade and recovery.
pub fn check_may_start() -> Result<(), IssueError> {
    // SAFETY: set once, when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } {
        return Err(IssueError::BinaryUpgrade);
    }
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Err(IssueError::InRecovery);
    }
    Ok(())
}

/// What a start has found, and where IDs begin.
pub struct Plan {
    directory: StateDirectory,
    own: Identity,
    found: Option<Record>,
    /// What the clock shows.
    pub now: UnixMs,
    /// Where IDs begin.
    start_point: StartPoint,
    /// The last life of this data directory.
    last_life: Option<LastLife>,
}

impl Plan {
    /// The first tick. Tick 0 is never issued: a generator that has not been started holds position 0.
    fn first_tick(&self, layout: &Layout) -> Tick {
        layout.first_tick_from(self.start_point.floor).max(1)
    }

    /// Whether there is no certain mark, and the start margin has not passed; or one that was reset to far ahead.
    fn is_pending(&self) -> bool {
        if self.now < shared().reset_not_before.load(Ordering::Relaxed) {
            return true;
        }
        let start_not_before = shared().start_not_before.load(Ordering::Relaxed);
        self.start_point.reason.relies_on_clock() && (start_not_before == 0 || self.now < start_not_before)
    }
}

/// The time before which nothing is issued, of a server that waits for it; 0 if none does.
pub fn not_before() -> UnixMs {
    let [start, reset] = [&shared().start_not_before, &shared().reset_not_before];
    start.load(Ordering::Relaxed).max(reset.load(Ordering::Relaxed))
}

/// The error of a call that cannot wait for that time.
pub fn pending(now: UnixMs, until: UnixMs) -> IssueError {
    let was_reset = shared().reset_not_before.load(Ordering::Relaxed) > 0;
    IssueError::StartPending { now, until, was_reset }
}

/// Reads the mark, and decides by the start table where IDs begin.
pub fn plan() -> Result<Plan, IssueError> {
    plan_at(now_at_start)
}

fn plan_at(now: impl FnOnce(Option<&Record>) -> UnixMs) -> Result<Plan, IssueError> {
    let directory = lock_directory()?;
    decide_in(directory, now).inspect_err(|_| let_others_lock())
}

/// The state directory, which this server has locked.
pub fn lock_directory() -> Result<StateDirectory, IssueError> {
    check_may_start()?;
    let directory = StateDirectory::open(&gucs::state_directory())?;
    directory_lock::take(&directory)?;
    Ok(directory)
}

/// The mark of this server, of whichever worker; 0 if it has none.
pub fn own_mark(directory: &StateDirectory) -> Result<UnixMs, IssueError> {
    let inode = directory.inode()?;
    let found = directory.read()?.filter(|record| record.identity.directory.same_inode(&inode));
    Ok(found.map_or(0, |record| record.mark))
}

/// A worker that this server must not have, since it seems to be a copy or a promoted standby of one that has it.
pub fn worker_of_original(directory: &StateDirectory) -> Result<Option<Numbers>, IssueError> {
    let found = match directory.read() {
        Err(StateFileError::Damaged { .. }) => return Ok(None),
        found => found?,
    };
    let Some(record) = found else { return Ok(None) };
    let own = identity::of(directory.inode()?, record.identity.numbers)?;
    let context = context_without_lease(&own.layout, now_at_start(Some(&record)), life_file::read(directory)?);
    let is_own = own.directory.same_inode(&record.identity.directory) && decide(Some(&record), &own, &context).is_ok();
    Ok((!is_own).then_some(record.identity.numbers))
}

/// Where a server begins that has found a lease of its own of this worker; `None` if it cannot go on with that, since its
/// mark is lost, damaged or not its own. Without what WAL knows.
pub fn with_lease(
    directory: &StateDirectory,
    numbers: Numbers,
    begins: UnixMs,
) -> Result<Option<LeaseStart>, IssueError> {
    let own = identity::of(directory.inode()?, numbers)?;
    let last_life = life_file::read(directory)?;
    let found = match directory.read() {
        Err(StateFileError::Damaged { .. }) => return Ok(None),
        found => found?,
    };
    let context = context_without_lease(&own.layout, now_at_start(found.as_ref()), last_life);
    let has_begun = found.is_some_and(|record| record.mark_of(numbers) > 0)
        || last_life.is_some_and(|last| last.life.numbers == numbers);
    if !has_begun {
        return Ok(Some(LeaseStart::First(begins)));
    }
    let start = decide(found.as_ref(), &own, &context);
    Ok(start.is_ok_and(|start| !start.reason.relies_on_clock()).then_some(LeaseStart::Continued(begins)))
}

/// Where IDs begin with the record in a directory that this server has locked.
fn decide_in(directory: StateDirectory, now: impl FnOnce(Option<&Record>) -> UnixMs) -> Result<Plan, IssueError> {
    lease::start()?;
    let own = identity::own(directory.inode()?)?;
    // Before the record, which is written first: another process may start the generator now.
    let last_life = life_file::read(&directory)?;
    let found = directory.read()?;
    let now = now(found.as_ref());
    let context = context(&own, now, last_life)?;
    match decide(found.as_ref(), &own, &context) {
        Ok(mut start_point) => {
            let start_not_before = shared().start_not_before.load(Ordering::Relaxed);
            if start_point.reason.relies_on_clock() && start_not_before > 0 {
                // A mark that has come meanwhile counts, too.
                let known =
                    found.map_or(0, |record| record.mark_of(own.numbers)).max(context.wal.map_or(0, |wal| wal.rest));
                start_point.floor = start_not_before.max(known);
            }
            // Not by the clock, and not by what this server has issued.
            let is_pushed = start_point.floor > found.map_or(0, |record| record.mark_of(own.numbers));
            let has_tick = own.layout.first_tick_from(start_point.floor) <= own.layout.last_tick();
            if is_pushed && !has_tick && own.layout.tick_at(now).is_ok() {
                return Err(IssueError::LayoutEndsBefore { layout: own.layout, begin: start_point.floor });
            }
            Ok(Plan { directory, own, found, now, start_point, last_life })
        }
        Err(conflict) => Err(IssueError::MarkConflict { conflict, found: found.map(Box::new), own: Box::new(own) }),
    }
}

/// Gives the lock on the directory up: a server that may not begin must not keep another one from it. Unless a process
/// of this server is just about to begin.
pub fn let_others_lock() {
    if let Some(_lock) = lock::try_take()
        && !shared().generator.is_started()
    {
        directory_lock::release();
    }
}

/// Under the lock: starts the generator above everything that this server may have issued before.
///
/// The first mark must be on disk before that. A directory that cannot be written may be the wrong one, and the right
/// one, with the right mark, may come back. For the same reason a server without a mark waits until its clock has
/// passed the start margin, instead of going ahead of the clock. It writes no mark meanwhile, so that it waits again
/// after a crash.
pub fn start(layout: &Layout, now: UnixMs) -> Result<WriteOutcome, IssueError> {
    start_from(plan_at(|_| now)?, layout, now).inspect_err(|_| directory_lock::release())
}

fn start_from(plan: Plan, layout: &Layout, now: UnixMs) -> Result<WriteOutcome, IssueError> {
    let shared = shared();
    if plan.is_pending() {
        let until = not_before();
        if until > 0 {
            return Ok(WriteOutcome::Pending(until));
        }
        directory_lock::sign(&plan.directory);
        shared.start_not_before.store(plan.start_point.floor, Ordering::Relaxed);
        return Ok(WriteOutcome::Found(plan.start_point));
    }
    let now_tick = layout.tick_at(now).map_err(|error| IssueError::Clock(now, error))?;
    let first = plan.first_tick(layout);
    let wanted = mark::wanted(layout, first, now)?;
    let began = Instant::now();
    let mark = log_first(layout, plan.own.numbers, wanted)?;
    if mark <= layout.time_of(first) {
        return Err(lease::ended());
    }
    if !wal::is_wanted() && wal::read(plan.own.numbers).is_ok_and(|in_wal| in_wal.mark.is_some()) {
        wal::forget(plan.own.numbers)?;
    }
    let Plan { directory, own, found, start_point, last_life, .. } = plan;
    let others = found.map_or_else(OtherMarks::default, |found| found.others_beside(own.numbers));
    let life = life_file::new_number();
    let previous_life = last_life.map_or(0, |last| last.life.number);
    let record = Record { revision: 0, life, previous_life, mark, logged: 0, identity: own, others };
    let written = mark::persist_first(&directory, found.as_ref(), record, last_life, began)?;
    directory_lock::sign(&directory);
    shared.directory[0].store(written.number, Ordering::Relaxed);
    shared.directory[1].store(written.born_ns, Ordering::Relaxed);
    // From now on a clock that is set back is only behind.
    let was_pending = shared.start_not_before.swap(0, Ordering::Relaxed) > 0;
    shared.reset_not_before.store(0, Ordering::Relaxed);
    shared.unfinished_start[1].store(0, Ordering::Relaxed);
    shared.generator.start(first, now_tick);
    mark::publish(layout, first, now, mark);
    Ok(match start_point.reason {
        _ if was_pending => WriteOutcome::Done,
        StartReason::Restart if !written.same_inode(&own.directory) => WriteOutcome::FoundBelow(start_point),
        _ => WriteOutcome::Found(start_point),
    })
}

/// Takes the first mark to WAL. What an attempt has written there that has failed afterwards is not written again.
fn log_first(layout: &Layout, numbers: Numbers, mark: UnixMs) -> Result<UnixMs, IssueError> {
    let [found, logged] = &shared().unfinished_start;
    let before = logged.load(Ordering::Relaxed);
    if before >= mark {
        return Ok(mark.min(lease::limit(layout)));
    }
    if wal::is_wanted() && before == 0 {
        let in_wal = wal::read(numbers).unwrap_or_default();
        found.store(in_wal.mark.unwrap_or(0), Ordering::Relaxed);
        shared().in_wal.store(in_wal.highest(), Ordering::Relaxed);
    }
    let mark = mark::log(layout, numbers, mark)?;
    logged.store(if wal::is_wanted() { wal::known_mark() } else { 0 }, Ordering::Relaxed);
    Ok(mark)
}

/// What was done under the lock.
pub enum WriteOutcome {
    /// IDs begin here. To be logged.
    Found(StartPoint),
    /// The same, and the mark comes from the lower layer of an overlay file system.
    FoundBelow(StartPoint),
    /// Nothing may be issued before this time.
    Pending(UnixMs),
    /// There is nothing to log and nothing to wait for.
    Done,
}

/// Logs where IDs begin, and returns the time to wait for. Not under the lock: a client that receives log messages and
/// does not read them must not block others.
pub fn log_start(written: WriteOutcome) -> Option<UnixMs> {
    match written {
        WriteOutcome::Found(start_point) => {
            log_start_point(start_point);
            warn_if_not_locked();
            None
        }
        WriteOutcome::FoundBelow(start_point) => {
            log_start_point(start_point);
            warn_of_lower_layer();
            warn_if_not_locked();
            None
        }
        WriteOutcome::Pending(until) => Some(until),
        WriteOutcome::Done => None,
    }
}

fn log_start_point(StartPoint { floor, reason }: StartPoint) {
    let time = display_time(floor);
    let (level, found, detail) = match reason {
        StartReason::Restart => return log!("snowflake_pg: durable mark found, IDs begin at {time} or later"),
        StartReason::Missing | StartReason::OtherWorker if shared().lease.start().is_some() => {
            return log!(
                "snowflake_pg: IDs begin at {time}, of a worker that the registry had leased to nobody before"
            );
        }
        StartReason::Leased => {
            return log!("snowflake_pg: IDs begin at {time} or later, above those of the worker's last lease");
        }
        StartReason::WalMark => return log!("snowflake_pg: durable mark found in WAL, IDs begin at {time}"),
        StartReason::Continued => (
            PgLogLevel::LOG,
            "durable mark found in WAL that is above the one in the state directory",
            "The server was killed while it wrote the mark, the data directory was restored, or another server has continued \
             from this one. ",
        ),
        StartReason::WalSetBack => (
            PgLogLevel::LOG,
            "durable mark in WAL is not as high as this server knew it",
            "WAL was lost, or its file with the mark. ",
        ),
        StartReason::Missing => (PgLogLevel::LOG, "no durable mark found", ""),
        StartReason::OtherWorker => (PgLogLevel::LOG, "durable mark of another worker found", ""),
        StartReason::Restored => (
            PgLogLevel::LOG,
            "durable mark found that this data directory did not write",
            "The data directory was restored or moved. ",
        ),
        StartReason::Promotion => (PgLogLevel::LOG, "durable mark of an older timeline found", ""),
        StartReason::Moved => (
            PgLogLevel::LOG,
            "durable mark found that was written in another directory",
            "It is an old one if it was copied while the server ran. ",
        ),
        StartReason::NewerRecord => (
            PgLogLevel::WARNING,
            "durable mark found that is newer than the data directory",
            "The data directory was put back to an earlier state, or another server with a copy of it has written here. ",
        ),
    };
    // A backup that was restored with its own WAL has an old mark there, too.
    let wal_may_be_old = matches!(reason, StartReason::Restored | StartReason::WalSetBack);
    let relies_on_clock = reason.relies_on_clock() || wal_may_be_old;
    let clock =
        "This is above all earlier IDs of this worker if the clock was right when they were issued, and is right now.";
    let detail = format!("{detail}{}", if relies_on_clock { clock } else { "" });
    let message = warning(&format!("{found}, IDs begin at {time}"));
    let message = if detail.is_empty() { message } else { message.set_detail(detail.trim_end()) };
    let or_absolute =
        if gucs::state_directory().is_absolute() { "" } else { ", or an absolute snowflake_pg.state_directory" };
    let message = match gucs::wal_mark() {
        WalMark::Off if relies_on_clock => message.set_hint(format!(
            "So that a server finds its own mark, also after pg_rewind or a new base backup, set snowflake_pg.wal_mark = \
             prefer on all servers{or_absolute}."
        )),
        _ => message,
    };
    message.report(level);
}

/// The postmaster could not open the directory, for a reason that has gone since.
fn warn_if_not_locked() {
    if !directory_lock::is_possible() {
        warning("the state directory is not locked")
            .set_detail("It could not be opened when the server started. Another server may use it at the same time.")
            .set_hint("Restart the server.")
            .report(PgLogLevel::WARNING);
    }
}

/// All containers of an image find the same mark, and the same worker ID if that is in the image.
fn warn_of_lower_layer() {
    warning("the state directory was copied up from the lower layer of a file system")
    .set_detail(format!(
        "Another server that is made of the same layer, with snowflake_pg.worker_id = {} as well, issues the same IDs.",
        gucs::worker_id()
    ))
    .set_hint("Give each container of an image a snowflake_pg.worker_id of its own.")
    .report(PgLogLevel::WARNING);
}
