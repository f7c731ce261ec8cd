//! Issuing IDs.

use crate::errors::{error, report};
use crate::issuer;
use pgrx::prelude::*;

/// The largest batch: at the layout `twitter`'s full rate, a quarter of a second.
const MAX_BATCH: u32 = 1_000_000;

/// The next ID.
#[pg_extern(sql = false)]
fn snowflake_nextval() -> i64 {
    issuer::next().unwrap_or_else(|refusal| refusal.raise())
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
    SetOfIterator::new(issuer::next_batch(wanted).unwrap_or_else(|refusal| refusal.raise()))
}
