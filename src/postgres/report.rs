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

/// Disables Rust's backtraces for this library, whatever RUST_BACKTRACE is: pgrx would add them to the DETAIL that the
/// client receives. To be called when the library is loaded, before the first error.
pub fn forbid_backtraces() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    let inherited = std::env::var_os(VARIABLE);
    // SAFETY: PostgreSQL's processes have one thread.
    unsafe { std::env::set_var(VARIABLE, "0") };
    // Rust reads the variable once. Other libraries have their own copy of Rust's runtime.
    let _ = std::backtrace::Backtrace::capture();
    match inherited {
        // SAFETY: the same.
        Some(inherited) => unsafe { std::env::set_var(VARIABLE, inherited) },
        // SAFETY: the same.
        None => unsafe { std::env::remove_var(VARIABLE) },
    }
}
