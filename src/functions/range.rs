//! Times as IDs, for selecting rows by time.

use super::layout::{layout_in_force, layout_named, layout_or_default, outside};
use super::time::{unix_ms, unix_us};
use crate::postgres::catalog::type_name;
use crate::postgres::report::{error_report, raise};
use pgrx::prelude::*;
use snowflake_core::display_time;
use snowflake_core::id::layout::{DecodeOnly, Layout, TimeError};

/// The first and the last finite timestamp (`MIN_TIMESTAMP` and `END_TIMESTAMP` of datatype/timestamp.h).
const FIRST_US: i64 = -211_813_488_000_000_000;
const LAST_US: i64 = 9_223_371_331_200_000_000 - 1;

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

/// The lowest ID with this time or a later one, or only with a later one; `None` if there is none.
///
/// A time outside the layout is no error, since the [planner's hook](crate::hooks) puts this where there was a comparison
/// of times. Times before the epoch have negative numbers, as in the arithmetic of a virtual column.
#[pg_extern(sql = false)]
fn snowflake_first_id(at: TimestampWithTimeZone, inclusive: bool, layout: &[u8]) -> Option<i64> {
    first_id(at, inclusive, &layout_named(layout))
}

/// The greatest ID with this time or an earlier one, or only with an earlier one; `None` if there is none.
#[pg_extern(sql = false)]
fn snowflake_last_id(at: TimestampWithTimeZone, inclusive: bool, layout: &[u8]) -> Option<i64> {
    let layout = layout_named(layout);
    let last = || i64::try_from(layout.max_id()).unwrap_or(i64::MAX);
    first_id(at, !inclusive, &layout).map_or_else(|| Some(last()), |id| id.checked_sub(1))
}

fn first_id(at: TimestampWithTimeZone, inclusive: bool, layout: &Layout) -> Option<i64> {
    must_sort(layout);
    if at.is_neg_infinity() {
        return Some(i64::MIN);
    }
    if at.is_infinity() {
        return None;
    }
    let us = |ms: u64| i128::from(ms) * 1000;
    let since_epoch = i128::from(unix_us(at.into())) + i128::from(!inclusive) - us(layout.epoch());
    let tick =
        since_epoch.div_euclid(us(layout.tick_ms())) + i128::from(since_epoch.rem_euclid(us(layout.tick_ms())) > 0);
    let id = tick * i128::from(layout.min_id(1));
    let is_within = id <= i128::from(layout.max_id());
    i64::try_from(id.max(i64::MIN.into())).ok().filter(|_| is_within)
}

/// A timestamp in the session's time zone, as PostgreSQL's operators compare it with a timestamptz: one that none can be is
/// before or after all.
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

/// SQL for the time of the IDs in a column, as a format for the name of the column. The planner's hook knows this form.
#[pg_extern(sql = false)]
fn snowflake_time_format(layout: Option<&[u8]>, of_type: Option<pg_sys::Oid>) -> String {
    let layout = layout_or_default(layout);
    must_sort(&layout);
    if i64::try_from(layout.max_id()).is_err() {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "IDs of this layout can be negative")
                .set_hint("Use snowflake_timestamp(id, layout) instead."),
        )
    }
    let tick = format!("(%I >> {})", layout.min_id(1).trailing_zeros());
    let since_epoch = if layout.tick_ms() == 1 { tick } else { format!("{tick} * {}::bigint", layout.tick_ms()) };
    // Exact in its types, so that it means the same under every search_path.
    let epoch =
        i32::try_from(layout.epoch()).map_or_else(|_| layout.epoch().to_string(), |epoch| format!("{epoch}::bigint"));
    let time = format!("to_timestamp(({since_epoch} + {epoch})::double precision / 1000::double precision)");
    match of_type.unwrap_or(pg_sys::TIMESTAMPTZOID) {
        pg_sys::TIMESTAMPTZOID => time,
        pg_sys::TIMESTAMPOID => format!("{time} AT TIME ZONE 'UTC'"),
        other => raise(
            error_report(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!("{} is no type for a time", type_name(other).to_string_lossy()),
            )
            .set_hint("Use timestamptz, or timestamp."),
        ),
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
