//! Functions for administration. `sql/extension` revokes them from PUBLIC. What they change is logged with the
//! user.

use super::time::{timestamptz, unix_ms};
use crate::config::{gucs, preload};
use crate::durable::mark::{self, ServersMark};
use crate::durable::start;
use crate::durable::state_file::StateDirectory;
use crate::errors::{IssueError, StateFileError};
use crate::issue::issuer;
use crate::postgres::clock;
use crate::postgres::report::{error_report, raise, warning};
use crate::shared::machine;
use crate::shared::mark_lock::{self, MarkLock};
use crate::shared::{Shared, shared};
use crate::trusted_clock;
use crate::worker;
use pgrx::prelude::*;
use pgrx::{PgLogLevel, PgSqlErrorCode, log};
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::Storage;
use snowflake_core::mark::record::OtherMarks;
use snowflake_core::mark::start_table::{MarkConflict, above_start_margin, accept, decide};
use snowflake_core::mark::trace::Event;
use snowflake_core::server::identity::Identity;
use snowflake_core::{UnixMs, display_time};
use std::ffi::CStr;

/// Accepts a durable mark that may not be this server's: the caller vouches that no other server issues its IDs.
/// Returns when IDs begin; NULL if there is nothing to accept.
#[pg_extern(sql = false)]
fn snowflake_accept_mark(force: bool) -> Option<TimestampWithTimeZone> {
    let floor = or_raise(accept_mark(force));
    if floor.is_none() {
        notice!("there is nothing to accept");
    }
    floor.map(timestamptz)
}

fn accept_mark(force: bool) -> Result<Option<UnixMs>, IssueError> {
    let Some(now) = now_unless_started()? else { return accept_clone() };
    let lock = lock_stopped()?;
    if shared().generator.is_started() {
        return Ok(None);
    }
    let mut server = mark::within(start::lock_directory()?)?;
    let (identity, last_life) = (current_identity(&server)?, server.storage.read_life()?);
    let record = server.storage.read_record()?;
    let context = server.context(identity.worker, now, last_life, shared().lease.start())?;
    let Err(conflict) = decide(record.as_ref(), &identity, &context) else { return Ok(None) };
    // A layout that has ended issues no IDs, and a return from it would lead to smaller ones.
    identity.layout.tick_at(now).map_err(|outside| IssueError::Clock(now, outside))?;
    let old_layout = record.map(|record| record.identity.layout).filter(|&layout| layout != identity.layout);
    let old_layout = old_layout.or(context.wal.and_then(|wal| wal.layout)).unwrap_or(identity.layout);
    let Some((mark, others)) = accept(record.as_ref(), &identity, &context, force) else {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "new IDs could equal old ones because the layout has changed",
            )
            .set_detail(format!("It was {old_layout}, and is now {}.", identity.layout))
            .set_hint(
                "Set snowflake_pg.layout back; or, if no old IDs are in use, call snowflake_accept_mark(force => \
                 true).",
            ),
        )
    };
    must_fit(mark, identity.layout)?;
    let in_wal = context.wal.and_then(|wal| wal.mark).unwrap_or(0);
    let found = record.map_or(0, |record| record.mark_of(identity.worker)).max(in_wal);
    let follows = match conflict {
        // Nobody knows whose IDs are before these.
        MarkConflict::NotInWal => 0,
        MarkConflict::NotTheLast | MarkConflict::LeftBehind => last_life.map_or(0, |last| last.life.number),
        _ => record.map_or(0, |record| record.life),
    };
    server.storage.trace(&[Event::begins(&identity, now), Event::Accepts { mark, follows, found }]);
    server.persist_first(record.as_ref(), mark, identity, others, last_life)?;
    drop(lock);
    let what = match conflict {
        MarkConflict::Copy => "a copied directory",
        MarkConflict::OtherGeneration => CLONED,
        MarkConflict::OtherCluster => "another cluster's durable mark",
        MarkConflict::NewerTimeline => "the durable mark of a newer timeline",
        MarkConflict::NotTheLast => "a durable mark that this server did not write last",
        MarkConflict::LeftBehind => "that its durable mark is in another directory",
        MarkConflict::NotInWal => "that WAL does not contain the durable mark of the previous server",
        MarkConflict::OtherLayout | MarkConflict::OtherLayoutInWal(_) => "another layout",
    };
    let layout_too =
        record.is_some_and(|record| record.identity.layout != identity.layout) && !what.ends_with("layout");
    let too = if layout_too { " and another layout" } else { "" };
    log_action(&format!("accepted {what}{too}, IDs begin at {}", display_time(mark)));
    Ok(Some(mark))
}

