//! Issuing IDs.

use crate::errors::{Refusal, error, report};
use crate::shmem::shared;
use crate::{issuer, preload};
use pgrx::prelude::*;
use std::sync::atomic::Ordering;

/// The largest batch: at the layout `twitter`'s full rate, a quarter of a second.
const MAX_BATCH: u32 = 1_000_000;

/// The next ID.
#[pg_extern(sql = false)]
fn snowflake_nextval() -> i64 {
    next_id()
}

/// The next ID, or an ERROR.
#[inline]
pub fn next_id() -> i64 {
    issuer::next().unwrap_or_else(|refusal| refuse(refusal))
}

/// The next `count` IDs, all taken when the call begins.
#[pg_extern(sql = false)]
fn snowflake_nextvals(count: i32) -> SetOfIterator<'static, i64> {
    let Some(wanted) = u32::try_from(count).ok().filter(|wanted| (1..=MAX_BATCH).contains(wanted)) else {
        report(
            error(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, format!("count must be between 1 and {MAX_BATCH}"))
                .set_detail(format!("The count is {count}.")),
        );
    };
    SetOfIterator::new(issuer::next_batch(wanted).unwrap_or_else(|refusal| refuse(refusal)))
}

#[cold]
fn refuse(refusal: Refusal) -> ! {
    if preload::is_done() {
        shared().statistics.refusals.fetch_add(1, Ordering::Relaxed);
    }
    refusal.raise()
}
