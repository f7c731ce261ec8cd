//! IDs as arguments.

use crate::errors::{error_report, raise};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// An ID as a number without sign; an ERROR if it is negative.
pub fn number(id: i64) -> u64 {
    u64::try_from(id).unwrap_or_else(|_| raise(negative(id)))
}

/// The error for a negative ID.
pub fn negative(id: i64) -> ErrorReport {
    error_report(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "Snowflake ID must not be negative")
        .set_detail(format!("The value is {id}."))
}
