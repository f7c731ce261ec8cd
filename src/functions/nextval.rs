//! Issuing IDs.

use crate::config::preload;
use crate::errors::{IssueError, error_report, raise};
use crate::issue::issuer;
use crate::shared::shared;
use pgrx::prelude::*;
use std::sync::atomic::Ordering;

/// The largest batch: a quarter of a second at the full rate of layout `twitter`.
const MAX_BATCH: u32 = 1_000_000;

/// The next ID, for SQL, and under another name for COPY.
///
/// A plain C function, since `#[pg_guard]` costs a part of an ID. An ERROR of [`slow_path`], which is guarded, jumps
/// over this frame. That is sound as long as the frame has nothing to drop; keep it so.
#[unsafe(no_mangle)]
extern "C-unwind" fn snowflake_nextval(_call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    issuer::join().unwrap_or_else(|| slow_path()).into()
}

/// What PG_FUNCTION_INFO_V1() defines in C.
#[unsafe(no_mangle)]
extern "C" fn pg_finfo_snowflake_nextval() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

/// tests/instructions.rs knows this name, and counts the instructions outside of it.
#[cold]
#[inline(never)]
#[pg_guard]
extern "C-unwind" fn slow_path() -> i64 {
    next()
}

/// The next ID, whatever it takes; an ERROR if there is none.
pub fn next() -> i64 {
    issuer::take().unwrap_or_else(|error| refuse(error))
}

/// The next `count` IDs, all taken when the call begins.
#[pg_extern(sql = false)]
fn snowflake_nextvals(count: i32) -> SetOfIterator<'static, i64> {
    let Some(wanted) = u32::try_from(count).ok().filter(|wanted| (1..=MAX_BATCH).contains(wanted)) else {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("count must be between 1 and {MAX_BATCH}"),
            )
            .set_detail(format!("The count is {count}.")),
        );
    };
    SetOfIterator::new(issuer::next_batch(wanted).unwrap_or_else(|error| refuse(error)))
}

#[cold]
fn refuse(error: IssueError) -> ! {
    if preload::is_done() {
        shared().statistics.refusals.fetch_add(1, Ordering::Relaxed);
    }
    error.raise()
}
