//! The last ID of this session, as `lastval()` is for sequences.

use crate::errors::{error_report, raise};
use pgrx::prelude::*;
use std::sync::atomic::{AtomicI64, Ordering};

/// No ID is negative.
const NONE: i64 = -1;

/// The last ID that this process has given to SQL. Relaxed: a process has one thread.
static LAST: AtomicI64 = AtomicI64::new(NONE);

/// Keeps this ID as the last one.
#[inline]
pub fn keep(id: i64) {
    LAST.store(id, Ordering::Relaxed);
}

/// Forgets it, so that the next client of a connection pool does not see it.
pub fn forget() {
    keep(NONE);
}

/// The last ID of this session.
#[pg_extern(sql = false)]
fn snowflake_lastval() -> i64 {
    match LAST.load(Ordering::Relaxed) {
        NONE => raise(error_report(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "snowflake_lastval is not yet defined in this session",
        )),
        last => last,
    }
}
