//! Shows the partitions of a table.

use super::parent::{Parent, Partition, class, try_open};
use crate::functions::layout::{layout_in_force, layout_named};
use crate::functions::range::must_sort;
use crate::functions::row::{Row, column};
use crate::functions::time::timestamptz;
use crate::postgres::catalog::{relation_kind, with_children};
use pgrx::prelude::*;
use pgrx::{IntoDatum, direct_function_call};
use snowflake_core::id::layout::Layout;
use std::ops::Range;

/// The partitions of a table, with their times and sizes.
#[pg_extern(sql = false)]
fn snowflake_partitions(parent: pg_sys::Oid) -> SetOfIterator<'static, Row> {
    partitions(parent, &layout_in_force())
}

/// The partitions of a table with IDs of another layout.
#[pg_extern(sql = false)]
fn snowflake_partitions_with_layout(parent: pg_sys::Oid, layout: &[u8]) -> SetOfIterator<'static, Row> {
    partitions(parent, &layout_named(layout))
}

fn partitions(parent: pg_sys::Oid, layout: &Layout) -> SetOfIterator<'static, Row> {
    must_sort(layout);
    let parent = Parent::read(parent);
    let of_times = parent.partitions.iter().map(|partition| row(partition.table, Some(times(partition, layout))));
    SetOfIterator::new(of_times.chain(parent.default.map(|table| row(table, None))).collect::<Vec<_>>())
}

/// A partition. A default partition has no times.
pub(super) fn row(table: pg_sys::Oid, times: Option<Range<TimestampWithTimeZone>>) -> Row {
    let (begins_at, ends_at) = times.map(|times| (times.start, times.end)).unzip();
    let size = Size::measure(table);
    Row::new([
        ("partition", column(table)),
        ("begins_at", column(begins_at)),
        ("ends_at", column(ends_at)),
        ("rows", column(size.rows)),
        ("bytes", column(size.bytes)),
    ])
}

/// When the IDs of a partition begin and end.
fn times(partition: &Partition, layout: &Layout) -> Range<TimestampWithTimeZone> {
    let ids = &partition.ids;
    let since = if ids.start == 0 {
        TimestampWithTimeZone::negative_infinity()
    } else if ids.start > layout.max_id() {
        TimestampWithTimeZone::positive_infinity()
    } else {
        timestamptz(layout.issued_at(ids.start))
    };
    let until = if ids.end > layout.max_id() {
        TimestampWithTimeZone::positive_infinity()
    } else {
        timestamptz(layout.issued_at(ids.end - 1) + layout.tick_ms())
    };
    since..until
}

/// What a partition and its own partitions hold.
#[derive(Default)]
struct Size {
    /// The rows, as ANALYZE has estimated them last; `None` if it never has.
    rows: Option<i64>,
    bytes: i64,
}

impl Size {
    fn measure(table: pg_sys::Oid) -> Self {
        let mut size = Self::default();
        for table in with_children(table) {
            // SAFETY: takes the OID of a relation, and gives its size, or NULL if there is none.
            let bytes: Option<i64> =
                unsafe { direct_function_call(pg_sys::pg_total_relation_size, &[table.into_datum()]) };
            size.bytes += bytes.unwrap_or(0);
            if let Some(rows) = estimated_rows(table) {
                size.rows = Some(size.rows.unwrap_or(0) + rows);
            }
        }
        size
    }
}

/// The rows of one table, as ANALYZE has estimated them.
#[expect(clippy::cast_possible_truncation, reason = "a number of rows")]
fn estimated_rows(table: pg_sys::Oid) -> Option<i64> {
    let relation = try_open(table, pg_sys::AccessShareLock)?;
    let class = class(&relation);
    let (kind, rows) = (class.relkind, class.reltuples);
    // A partitioned table has no rows of its own.
    (relation_kind(kind) != pg_sys::RELKIND_PARTITIONED_TABLE && rows >= 0.0).then_some(rows as i64)
}
