//! Issuing IDs.

use crate::config::preload;
use crate::errors::{IssueError, error_report, raise};
use crate::issue::issuer;
use crate::shared::shared;
use pgrx::prelude::*;
use std::sync::atomic::Ordering;

/// The largest batch: at the layout `twitter`'s full rate, a quarter of a second.
const MAX_BATCH: u32 = 1_000_000;

/// The next ID, as SQL calls it, and COPY under another name: a function of PostgreSQL's, without the guard that pgrx puts
/// around each, since what may fail is behind one of its own.
#[unsafe(no_mangle)]
extern "C-unwind" fn snowflake_nextval(_call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    issuer::join().unwrap_or_else(|| slow_path()).into()
}

/// Tells PostgreSQL by which convention it is called.
#[unsafe(no_mangle)]
extern "C" fn pg_finfo_snowflake_nextval() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

/// Has this name for tests/instructions.rs, which counts what is not on it.
#[cold]
#[inline(never)]
#[pg_guard]
extern "C-unwind" fn slow_path() -> i64 {
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
