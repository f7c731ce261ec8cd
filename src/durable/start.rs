//! I2: the generator starts at or above the mark that it finds, or not at all. [`snowflake_core::mark`] decides; this
//! file carries it out, and logs it.

use crate::config::gucs;
use crate::durable::state_file::StateDirectory;
use crate::durable::{directory_lock, mark};
use crate::errors::IssueError;
use crate::postgres::clock;
use crate::postgres::report::warning;
use crate::shared::{machine, mark_lock, shared};
use crate::stops;
use crate::trusted_clock;
use pgrx::{PgLogLevel, log, pg_sys};
use snowflake_core::mark::record::Record;
use snowflake_core::mark::start_table::{MarkConflict, StartPoint, StartReason};
use snowflake_core::mark::{Begin, Plan};
use snowflake_core::{UnixMs, display_time};

/// What the clock shows at a start that finds this record.
pub fn now_at_start(record: Option<&Record>) -> UnixMs {
    trusted_clock::now_ms_above(record.map_or(0, |record| record.mark))
}

/// An error during pg_upgrade and recovery.
pub fn check_may_start() -> Result<(), IssueError> {
    // SAFETY: set once, when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } {
        return Err(IssueError::BinaryUpgrade);
    }
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    // mutant: no-start-in-recovery
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Err(IssueError::InRecovery);
    }
    Ok(())
}

/// The error of a call that cannot wait until then.
pub fn pending(now: UnixMs, until: UnixMs) -> IssueError {
    let was_reset = shared().mark.is_reset();
    IssueError::StartPending { now, until, was_reset }
}

/// Reads the mark, and decides by the start table where IDs begin.
pub fn plan() -> Result<Plan, IssueError> {
    let mut server = mark::within(lock_directory()?)?;
    let planned = server.plan(|record| trusted_clock::since_server_start(now_at_start(record)));
    if matches!(planned, Err(IssueError::MarkConflict { conflict: MarkConflict::NotInWal, .. }))
        && let Some(_lock) = mark_lock::try_take()
    {
        // mutant: refusal-remembered
        server.remember_refusal()?;
    }
    let planned = if clone_in(&planned).is_some() { note_clone().and(planned) } else { planned };
    let planned = planned.and_then(|plan| {
        if plan.counts_from_clock() {
            check_clock()?;
        }
        Ok(plan)
    });
    // mutant: refused-lets-lock-go
    planned.inspect_err(|_| let_others_lock())
}

/// An error while the clock, whose last reading was [`now_at_start`], is not trusted: the machine may have been paused,
/// so that the old clock shows times of which another server has issued IDs.
pub fn check_clock() -> Result<(), IssueError> {
    // mutant: start-by-old-clock
    if shared().jump_guard.has_jumped() { Err(IssueError::ClockJumped(clock::unix_ms())) } else { Ok(()) }
}

/// The record with which a server was refused because its machine was cloned, if the record does not say so yet.
fn clone_in(planned: &Result<Plan, IssueError>) -> Option<Record> {
    match planned {
        Err(IssueError::MarkConflict { conflict: MarkConflict::OtherGeneration, record, .. }) => {
            record.as_deref().copied().filter(|record| !record.machine.is_some_and(|machine| machine.is_cloned()))
        }
        _ => None,
    }
}

/// Makes durable that this server was refused because its machine was cloned.
fn note_clone() -> Result<(), IssueError> {
    let Some(_lock) = mark_lock::try_take() else { return Ok(()) };
    let mut server = mark::within(lock_directory()?)?;
    // Another process may have accepted it meanwhile.
    // mutant: refused-clone-noted
    clone_in(&server.plan(|_| 0)).map_or(Ok(()), |record| server.note_clone_in(record))
}

/// The state directory, which this server has locked.
pub fn lock_directory() -> Result<StateDirectory, IssueError> {
    check_may_start()?;
    let directory = StateDirectory::open(&gucs::state_directory())?;
    directory_lock::take(&directory)?;
    Ok(directory)
}

/// Releases the lock on the directory, unless a process of this server is about to begin: a server that may not begin
/// must not keep the directory from another one.
pub fn let_others_lock() {
    if let Some(_lock) = mark_lock::try_take()
        && !shared().generator.is_started()
    {
        directory_lock::release();
    }
}

