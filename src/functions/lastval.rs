//! The last ID of this session, as `lastval()` is for sequences.

use crate::issue::last_id;
use crate::postgres::report::{error_report, raise};
use pgrx::prelude::*;

/// The last ID of this session.
#[pg_extern(sql = false)]
fn snowflake_lastval() -> i64 {
    last_id::get().unwrap_or_else(|| {
        raise(error_report(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "snowflake_lastval is not yet defined in this session",
        ))
    })
}
