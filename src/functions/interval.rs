//! Intervals as differences of IDs.

use super::layout::{layout_in_force, layout_named};
use super::range::must_sort;
use super::time::display_interval;
use crate::postgres::report::{error_report, raise};
use pgrx::prelude::*;
use snowflake_core::id::layout::Layout;

/// The difference of two IDs that were issued this long apart, in whole ticks.
#[pg_extern(sql = false)]
fn snowflake_interval(length: Interval) -> i64 {
    distance(length, &layout_in_force())
}

/// The difference of two IDs of another layout that were issued this long apart.
#[pg_extern(sql = false)]
fn snowflake_interval_with_layout(length: Interval, layout: &[u8]) -> i64 {
    distance(length, &layout_named(layout))
}

fn distance(length: Interval, layout: &Layout) -> i64 {
    must_sort(layout);
    use PgSqlErrorCode::{ERRCODE_INVALID_PARAMETER_VALUE, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE};
    if length.months() != 0 {
        raise(
            error_report(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "an interval with months and an infinite interval have no \
                                                           fixed length",
            )
            .set_detail(format!("The value is {}.", display_interval(length)))
            .set_hint("Use days, which have 24 hours each."),
        );
    }
    let micros = i128::from(length.days()) * 86_400_000_000 + i128::from(length.micros());
    let refuse = |code, message: &str| {
        raise(
            error_report(code, message)
                .set_detail(format!("The value is {}, and the layout is {layout}.", display_interval(length))),
        )
    };
    let ms = u64::try_from(micros / 1000).unwrap_or(0);
    match layout.distance(ms).map(i64::try_from) {
        _ if micros < 0 => refuse(ERRCODE_INVALID_PARAMETER_VALUE, "the interval must not be negative"),
        Some(Ok(0)) => refuse(ERRCODE_INVALID_PARAMETER_VALUE, "the interval is shorter than a tick of the layout"),
        Some(Ok(distance)) => distance,
        _ => refuse(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "the interval is longer than the layout lasts"),
    }
}
