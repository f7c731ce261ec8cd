//! How an error is raised or logged, and who may read all of it.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Raises an ERROR.
pub fn raise(error: ErrorReport) -> ! {
    error.report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// An error report without DETAIL and HINT, to be raised or logged.
#[track_caller]
pub fn error_report(code: PgSqlErrorCode, message: impl Into<String>) -> ErrorReport {
    ErrorReport::new(code, message.into(), "snowflake_pg")
}

/// A WARNING that no failing call explains. Its prefix names the extension.
#[track_caller]
pub fn warning(message: &str) -> ErrorReport {
    error_report(PgSqlErrorCode::ERRCODE_WARNING, format!("snowflake_pg: {message}"))
}

/// Whether the current user may read all settings.
pub fn may_read_all_settings() -> bool {
    // SAFETY: every session has a user.
    let user = unsafe { pg_sys::GetUserId() };
    // SAFETY: this role always exists.
    // mutant: directory-hidden
    unsafe { pg_sys::has_privs_of_role(user, pg_sys::Oid::from(pg_sys::ROLE_PG_READ_ALL_SETTINGS)) }
}
