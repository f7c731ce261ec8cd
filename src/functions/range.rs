//! Times as IDs, for selecting rows by time.

use super::argument::text;
use super::layout::{layout_in_force, layout_named, outside, since_1970};
use super::time::unix_us;
use crate::postgres::catalog::{identifier, type_name};
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::quoted;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_core::display_time;
use snowflake_core::id::layout::{DecodeOnly, Layout};
use std::ffi::CStr;
use std::ops::RangeInclusive;

/// The first and the last finite timestamp (`MIN_TIMESTAMP` and `END_TIMESTAMP` of datatype/timestamp.h).
const FIRST_US: i64 = -211_813_488_000_000_000;
const LAST_US: i64 = 9_223_371_331_200_000_000 - 1;

/// The lowest ID of the tick of a time.
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
    let tick = since_1970(at, layout).and_then(|ms| layout.tick_at(ms));
    let hint = "snowflake_bound() and snowflake_within() take any time.";
    let tick = tick.unwrap_or_else(|failure| raise(outside(layout, failure).set_hint(hint)));
    i64::try_from(layout.min_id(tick)).unwrap_or_else(|_| raise(after_last_bigint(layout)))
}

/// The bound of the IDs whose times compare so with a time.
#[pg_extern(sql = false)]
fn snowflake_bound(at: TimestampWithTimeZone, operator: &[u8]) -> Option<i64> {
    bound(at, operator, &layout_in_force())
}

/// The bound of such IDs in another layout.
#[pg_extern(sql = false)]
fn snowflake_bound_with_layout(at: TimestampWithTimeZone, operator: &[u8], layout: &[u8]) -> Option<i64> {
    bound(at, operator, &layout_named(layout))
}

/// Of the IDs whose times compare so with a time, the lowest for `>=` and `>`, the greatest for `<=` and `<`; `None` if
/// there is none.
///
/// A time outside the layout is no error, since the [planner's hook](crate::hooks) puts this where there was a
/// comparison of times. Times before the epoch have negative numbers, as in the arithmetic of a virtual column.
fn bound(at: TimestampWithTimeZone, operator: &[u8], layout: &Layout) -> Option<i64> {
    must_sort(layout);
    // mutant: range-bound
    let id = match operator {
        b">=" => first_id(at, true, layout),
        b">" => first_id(at, false, layout),
        b"<=" => first_id(at, false, layout) - 1,
        b"<" => first_id(at, true, layout) - 1,
        other => raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("unrecognized operator: {}", quoted(&text("operator", other))),
            )
            .set_hint("Operators are >=, >, <= and <."),
        ),
    };
    i64::try_from(id).ok().filter(|id| numbers(layout).contains(id))
}

/// The numbers that a time of this layout can have, as `bigint`. Of 64 bits, those with the highest bit set do not
/// sort.
fn numbers(layout: &Layout) -> RangeInclusive<i64> {
    i64::try_from(layout.max_id()).map_or(0..=i64::MAX, |last| i64::MIN..=last)
}

/// The first number with this time or a later one, or only with a later one; one past the last if there is none.
fn first_id(at: TimestampWithTimeZone, inclusive: bool, layout: &Layout) -> i128 {
    let [lowest, end] = [i128::from(*numbers(layout).start()), i128::from(*numbers(layout).end()) + 1];
    if at.is_neg_infinity() {
        return lowest;
    }
    if at.is_infinity() {
        return end;
    }
    let us = |ms: u64| i128::from(ms) * 1000;
    let tick_us = us(layout.tick_ms());
    let id_of = |tick: i128| tick * i128::from(layout.min_id(1));
    let since_epoch = i128::from(unix_us(at.into())) - us(layout.epoch());
    if lowest == 0 && id_of(since_epoch.div_euclid(tick_us)) >= end {
        raise(after_last_bigint(layout));
    }
    let since_epoch = since_epoch + i128::from(!inclusive);
    id_of(since_epoch.div_euclid(tick_us) + i128::from(since_epoch.rem_euclid(tick_us) > 0)).clamp(lowest, end)
}

/// The error for a time whose IDs do not sort as `bigint`.
fn after_last_bigint(layout: &Layout) -> ErrorReport {
    let end = layout.issued_at(i64::MAX.cast_unsigned());
    let message = "timestamp is after the last bigint of the layout";
    error_report(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, message)
        .set_detail(format!("IDs after {} are negative, and do not sort by time.", display_time(end)))
}

/// A timestamp in the session's time zone, as PostgreSQL's operators compare it with a timestamptz: one that none can
/// be is before or after all.
#[pg_extern(sql = false)]
fn snowflake_instant(at: Timestamp) -> TimestampWithTimeZone {
    let raw = pg_sys::Timestamp::from(at);
    // SAFETY: takes any two times.
    let compared_with = |bound| unsafe { pg_sys::timestamp_cmp_timestamptz_internal(raw, bound) };
    if compared_with(LAST_US) > 0 {
        TimestampWithTimeZone::positive_infinity()
    } else if compared_with(FIRST_US) < 0 {
        TimestampWithTimeZone::negative_infinity()
    } else {
        at.into()
    }
}

/// The beginning of a date, as PostgreSQL's operators compare it with a timestamp.
#[pg_extern(sql = false)]
fn snowflake_midnight(at: Date) -> Timestamp {
    const DAY_US: i64 = 86_400_000_000;
    if at.is_neg_infinity() {
        return Timestamp::negative_infinity();
    }
    let midnight = i64::from(at.to_pg_epoch_days()).saturating_mul(DAY_US);
    if midnight > LAST_US { Timestamp::positive_infinity() } else { Timestamp::saturating_from_raw(midnight) }
}

/// SQL for the time of the IDs in a column.
#[pg_extern(sql = false)]
fn snowflake_time_expression(column: &CStr, of_type: pg_sys::Oid) -> Vec<u8> {
    time_expression(column, of_type, &layout_in_force())
}

/// SQL for the time of the IDs of another layout in a column.
#[pg_extern(sql = false)]
fn snowflake_time_expression_with_layout(column: &CStr, of_type: pg_sys::Oid, layout: &[u8]) -> Vec<u8> {
    time_expression(column, of_type, &layout_named(layout))
}

/// The planner's hook knows this form. Bytes, since the name is in the encoding of the database.
fn time_expression(column: &CStr, of_type: pg_sys::Oid, layout: &Layout) -> Vec<u8> {
    must_sort(layout);
    if i64::try_from(layout.max_id()).is_err() {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "IDs of this layout can be negative")
                .set_hint("Use snowflake_timestamp(id, layout) instead."),
        )
    }
    let tick = format!(" >> {})", layout.min_id(1).trailing_zeros());
    let since_epoch = if layout.tick_ms() == 1 { tick } else { format!("{tick} * {}::bigint", layout.tick_ms()) };
    // Exact in its types, so that it means the same under every search_path.
    let epoch =
        i32::try_from(layout.epoch()).map_or_else(|_| layout.epoch().to_string(), |epoch| format!("{epoch}::bigint"));
    let in_zone = match of_type {
        pg_sys::TIMESTAMPTZOID => "",
        pg_sys::TIMESTAMPOID => " AT TIME ZONE 'UTC'",
        other => raise(
            error_report(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!("{} is no type for a time", type_name(other).to_string_lossy()),
            )
            .set_hint("Use timestamptz, or timestamp."),
        ),
    };
    let rest = format!("{since_epoch} + {epoch})::double precision / 1000::double precision){in_zone}");
    [b"to_timestamp(((", identifier(column).as_slice(), rest.as_bytes()].concat()
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
