//! The layouts of the functions, and the named ones.

use super::argument::{negative, short};
use super::row::{Row, column};
use super::time::{interval, timestamptz, unix_ms};
use crate::config::layout_cache;
use crate::postgres::clock;
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{characters, displayable, quoted};
use crate::worker;
use pgrx::prelude::*;
use snowflake_core::id::layout::{Layout, PRESETS, TimeError};
use snowflake_core::{UnixMs, display_time};

/// The layout of functions without a layout argument.
pub fn layout_in_force() -> Layout {
    worker::layout_in_force().unwrap_or_else(|error| error.raise())
}

/// The layout of an argument.
pub fn layout_named(text: &[u8]) -> Layout {
    layout_cache::known(text).unwrap_or_else(|| parse(short("layout", text)))
}

#[cold]
fn parse(text: &[u8]) -> Layout {
    layout_cache::by_text(text).unwrap_or_else(|failure| {
        let text = quoted(&characters(text));
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, format!("invalid layout: {text}"))
                .set_detail(format!("{}.", displayable(&failure.to_string())))
                .set_hint("See the view snowflake_layouts."),
        )
    })
}

/// The bits of an ID; an ERROR if the layout has no such ID.
pub fn bits(id: i64, layout: &Layout) -> u64 {
    // Only layouts of 64 bits have negative IDs.
    let bits = id.cast_unsigned();
    if bits > layout.max_id() {
        refuse(id, layout);
    }
    bits
}

#[cold]
fn refuse(id: i64, layout: &Layout) -> ! {
    if id < 0 {
        raise(negative(id));
    }
    let max = layout.max_id();
    raise(
        error_report(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "the ID does not fit the layout")
            .set_detail(format!("The ID is {id}, and the greatest ID of layout {layout} is {max}.")),
    )
}

/// The error for a time outside the layout.
pub fn outside(layout: &Layout, outside: TimeError) -> pgrx::pg_sys::panic::ErrorReport {
    let message = match outside {
        TimeError::BeforeEpoch { .. } => "timestamp is before the epoch of the layout",
        TimeError::AfterEnd { .. } => "timestamp is after the end of the layout",
    };
    error_report(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, message).set_detail(format!(
        "IDs of this layout have timestamps from {} to {}.",
        display_time(layout.epoch()),
        display_time(layout.last_time())
    ))
}

/// The Unix millisecond of a time, as layouts take it: infinite ones are outside of all.
pub fn since_1970(at: TimestampWithTimeZone, layout: &Layout) -> Result<UnixMs, TimeError> {
    if at.is_infinity() && !at.is_neg_infinity() {
        return Err(TimeError::AfterEnd { last: layout.last_time() });
    }
    unix_ms(at).ok_or(TimeError::BeforeEpoch { epoch: layout.epoch() })
}

/// The named layouts.
#[pg_extern(sql = false)]
fn snowflake_get_layouts() -> SetOfIterator<'static, Row> {
    let now = clock::unix_ms();
    SetOfIterator::new(PRESETS.iter().map(move |preset| {
        let layout = preset.layout();
        let numbers = |range: std::ops::RangeInclusive<u64>| range.end().cast_signed() + 1;
        Row::new([
            ("name", column(preset.name)),
            ("fields", column(layout.fields_text())),
            ("unit", column(interval(layout.tick_ms()))),
            ("epoch", column(timestamptz(layout.epoch()))),
            ("usable_until", column(timestamptz(layout.last_time()))),
            ("years", column((layout.years() * 10.0).round() / 10.0)),
            ("workers", column(numbers(layout.datacenters()) * numbers(layout.workers()))),
            ("max_ids_per_second", column((1000 << layout.sequence_bits()) / layout.tick_ms().cast_signed())),
            ("can_issue", column(layout.check_issuing().is_ok() && layout.tick_at(now).is_ok())),
            ("source", column(preset.source)),
        ])
    }))
}
