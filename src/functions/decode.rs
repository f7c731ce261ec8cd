//! Decoding and composing IDs.

use super::layout::{bits, layout_in_force, layout_named, outside, since_1970};
use super::lives;
use super::row::{Column, Row, column};
use super::time::timestamptz;
use crate::postgres::clock;
use crate::postgres::report::{error_report, raise};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_core::UnixMs;
use snowflake_core::id::layout::{FieldKind, Layout, OutOfRange, PRESETS, PartsError};
use std::cmp::Reverse;

/// When an ID was issued.
#[pg_extern(sql = false)]
fn snowflake_timestamp(id: i64) -> TimestampWithTimeZone {
    timestamp(id, &layout_in_force())
}

/// When an ID of another layout was issued.
#[pg_extern(sql = false)]
fn snowflake_timestamp_with_layout(id: i64, layout: &[u8]) -> TimestampWithTimeZone {
    timestamp(id, &layout_named(layout))
}

fn timestamp(id: i64, layout: &Layout) -> TimestampWithTimeZone {
    timestamptz(layout.issued_at(bits(id, layout)))
}

/// The fields of an ID, as a row.
#[pg_extern(sql = false)]
fn snowflake_decode(id: i64) -> Row {
    decode(id, &layout_in_force())
}

/// The fields of an ID of another layout, as a row.
#[pg_extern(sql = false)]
fn snowflake_decode_with_layout(id: i64, layout: &[u8]) -> Row {
    decode(id, &layout_named(layout))
}

/// The fields of an ID under each named layout that has it, except where its time is yet to come.
#[pg_extern(sql = false)]
fn snowflake_decode_all(id: i64) -> SetOfIterator<'static, Row> {
    const DAY: UnixMs = 86_400_000;
    // Another server's clock may be wrong.
    let latest = clock::unix_ms() + DAY;
    let layouts = PRESETS.iter().map(|preset| (preset.name, preset.layout()));
    let mut fitting: Vec<_> = layouts
        .filter(|(_, layout)| id.cast_unsigned() <= layout.max_id())
        .filter(|(_, layout)| layout.issued_at(id.cast_unsigned()) <= latest)
        .collect();
    // An ID of another layout has mostly a time long ago.
    fitting.sort_by_key(|(_, layout)| Reverse(layout.issued_at(id.cast_unsigned())));
    SetOfIterator::new(fitting.into_iter().map(move |(name, layout)| {
        let mut columns = vec![("layout", column(name))];
        columns.extend(fields(id, &layout));
        Row::new(columns)
    }))
}

fn decode(id: i64, layout: &Layout) -> Row {
    Row::new(fields(id, layout))
}

fn fields(id: i64, layout: &Layout) -> [(&'static str, Column); 5] {
    let parts = layout.unpack(bits(id, layout));
    let number = |value: u64| i32::try_from(value).expect("all fields but the timestamp have 31 bits");
    [
        ("issued_at", column(timestamptz(parts.issued_at))),
        ("datacenter_id", column(parts.datacenter.map(number))),
        ("worker_id", column(parts.worker.map(number))),
        ("sequence", column(parts.sequence.map(number))),
        ("tag", column(parts.tag.map(number))),
    ]
}

/// The ID with these fields.
#[pg_extern(sql = false)]
fn snowflake_compose(
    issued_at: Option<TimestampWithTimeZone>,
    datacenter_id: Option<i32>,
    worker_id: Option<i32>,
    sequence: Option<i32>,
    tag: Option<i32>,
) -> Option<i64> {
    compose(issued_at, [datacenter_id, worker_id, sequence], tag, &layout_in_force())
}

/// The ID of another layout with these fields.
#[pg_extern(sql = false)]
fn snowflake_compose_with_layout(
    issued_at: Option<TimestampWithTimeZone>,
    datacenter_id: Option<i32>,
    worker_id: Option<i32>,
    sequence: Option<i32>,
    tag: Option<i32>,
    layout: Option<&[u8]>,
) -> Option<i64> {
    compose(issued_at, [datacenter_id, worker_id, sequence], tag, &layout_named(layout?))
}

/// NULL gives NULL, except for a field that the layout lacks: decoding gives NULL for it. No tag is tag 0.
fn compose(
    issued_at: Option<TimestampWithTimeZone>,
    numbers: [Option<i32>; 3],
    tag: Option<i32>,
    layout: &Layout,
) -> Option<i64> {
    let issued_at = issued_at?;
    let number = |given: Option<i32>, last: u64| if last == 0 { Some(given.unwrap_or(0)) } else { given };
    let datacenter = number(numbers[0], *layout.datacenters().end())?;
    let worker = number(numbers[1], *layout.workers().end())?;
    let sequence = number(numbers[2], (1 << layout.sequence_bits()) - 1)?;
    let tag = tag.unwrap_or(0);
    let packed = since_1970(issued_at, layout).map_err(PartsError::Time).and_then(|at| {
        let tag = layout.tag_bits(tag.into()).map_err(|misfit| PartsError::Number(FieldKind::Tag, misfit))?;
        Ok(layout.pack(at, datacenter.into(), worker.into(), sequence.into())? | tag)
    });
    match packed {
        Ok(id) => Some(id.cast_signed()),
        Err(PartsError::Time(failure)) => raise(outside(layout, failure)),
        Err(PartsError::Number(kind, misfit)) => {
            let name = match kind {
                FieldKind::Datacenter => "datacenter_id",
                FieldKind::Worker => "worker_id",
                FieldKind::Tag => "tag",
                FieldKind::Timestamp | FieldKind::Sequence => "sequence",
            };
            raise(misfit_error(name, &misfit, layout))
        }
    }
}

/// The error for a number that does not fit its field.
pub fn misfit_error(name: &str, misfit: &OutOfRange, layout: &Layout) -> ErrorReport {
    let allowed = match misfit.range {
        (0, 0) => "has no such field".to_owned(),
        (first, last) => format!("allows {first} to {last}"),
    };
    error_report(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} does not fit the layout"))
        .set_detail(format!("{name} is {}, and layout {layout} {allowed}.", misfit.value))
}

/// The bits of an ID, grouped by field.
#[pg_extern(sql = false)]
fn snowflake_explain(id: i64) -> String {
    let layout = layout_in_force();
    explain(id, &layout) + &lives::of_id(id, &layout)
}

/// The bits of an ID of another layout, grouped by field.
#[pg_extern(sql = false)]
fn snowflake_explain_with_layout(id: i64, layout: &[u8]) -> String {
    explain(id, &layout_named(layout))
}

fn explain(id: i64, layout: &Layout) -> String {
    layout.explain(bits(id, layout))
}
