//! What the plans of `sql/adopt` call: a command with the rights of another role, and a transaction without
//! savepoints.

use crate::postgres::command::run_as;
use crate::postgres::report::{error_report, raise};
use pgrx::prelude::*;

/// Runs a command as a role that the user can become by SET ROLE. Returns its first value if that is a bigint, else
/// NULL.
#[pg_extern(sql = false)]
fn snowflake_run_as(role: pg_sys::Oid, command: &[u8]) -> Option<i64> {
    run_as(role, command)
}

/// Raises an ERROR, now and at COMMIT, if the client has set a savepoint before this command: psql does with
/// ON_ERROR_ROLLBACK, and JDBC with autosave. They would leave out a command that fails, and commit the others.
#[pg_extern(sql = false)]
fn snowflake_all_or_nothing() {
    // SAFETY: a function is called in a transaction.
    if unsafe { pg_sys::GetCurrentTransactionNestLevel() } == 1 {
        return;
    }
    // The client goes back to its savepoint, and on to the next command.
    // mutant: plan-savepoints
    pgrx::register_xact_callback(pgrx::PgXactCallbackEvent::PreCommit, || refuse_savepoint());
    refuse_savepoint();
}

fn refuse_savepoint() -> ! {
    raise(
        error_report(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "this transaction has a savepoint, but must be all or nothing",
        )
        .set_hint("In psql, type \\set ON_ERROR_ROLLBACK off, and run the plan again."),
    )
}
