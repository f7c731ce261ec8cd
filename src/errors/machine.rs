//! The errors of a machine that was restored from a snapshot, or cloned.

use crate::postgres::report::error_report;
use crate::shared::machine::Change;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;

pub(super) const CLONED: &str = "this machine was restored or cloned";

/// What to do.
pub(super) const HINT: &str = "If no other copy of this machine runs, and none will, call snowflake_accept_mark(). Otherwise, give this server its \
     own snowflake_pg.worker_id and restart it. If a registry leases it, restart it, and it gets another one.";

/// What a machine that was cloned has in common with its copies.
pub(super) fn detail(before: u64, now: u64) -> String {
    format!("Its generation was {before} and is now {now}. {COPIES}")
}

/// The same, if the server had noticed that before it was restarted.
pub(super) fn noticed_before() -> String {
    format!("The server had noticed that before it was restarted, and nobody has accepted it since. {COPIES}")
}

const COPIES: &str = "Another copy of it may issue IDs with the same worker ID, from the same mark.";

/// The error while the machine is not the one on which the server has begun.
pub(super) fn changed(change: Change) -> ErrorReport {
    let report = |message| error_report(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message);
    match change {
        Change::Cloned { before, now } => report(CLONED).set_detail(detail(before, now)).set_hint(HINT),
        Change::Unknown => report("cannot tell whether this machine was restored or cloned")
            .set_detail("The hypervisor has begun to write the page of vmclock, and has not finished.")
            .set_hint("Try again. If the error stays, set snowflake_pg.clone_detection to off and restart the server."),
    }
}
