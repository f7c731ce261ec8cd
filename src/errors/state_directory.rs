//! The errors of a state directory that is not this server's alone, or has been replaced.

use super::StatePath;
use crate::postgres::report::error_report;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;

/// The error for a file that another server writes, or that was replaced while the server ran.
pub(super) fn replaced(path: &StatePath) -> ErrorReport {
    error_report(
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("state file \"{}\" has been replaced by another server", path),
    )
    .set_detail("Another server writes to it, or another directory or an older file has taken its place.")
    .set_hint(
        "Give each server its own snowflake_pg.state_directory, put this server's directory back, and restart this \
         server.",
    )
}

/// The error for a directory that was replaced while the server ran.
pub(super) fn exchanged(path: &StatePath) -> ErrorReport {
    error_report(
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("state directory \"{path}\" is not the one that the server started with"),
    )
    .set_detail("While the server ran, a volume was mounted there, or the directory was replaced.")
    .set_hint("If it is the right directory, restart the server. If it is not, put the right one back.")
}

/// The error for a directory that another server has locked.
pub(super) fn in_use(path: &StatePath, holder: Option<String>) -> ErrorReport {
    error_report(
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("state directory \"{path}\" is in use by another server"),
    )
    .set_detail(match holder {
        Some(holder) => format!("The other server has {holder}."),
        None => "The other server has locked the directory.".to_owned(),
    })
    .set_hint(
        "Give each server its own snowflake_pg.state_directory and snowflake_pg.worker_id, or stop the other server.",
    )
}

/// The error for a directory that a process of an earlier server has locked.
pub(super) fn still_in_use(path: &StatePath, process: u32) -> ErrorReport {
    error_report(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("state directory \"{path}\" is still in use"))
        .set_detail(format!("Process ID {process} has outlived a server in this data directory."))
        .set_hint("Terminate any old server processes associated with this data directory.")
}
