//! Reading IDs.

use super::row::Row;
use super::time::timestamptz;
use crate::errors::{Refusal, error, report};
use crate::gucs;
use pgrx::IntoDatum;
use pgrx::prelude::*;

use snowflake_core::layout::Layout;

/// The layout by which to decode.
pub fn layout() -> Layout {
    gucs::layout().unwrap_or_else(|error| Refusal::from(error).raise())
}

/// An ID's bits; an ERROR if it is negative, as no ID is.
fn bits(id: i64) -> u64 {
    u64::try_from(id).unwrap_or_else(|_| {
        report(
            error(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "a Snowflake ID cannot be negative")
                .set_detail(format!("The value is {id}.")),
        )
    })
}

/// When an ID was issued.
#[pg_extern(sql = false)]
fn snowflake_timestamp(id: i64) -> TimestampWithTimeZone {
    timestamptz(layout().issued_at(bits(id)))
}

/// Everything an ID says, as a row.
#[pg_extern(sql = false)]
fn snowflake_decode(id: i64) -> Row<4> {
    let parts = layout().unpack(bits(id));
    // Fields of an ID that is not negative have at most 63 bits, and those of a preset at most 12, but for the time.
    let number = |value: u64| i32::try_from(value).expect("a field of few bits").into_datum();
    let columns = [
        timestamptz(parts.issued_at).into_datum(),
        parts.datacenter.and_then(number),
        parts.worker.and_then(number),
        number(parts.sequence),
    ];
    // SAFETY: the types declared: timestamptz, integer, integer, integer.
    unsafe { Row::new(columns) }
}
