//! Times as IDs, for selecting rows by time.

use super::layout::{layout_in_force, layout_named, outside};
use super::time::unix_ms;
use crate::postgres::report::{error_report, raise};
use pgrx::prelude::*;
use snowflake_core::display_time;
use snowflake_core::id::layout::{DecodeOnly, Layout, TimeError};

/// The lowest ID of the tick of a time. `-infinity` is below every ID, and `infinity` is above.
#[pg_extern(sql = false)]
fn snowflake_min_id(at: TimestampWithTimeZone) -> i64 {
    min_id(at, &layout_in_force())
}

/// The lowest ID of the tick of a time in another layout.
#[pg_extern(sql = false)]
fn snowflake_min_id_with_layout(at: TimestampWithTimeZone, layout: &[u8]) -> i64 {
    min_id(at, &layout_named(layout))
}

fn min_id(at: TimestampWithTimeZone, layout: &Layout) -> i64 {
    must_sort(layout);
    if at.is_neg_infinity() {
        return 0;
    }
    if at.is_infinity() {
        return i64::MAX;
    }
    let tick = unix_ms(at).map_or(Err(TimeError::BeforeEpoch { epoch: layout.epoch() }), |ms| layout.tick_at(ms));
    match tick {
        Ok(tick) => i64::try_from(layout.min_id(tick)).unwrap_or_else(|_| {
            let end = layout.issued_at(i64::MAX.cast_unsigned());
            raise(
                error_report(
                    PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW,
                    "timestamp is after the last bigint of the layout",
                )
                .set_detail(format!("IDs after {} are negative, and do not sort by time.", display_time(end))),
            )
        }),
        Err(failure) => {
            let open = match failure {
                TimeError::BeforeEpoch { .. } => "-infinity",
                TimeError::AfterEnd { .. } => "infinity",
            };
            raise(outside(layout, failure).set_hint(format!("For a range that is open on this side, use '{open}'.")))
        }
    }
}

/// An error for a layout in which a range of time is not a range of IDs.
pub fn must_sort(layout: &Layout) {
    if !layout.sorts_by_time() {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "IDs of this layout do not sort by time")
                .set_detail(format!("{}.", DecodeOnly::TimestampNotHighest(*layout)))
                .set_hint("Compare snowflake_timestamp(id, layout) instead."),
        )
    }
}
