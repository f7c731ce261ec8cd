//! I2: the generator starts at or above the mark that is found, or not at all. What that follows from is the start table in
//! [`snowflake_core::identity`].

use crate::config::gucs;
use crate::durable::mark::{self, Mirrored};
use crate::durable::state_file::StateDirectory;
use crate::durable::{identity, wal};
use crate::errors::{IssueError, warning};
use crate::shared::shared;
use crate::trusted_clock;
use pgrx::{PgLogLevel, log, pg_sys};
use snowflake_core::identity::{Beginning, Cause, Facts, Identity, Record, decide};
use snowflake_core::layout::Layout;
use snowflake_core::{Tick, UnixMs, display_time};
use std::sync::atomic::Ordering;

/// What matters at a start beside the record.
pub fn facts(layout: &Layout, now: UnixMs) -> Facts {
    Facts { now, start_margin_ms: gucs::start_margin_ms(layout), wal_mark: wal::known() }
}

/// What the clock shows at a start that finds this record.
pub fn now_at(found: Option<&Record>) -> UnixMs {
    trusted_clock::now_ms_above(found.map_or(0, |record| record.mark))
}

/// Refuses to start where nobody may.
pub fn may_start() -> Result<(), IssueError> {
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

/// What a start has found, and what follows from it.
pub struct Plan {
    directory: StateDirectory,
    own: Identity,
    found: Option<Record>,
    /// What the clock shows.
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
pub fn plan() -> Result<Plan, IssueError> {
    plan_at(now_at)
}

fn plan_at(now: impl FnOnce(Option<&Record>) -> UnixMs) -> Result<Plan, IssueError> {
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
        Err(conflict) => Err(IssueError::MarkConflict { conflict, found: found.map(Box::new), own: Box::new(own) }),
    }
}

/// Under the lock: starts the generator above everything an earlier life of this server may have issued.
///
/// Not before the first mark of this life is on disk: a directory that can't be written may be the wrong one, and the
/// right one, with the right mark in it, may come back. For the same reason a server that finds no mark waits until its
/// clock has passed the floor, instead of going ahead of it: what it has issued by then, a right clock has passed, too.
/// Until then it writes nothing, so that a crash meanwhile makes it wait anew.
pub fn start(
    layout: &Layout,
    now: UnixMs,
    mirrored: Option<Mirrored>,
    planned: Option<Plan>,
) -> Result<Written, IssueError> {
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
    if let Some(planned) = planned
        && (planned.found, planned.own) == (plan.found, plan.own)
    {
        plan.beginning = planned.beginning;
    }
    let now_tick = layout.tick_at(now).map_err(|error| IssueError::Clock(now, error))?;
    let first = plan.first_tick(layout);
    let Some(mark) = mark::allowed(mark::wanted(layout, first, now)?, mirrored) else { return Ok(Written::Done) };
    if mark <= layout.time_of(first) {
        return Err(mark::too_slow());
    }
    let Plan { directory, own, beginning, .. } = plan;
    let written = mark::persist(&directory, &Record { mark, identity: own }, mark::log_time(mirrored))?;
    shared.directory[0].store(written.inode, Ordering::Relaxed);
    shared.directory[1].store(written.born_ns, Ordering::Relaxed);
    // For good: a clock that is set back later is an ordinary one that is behind.
    let held = shared.hold_until.swap(0, Ordering::Relaxed) > 0;
    shared.generator.start(first, now_tick);
    mark::allow(layout, first, now, mark);
    Ok(match beginning.cause {
        _ if held => Written::Done,
        Cause::Restart if !written.is(&own.directory) => Written::FoundBelow(beginning),
        _ => Written::Found(beginning),
    })
}

/// What was done under the lock.
pub enum Written {
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
pub fn after_release(written: Written) -> Option<UnixMs> {
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
    warning(&format!("{message}, IDs begin at {time}"))
        .set_detail("Its server must not issue IDs of this worker any more.")
        .report(PgLogLevel::WARNING);
}

/// Everything that is made of the same image finds the same mark, and the same worker if that is in the image, too.
fn warn_of_lower_layer() {
    warning("the state directory was copied up from the lower layer of a file system")
    .set_detail(format!(
        "Another server that is made of the same layer, with snowflake_pg.worker_id = {} as well, issues the same IDs.",
        gucs::worker_id().unwrap_or(-1)
    ))
    .set_hint("Give each container of an image a snowflake_pg.worker_id of its own.")
    .report(PgLogLevel::WARNING);
}