const CLONED: &str = "that its machine was restored or cloned";

/// Lets a running server issue IDs whose machine was cloned. Calls are refused until its IDs are above all that copies
/// can have issued.
fn accept_clone() -> Result<Option<UnixMs>, IssueError> {
    let (layout, _) = layout_and_series()?;
    let Some(machine) = machine::clone()? else { return Ok(None) };
    let now = trusted_clock::now_ms(&layout);
    let lock = lock_stopped()?;
    let floor = mark::open()?.floor_above_copies(now)?;
    drop(lock);
    must_fit(floor, layout)?;
    // mutant: clone-begins-above
    issuer::advance(layout.first_tick_from(floor))?;
    let lock = lock_stopped()?;
    let mut server = mark::open()?;
    server.storage.machine = Some(machine);
    server.adopt_machine()?;
    machine::accept(machine);
    drop(lock);
    log_action(&format!("accepted {CLONED}, IDs begin after {}", display_time(floor)));
    Ok(Some(floor))
}

/// The present identity of this server and its directory.
fn current_identity(server: &ServersMark) -> Result<Identity, IssueError> {
    server.storage.identity(server.storage.directory()?, server.storage.worker()?)
}

/// What the clock shows at a start with the mark on disk; `None` if the generator is started. To be asked before the
/// lock is taken, since it may log a warning.
fn now_unless_started() -> Result<Option<UnixMs>, IssueError> {
    layout_and_series()?;
    start::check_may_start()?;
    if shared().generator.is_started() {
        return Ok(None);
    }
    let record = StateDirectory::open(&gucs::state_directory())?.read()?;
    let now = start::now_at_start(record.as_ref());
    start::check_clock()?;
    Ok(Some(now))
}

/// Replaces a damaged durable mark, or one that was reset to far ahead of the clock. Returns when IDs begin.
#[pg_extern(sql = false)]
fn snowflake_reset_mark(floor: TimestampWithTimeZone) -> TimestampWithTimeZone {
    let (layout, _) = or_raise(layout_and_series());
    let Some(mark) = unix_ms(floor).filter(|&at| floor.is_finite() && layout.tick_at(at).is_ok()) else {
        raise(error_report(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, "floor is outside the layout").set_detail(
            format!(
                "IDs of this layout have timestamps from {} to {}.",
                display_time(layout.epoch()),
                display_time(layout.last_time())
            ),
        ))
    };
    if mark > clock::unix_ms().saturating_add(gucs::max_forward_jump_ms()) {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, "floor is too far ahead of the clock")
                .set_detail(format!("snowflake_pg.max_forward_jump is {} ms.", gucs::max_forward_jump_ms()))
                .set_hint(
                    "If IDs may stop until the clock reaches it, increase snowflake_pg.max_forward_jump and \
                    reload the configuration.",
                ),
        );
    }
    let begin = or_raise(reset_mark(mark));
    if shared().mark.is_reset() {
        let until = shared().mark.not_before();
        warning("IDs begin far ahead of the clock")
            .set_detail(format!(
                "They begin at {}, and calls fail until the clock shows {}.",
                display_time(begin),
                display_time(until)
            ))
            .set_hint("If that is too late, call snowflake_reset_mark() again with an earlier time.")
            .report(PgLogLevel::WARNING);
    }
    timestamptz(begin)
}

/// The new mark is as far above the clock as IDs may have been.
fn reset_mark(floor: UnixMs) -> Result<UnixMs, IssueError> {
    let now = start::now_at_start(None);
    start::check_clock()?;
    let lock = lock_stopped()?;
    let mut server = mark::within(start::lock_directory()?)?;
    let (identity, last_life) = (current_identity(&server)?, server.storage.read_life()?);
    let context = server.context(identity.worker, now, last_life, shared().lease.start())?;
    let mark = above_start_margin(floor, &context);
    let Shared { generator, mark: state, .. } = shared();
    match server.storage.directory.read() {
        Err(StateFileError::Damaged { .. }) if !generator.is_started() => {}
        Ok(_) if !generator.is_started() && state.is_reset() => {}
        Err(failure @ (StateFileError::Io { .. } | StateFileError::Newer(..))) => return Err(failure.into()),
        _ => raise(
            error_report(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the state file is not damaged").set_hint(
                "To raise the lowest ID that can come next, call snowflake_advance(). To lower it, see \"The clock was \
                 wrong\" in docs/operations.md in the documentation of snowflake_pg.",
            ),
        ),
    }
    must_fit(mark, identity.layout)?;
    // The marks of other workers are lost, too.
    server.storage.trace(&[Event::begins(&identity, now), Event::Resets { mark }]);
    server.persist_first(None, mark, identity, OtherMarks::all_at(mark), last_life)?;
    let near = now.saturating_add(gucs::max_borrow_ms());
    state.wait_after_reset(if mark > near { mark - gucs::max_borrow_ms() } else { 0 });
    drop(lock);
    log_action(&format!("reset the state file, IDs begin at {}", display_time(mark)));
    Ok(mark)
}