/// Under the lock: starts the generator above everything that this server may have issued before.
pub fn start(now: UnixMs) -> Result<Begin, IssueError> {
    stops::here("promotion-first-id");
    let begin = |directory| mark::within(directory)?.start(trusted_clock::since_server_start(now));
    lock_directory().and_then(begin).inspect_err(|_| directory_lock::release())
}

/// Logs where IDs begin, and returns the time to wait for. Not under the lock: a client that receives log messages and
/// does not read them must not block others.
pub fn log_start(begin: Begin) -> Option<UnixMs> {
    if let Begin::At { .. } = begin {
        warn_if_unwatched();
    }
    match begin {
        Begin::Pending(until) => return Some(until),
        Begin::At { was_pending: true, .. } => {}
        Begin::Waiting(point) => {
            log_start_point(point);
            warn_if_not_locked();
        }
        Begin::At { point, was_copied_up, .. } => {
            log_start_point(point);
            if was_copied_up && point.reason == StartReason::Restart {
                warn_of_lower_layer();
            }
            warn_if_not_locked();
        }
    }
    None
}

fn log_start_point(StartPoint { floor, reason }: StartPoint) {
    let time = display_time(floor);
    let (level, message, detail) = match reason {
        StartReason::Restart => return log!("snowflake_pg: durable mark found, IDs begin at {time}"),
        StartReason::Missing | StartReason::OtherWorker if shared().lease.start().is_some() => {
            return log!("snowflake_pg: IDs begin at {time}, with a worker that the registry had never leased before");
        }
        StartReason::Leased => {
            return log!("snowflake_pg: IDs begin at {time}, above those of the worker's last lease");
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
            "durable mark in WAL is lower than the one this server last saw there",
            "WAL, or the file with its mark, was lost. ",
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
            "The data directory was restored to an earlier state, or another server with a copy of it has written \
             here. ",
        ),
    };
    // A backup that was restored with its own WAL has an old mark there, too.
    let wal_may_be_old = matches!(reason, StartReason::Restored | StartReason::WalSetBack);
    let relies_on_clock = reason.relies_on_clock() || wal_may_be_old;
    let clock =
        "This is above all earlier IDs of this worker if the clock was right when they were issued, and is right now.";
    let detail = format!("{detail}{}", if relies_on_clock { clock } else { "" });
    let message = warning(&format!("{message}, IDs begin at {time}"));
    let message = if detail.is_empty() { message } else { message.set_detail(detail.trim_end()) };
    let or_absolute =
        if gucs::state_directory().is_absolute() { "" } else { ", or an absolute snowflake_pg.state_directory" };
    let message = if relies_on_clock && !gucs::wal_mark().is_written() {
        message.set_hint(format!(
            "Set snowflake_pg.wal_mark = prefer on all servers{or_absolute}, so that a server finds its own mark even \
             after pg_rewind or a new base backup."
        ))
    } else {
        message
    };
    message.report(level);
}

/// Warns if the postmaster could not open the directory, for a reason that is gone by now.
fn warn_if_not_locked() {
    if !directory_lock::is_possible() {
        warning("the state directory is not locked")
            .set_detail("It could not be opened when the server started. Another server may use it at the same time.")
            .set_hint("Restart the server.")
            .report(PgLogLevel::WARNING);
    }
}

/// Warns if the generation of the machine could be read since it was booted, and no longer.
fn warn_if_unwatched() {
    // The record has kept it.
    let recorded = || StateDirectory::open(&gucs::state_directory()).ok()?.read().ok()??.machine;
    // mutant: device-gone
    if machine::unwatched_boot().is_some_and(|boot| recorded().is_some_and(|machine| machine.boot == boot)) {
        warning("clones of this machine can no longer be detected")
            .set_detail("Since it was booted, the server could read the page of vmclock, and now it cannot. It may have been cloned meanwhile.")
            .set_hint(
                "See clones_undetected_because in snowflake_status. Make the device readable, and restart the \
                 server.",
            )
            .report(PgLogLevel::WARNING);
    }
}

/// All containers of an image find the same mark, and the same worker ID if that is in the image.
fn warn_of_lower_layer() {
    warning("the state directory was copied up from the lower layer of a file system")
        .set_detail(format!(
            "Another server made from the same layer, also with snowflake_pg.worker_id = {}, issues the same IDs.",
            gucs::worker_id()
        ))
        .set_hint("Give each container of an image its own snowflake_pg.worker_id.")
        .report(PgLogLevel::WARNING);
}
