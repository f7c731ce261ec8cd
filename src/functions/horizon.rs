//! The ID below which no row can appear any more, and the transactions that hold it back.

use super::row::{Row, column};
use crate::config::{gucs, preload};
use crate::durable::horizon::is_read;
use crate::durable::wal;
use crate::errors::IssueError;
use crate::issue::horizon::{self, NoHorizon};
use crate::issue::issuer;
use crate::postgres::report::{error_report, raise};
use crate::shared::holders::{self, Who};
use crate::shared::shared;
use crate::worker;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_core::display_time;
use snowflake_core::mark::wal_page::PageHorizon;

/// The ID below which every transaction of this server that has drawn IDs has ended; NULL if that cannot be known.
#[pg_extern(sql = false)]
fn snowflake_horizon() -> Option<i64> {
    read("snowflake_horizon()")
}

/// The horizon, for a function that errors name. With a NOTICE if it is held back.
pub fn read(function: &str) -> Option<i64> {
    let (horizon, notice) = look(function);
    if let Some(notice) = notice {
        notice.report(PgLogLevel::NOTICE);
    }
    horizon
}

/// The horizon, for a function that errors name, and a NOTICE of what holds it back.
pub fn look(function: &str) -> (Option<i64>, Option<ErrorReport>) {
    must_be_preloaded();
    // SAFETY: a variable of this process.
    if unsafe { pg_sys::XactIsoLevel } >= pg_sys::XACT_REPEATABLE_READ.cast_signed() {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("{function} cannot be used in a REPEATABLE READ or SERIALIZABLE transaction"),
            )
            .set_detail(
                "The transaction does not see rows committed after its first statement, even below the horizon.",
            )
            .set_hint("Use READ COMMITTED, or read the horizon in an earlier transaction."),
        );
    }
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return read_on_standby();
    }
    must_track();
    let regression = gucs::clock_regression();
    if !regression.keeps_order() {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("there is no horizon while snowflake_pg.clock_regression is {regression}"),
            )
            .set_detail("IDs of past ticks can be issued at any time."),
        );
    }
    match horizon::read().unwrap_or_else(|error| error.raise()) {
        Ok(horizon) => (Some(horizon), None),
        Err(reason) => (reason.last_in_wal(), Some(notice(&reason))),
    }
}

/// The horizon on the page that was replayed last. All rows below it were replayed before. The settings of this server
/// do not matter: they are the primary's.
fn read_on_standby() -> (Option<i64>, Option<ErrorReport>) {
    match wal::read_horizon().unwrap_or_else(|error| error.raise()) {
        PageHorizon::Below(id) => (Some(id.cast_signed()), None),
        PageHorizon::Withheld => {
            let notice = error_report(
                PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
                "there is no horizon because the clock of the primary is behind the IDs of another worker",
            );
            (None, Some(notice.set_detail("The primary issues IDs below a horizon that was read.")))
        }
        PageHorizon::Unknown => raise(
            error_report(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "WAL has no horizon, and recovery is in progress",
            )
            .set_detail("The primary writes it while snowflake_pg.wal_mark and snowflake_pg.track_writers are on.")
            .set_hint("See docs/reading.md in the documentation of snowflake_pg."),
        ),
    }
}

/// The horizon where it is known, without an ERROR, and without moving an idle server to the clock.
pub fn known() -> Option<i64> {
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return match wal::read_horizon() {
            Ok(PageHorizon::Below(id)) => Some(id.cast_signed()),
            _ => None,
        };
    }
    if !shared().generator.is_started() || !is_read() {
        return None;
    }
    let (layout, series) = worker::layout_and_series().ok()?;
    horizon::current(&layout, &series).map_or_else(|reason| reason.last_in_wal(), Some)
}

fn must_be_preloaded() {
    if !preload::is_done() {
        IssueError::NotPreloaded.raise();
    }
}

fn must_track() {
    must_be_preloaded();
    if !gucs::track_writers() {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "transactions that have drawn IDs are not tracked",
            )
            .set_hint("Set snowflake_pg.track_writers to on, and restart the server."),
        );
    }
}

fn notice(reason: &NoHorizon) -> ErrorReport {
    let report = |message| error_report(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message);
    match *reason {
        NoHorizon::PreparedBefore(last) => {
            let last = if last.is_some() { "The horizon is the last one in WAL before that" } else { "WAL has none" };
            report("a transaction that was prepared before the server started holds the horizon back")
                .set_detail(format!("It has drawn IDs, or was prepared while transactions were not tracked. {last}."))
                .set_hint("See snowflake_writers. Use COMMIT PREPARED or ROLLBACK PREPARED.")
        }
        NoHorizon::BelowOtherWorkers(until) => {
            report("there is no horizon because the clock is behind the IDs of another worker")
                .set_detail(format!("Readers may have read up to {}.", display_time(until)))
                .set_hint("Wait until the clock is there. If that is too late, see snowflake_advance().")
        }
    }
}

/// A row for each transaction that holds the horizon back.
#[pg_extern(sql = false)]
fn snowflake_get_writers() -> SetOfIterator<'static, Row> {
    must_track();
    let (holders, prepared_before) = holders::holders();
    let row = |who, first_id: Option<i64>| {
        let (pid, transaction) = match who {
            Who::Process(pid) => (Some(pid), None),
            Who::Prepared(id) => (None, Some(pg_sys::TransactionId::from_inner(id))),
        };
        Row::new([("pid", column(pid)), ("transaction", column(transaction)), ("first_id", column(first_id))])
    };
    let mut rows: Vec<_> = prepared_before.into_iter().map(|id| row(Who::Prepared(id), None)).collect();
    if !holders.is_empty() {
        let (_, series) = issuer::start().unwrap_or_else(|error| error.raise());
        rows.extend(holders.into_iter().map(|holder| row(holder.who, Some(series.id_at(holder.first).cast_signed()))));
    }
    SetOfIterator::new(rows)
}
