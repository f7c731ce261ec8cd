//! The ID below which no row can appear any more, and the transactions that hold it back.

use super::row::{Column, Row, column};
use crate::config::{gucs, preload};
use crate::errors::{IssueError, error_report, raise};
use crate::issue::horizon::{self, PreparedBefore, Who};
use crate::issue::issuer;
use pgrx::pg_sys::{Node, NodeTag, PlannerInfo, RTEKind, SupportRequestSimplify};
use pgrx::prelude::*;
use pgrx::{Internal, PgList};
use snowflake_core::policy::ClockRegression;

/// The ID below which every transaction of this server that has drawn IDs has ended; NULL if that cannot be known.
#[pg_extern(sql = false)]
fn snowflake_horizon() -> Option<i64> {
    read("snowflake_horizon()")
}

/// The same for another function, which is named in errors.
pub fn read(function: &str) -> Option<i64> {
    must_track();
    if gucs::clock_regression() == ClockRegression::History {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "there is no horizon while snowflake_pg.clock_regression is history",
            )
            .set_detail("IDs of past ticks can be issued at any time."),
        );
    }
    // SAFETY: a variable of this process.
    if unsafe { pg_sys::XactIsoLevel } >= pg_sys::XACT_REPEATABLE_READ.cast_signed() {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("{function} cannot be used in a REPEATABLE READ or SERIALIZABLE transaction"),
            )
            .set_detail(
                "The transaction does not see rows committed after its first statement, also below the horizon.",
            )
            .set_hint("Use READ COMMITTED, or read the horizon in a transaction before."),
        );
    }
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    if unsafe { pg_sys::RecoveryInProgress() } {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "recovery is in progress")
                .set_hint("Read the horizon on the primary, and wait until this server has replayed its WAL."),
        );
    }
    let read = horizon::read().unwrap_or_else(|error| error.raise());
    read.inspect_err(|PreparedBefore| notice_prepared_before()).ok()
}

fn must_track() {
    if !preload::is_done() {
        IssueError::NotPreloaded.raise();
    }
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

fn notice_prepared_before() {
    error_report(
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        "there is no horizon because of a transaction that was prepared before the server started",
    )
    .set_detail("Nobody knows whether it has drawn IDs.")
    .set_hint("See snowflake_writers. Use COMMIT PREPARED or ROLLBACK PREPARED.")
    .report(PgLogLevel::NOTICE);
}

/// A row for each transaction that holds the horizon back: process, ID of a prepared transaction, first ID.
#[pg_extern(sql = false)]
fn snowflake_get_writers() -> SetOfIterator<'static, Row<3>> {
    must_track();
    let (holders, prepared_before) = horizon::holders();
    let transaction = |id| column(pg_sys::TransactionId::from_inner(id));
    let mut rows: Vec<_> =
        prepared_before.into_iter().map(|id| Row([Column::NULL, transaction(id), Column::NULL])).collect();
    if !holders.is_empty() {
        let (_, series) = issuer::start().unwrap_or_else(|error| error.raise());
        rows.extend(holders.into_iter().map(|holder| {
            let first = column(horizon::id_at(&series, holder.first));
            match holder.who {
                Who::Process(pid) => Row([column(pid), Column::NULL, first]),
                Who::Prepared(id) => Row([Column::NULL, transaction(id), first]),
            }
        }));
    }
    SetOfIterator::new(rows)
}

/// The planner support function of `snowflake_horizon()`: an ERROR where its call would be in vain. It replaces nothing.
#[pg_extern(sql = false)]
fn snowflake_horizon_support(request: Internal) -> Internal {
    let request = request.unwrap().map_or(std::ptr::null(), |request| request.cast_mut_ptr::<Node>().cast_const());
    // SAFETY: the planner passes a node.
    if unsafe { (*request).type_ } == NodeTag::T_SupportRequestSimplify {
        // SAFETY: a node of this type.
        let planned = unsafe { (*request.cast::<SupportRequestSimplify>()).root };
        if reads_a_table(planned) {
            raise(
                error_report(
                    PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                    "snowflake_horizon() cannot be used in a query that reads a table",
                )
                .set_detail("The query would not see rows committed after it has begun, also below the horizon.")
                .set_hint("Read the horizon in a statement before the query, or use snowflake_poll()."),
            );
        }
    }
    // Not NULL, which PostgreSQL does not expect.
    Internal::from(Some(pg_sys::Datum::null()))
}

/// Whether a query, or one around it, reads a table other than the one it writes, and than the system catalogs.
fn reads_a_table(mut planned: *mut PlannerInfo) -> bool {
    // SAFETY: null, or what the planner knows of a query.
    while let Some(level) = unsafe { planned.as_ref() } {
        // SAFETY: every level has its query.
        let query = unsafe { &*level.parse };
        // SAFETY: the range table is a list of such nodes.
        let range_table = unsafe { PgList::<pg_sys::RangeTblEntry>::from_pg(query.rtable) };
        let reads = (1..).zip(range_table.iter_ptr()).any(|(number, entry)| {
            // SAFETY: a node of the list.
            let entry = unsafe { &*entry };
            entry.rtekind == RTEKind::RTE_RELATION
                && entry.relid.to_u32() >= pg_sys::FirstNormalObjectId
                && number != query.resultRelation
        });
        if reads {
            return true;
        }
        planned = level.parent_root;
    }
    false
}