/// An error for a mark after the end of the layout: the record can be of a layout that ends later.
fn must_fit(mark: UnixMs, layout: Layout) -> Result<(), IssueError> {
    if mark > layout.end() { Err(IssueError::LayoutEndsBefore { layout, begin: mark }) } else { Ok(()) }
}

/// Makes all new IDs greater than this one.
#[pg_extern(sql = false)]
fn snowflake_advance(past: i64, force: bool) {
    or_raise(advance(past, force));
}

fn advance(past: i64, force: bool) -> Result<(), IssueError> {
    let (layout, _) = layout_and_series()?;
    let Ok(id) = u64::try_from(past) else { return Ok(()) }; // Every ID is greater.
    // mutant: advance-whole-id
    let tick = (id <= layout.max_id()).then(|| layout.first_tick_from(layout.issued_at(id)));
    let Some(tick) = tick.filter(|&tick| tick < layout.last_tick()) else {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "no ID of the layout is greater")
                .set_detail(format!("The value is {past}, and the layout is {layout}.")),
        )
    };
    let (now, at) = (clock::unix_ms(), layout.time_of(tick));
    if at > now.saturating_add(gucs::max_forward_jump_ms()) && !force {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "the ID is too far ahead of the clock")
                .set_detail(format!(
                    "Its timestamp is {}, the clock shows {}, and snowflake_pg.max_forward_jump is {} ms.",
                    display_time(at),
                    display_time(now),
                    gucs::max_forward_jump_ms()
                ))
                .set_hint("If IDs may stop until the clock reaches it, call snowflake_advance(past, force => true)."),
        )
    }
    issuer::advance(tick)?;
    log_action(&format!("advanced past {past}, IDs begin after {}", display_time(at)));
    Ok(())
}

/// Trusts the clock, whatever it shows.
#[pg_extern(sql = false)]
fn snowflake_accept_clock() {
    match layout_and_series() {
        // A lease can depend on the clock.
        Ok(_) | Err(IssueError::Lease(_)) => {}
        Err(error) => error.raise(),
    }
    let now = clock::unix_ms();
    if shared().jump_guard.has_jumped() {
        log_action(&format!("accepted the clock, which shows {}", display_time(now)));
    } else {
        notice!("the clock is already trusted");
    }
    trusted_clock::accept();
}

fn or_raise<T>(result: Result<T, IssueError>) -> T {
    result.unwrap_or_else(|error| error.raise())
}

fn layout_and_series() -> Result<(Layout, snowflake_core::id::layout::Series), IssueError> {
    if preload::is_done() { worker::layout_and_series() } else { Err(IssueError::NotPreloaded) }
}

/// Takes the lock on a server that may issue IDs, and wakes the keeper when it is released.
fn lock_stopped() -> Result<impl Drop, IssueError> {
    layout_and_series()?;
    start::check_may_start()?;
    struct Locked(Option<MarkLock>);
    impl Drop for Locked {
        fn drop(&mut self) {
            self.0 = None;
            shared().wake_keeper();
        }
    }
    loop {
        if let Some(lock) = mark_lock::take_or_wait() {
            return Ok(Locked(Some(lock)));
        }
    }
}

/// Logs what was done, and by which user. Not under the lock, since a client may receive it.
fn log_action(what: &str) {
    // SAFETY: every session has a user, whose name is a C string, or null if the user has been dropped.
    let user = unsafe {
        let user = pg_sys::GetUserNameFromId(pg_sys::GetSessionUserId(), true);
        if user.is_null() { "?".into() } else { CStr::from_ptr(user).to_string_lossy() }
    };
    log!("snowflake_pg: user \"{user}\" {what}");
}
