//! Errors as text, for views: SQLSTATE, a space, and the message, DETAIL and HINT as sentences.

use super::{IssueError, sentences};
use crate::postgres::failure::Failure;
use crate::postgres::report::{error_report, raise};
use pgrx::PgLogLevel;
use pgrx::pg_sys::panic::{ErrorReport, ErrorReportWithLevel};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The text of an error.
pub fn summary(error: IssueError) -> String {
    // pgrx shows the SQLSTATE of errors that were raised, and of no others.
    let Err(raised) = catch_unwind(AssertUnwindSafe(|| raise(ErrorReport::from(error))));
    of_raised(raised.as_ref())
}

/// Raises an error for the client, after `record` has got its text.
pub fn raise_recorded(error: IssueError, record: impl FnOnce(&str)) -> ! {
    let Err(raised) = catch_unwind(AssertUnwindSafe(|| error.raise()));
    record(&of_raised(raised.as_ref()));
    resume_unwind(raised)
}

/// Logs an error, if that `is_due`, and returns its text.
pub fn log_recorded(error: IssueError, level: PgLogLevel, is_due: bool) -> String {
    let Err(raised) = catch_unwind(AssertUnwindSafe(|| raise(ErrorReport::from(error))));
    if is_due && let Some(report) = raised.downcast_ref::<ErrorReportWithLevel>() {
        let mut log = error_report(report.sql_error_code(), report.message().to_owned());
        if let Some(detail) = report.detail() {
            log = log.set_detail(detail);
        }
        if let Some(hint) = report.hint() {
            log = log.set_hint(hint);
        }
        log.report(level);
    }
    of_raised(raised.as_ref())
}

fn of_raised(raised: &(dyn Any + Send)) -> String {
    let Some(report) = raised.downcast_ref::<ErrorReportWithLevel>() else { return String::new() };
    let detail = [report.detail(), report.hint()].map(Option::unwrap_or_default).join("\n");
    let failure = Failure { message: report.message().to_owned(), detail, ..Failure::default() };
    format!("{} {}", sqlstate(report.sql_error_code() as i32), sentences(&failure))
}

/// As `unpack_sql_state()` does: five characters of six bits each, the lowest first.
fn sqlstate(code: i32) -> String {
    (0..5).map(|i| char::from(b'0' + u8::try_from(code >> (6 * i) & 0x3F).unwrap_or_default())).collect()
}
