//! Times as IDs, for selecting rows by time.

use super::layout::{layout_in_force, layout_named, outside};
use super::time::{unix_ms, unix_us};
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
        Ok(tick) => signed(layout.min_id(tick), layout),
        Err(failure) => {
            let open = match failure {
                TimeError::BeforeEpoch { .. } => "-infinity",
                TimeError::AfterEnd { .. } => "infinity",
            };
            raise(outside(layout, failure).set_hint(format!("For a range that is open on this side, use '{open}'.")))
        }
    }
}

/// The lowest ID with this time or a later one, or only with a later one; `None` if there is none. Bounds of times outside
/// the layout are no errors, since [`hooks`](crate::hooks) puts them where there was a comparison of times.
#[pg_extern(sql = false)]
fn snowflake_first_id(at: TimestampWithTimeZone, inclusive: bool, layout: &[u8]) -> Option<i64> {
    let layout = layout_named(layout);
    must_sort(&layout);
    first_id(at, inclusive, &layout).map(|id| signed(id, &layout))
}

/// The greatest ID with this time or an earlier one, or only with an earlier one; `None` if there is none.
#[pg_extern(sql = false)]
fn snowflake_last_id(at: TimestampWithTimeZone, inclusive: bool, layout: &[u8]) -> Option<i64> {
    let layout = layout_named(layout);
    must_sort(&layout);
    let last = first_id(at, !inclusive, &layout).map_or(Some(layout.max_id()), |id| id.checked_sub(1));
    last.map(|id| signed(id, &layout))
}

fn first_id(at: TimestampWithTimeZone, inclusive: bool, layout: &Layout) -> Option<u64> {
    if at.is_neg_infinity() {
        return Some(0);
    }
    if at.is_infinity() {
        return None;
    }
    // Ticks begin at whole milliseconds.
    let from = unix_us(at.into()).saturating_add((!inclusive).into());
    let tick = layout.first_tick_from(u64::try_from(from).unwrap_or(0).div_ceil(1000));
    (tick <= layout.last_tick()).then(|| layout.min_id(tick))
}

fn signed(id: u64, layout: &Layout) -> i64 {
    i64::try_from(id).unwrap_or_else(|_| {
        let end = layout.issued_at(i64::MAX.cast_unsigned());
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW,
                "timestamp is after the last bigint of the layout",
            )
            .set_detail(format!("IDs after {} are negative, and do not sort by time.", display_time(end))),
        )
    })
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
