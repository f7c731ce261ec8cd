//! Shows the partitions of a table, and drops old ones.

use super::parent::{Parent, Partition, class, try_open};
use crate::functions::layout::{layout_in_force, layout_named};
use crate::functions::range::must_sort;
use crate::functions::row::{Column, Row, column};
use crate::functions::time::{timestamptz, unix_ms};
use crate::postgres::catalog::{name_of_table, relation_kind, with_children};
use crate::postgres::clock;
use crate::postgres::command::run;
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::characters;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;
use pgrx::{IntoDatum, direct_function_call};
use snowflake_core::display_time;
use snowflake_core::id::layout::Layout;
use std::ops::Range;

// pgrx has no bindings for catalog/pg_inherits.h.
unsafe extern "C-unwind" {
    fn PartitionHasPendingDetach(partition: pg_sys::Oid) -> bool;
}

/// The partitions of a table, with their times and sizes.
#[pg_extern(sql = false)]
fn snowflake_partitions(parent: pg_sys::Oid) -> SetOfIterator<'static, Row> {
    partitions(parent, layout_in_force())
}

/// The partitions of a table with IDs of another layout.
#[pg_extern(sql = false)]
fn snowflake_partitions_with_layout(parent: pg_sys::Oid, layout: &[u8]) -> SetOfIterator<'static, Row> {
    partitions(parent, layout_named(layout))
}

fn partitions(parent: pg_sys::Oid, layout: Layout) -> SetOfIterator<'static, Row> {
    must_sort(&layout);
    let parent = Parent::read(parent);
    let of_times = parent.partitions.iter().map(|partition| row(partition.table, Some(times(partition, &layout))));
    SetOfIterator::new(of_times.chain(parent.default.map(|table| row(table, None))).collect::<Vec<_>>())
}

/// A partition. A default partition has no times.
pub(super) fn row(table: pg_sys::Oid, times: Option<Range<TimestampWithTimeZone>>) -> Row {
    Row::new([&[("partition", column(table))][..], &times_and_size(times, &Size::measure(table))].concat())
}

/// Columns of all functions of partitions.
fn times_and_size(times: Option<Range<TimestampWithTimeZone>>, size: &Size) -> [(&'static str, Column); 4] {
    let (since, until) = times.map(|times| (times.start, times.end)).unzip();
    [("since", column(since)), ("until", column(until)), ("rows", column(size.rows)), ("bytes", column(size.bytes))]
}

/// Drops partitions whose IDs are all older than a time, or returns the commands that do.
#[pg_extern(sql = false)]
fn snowflake_drop_partitions(
    parent: pg_sys::Oid,
    before: TimestampWithTimeZone,
    dry_run: bool,
) -> SetOfIterator<'static, Row> {
    SetOfIterator::new(drop_partitions(parent, before, dry_run, layout_in_force()))
}

/// Drops such partitions of IDs of another layout.
#[pg_extern(sql = false)]
fn snowflake_drop_partitions_with_layout(
    parent: pg_sys::Oid,
    before: TimestampWithTimeZone,
    dry_run: bool,
    layout: &[u8],
) -> SetOfIterator<'static, Row> {
    SetOfIterator::new(drop_partitions(parent, before, dry_run, layout_named(layout)))
}

fn drop_partitions(parent: pg_sys::Oid, before: TimestampWithTimeZone, dry_run: bool, layout: Layout) -> Vec<Row> {
    must_sort(&layout);
    let end = first_id_kept(before, &layout);
    let parent = if dry_run {
        Parent::read(parent)
    } else {
        // SAFETY: a C string. Before the lock, which a standby cannot take.
        unsafe { pg_sys::PreventCommandIfReadOnly(c"snowflake_drop_partitions()".as_ptr()) };
        Parent::lock(parent)
    };
    let mut rows = Vec::new();
    // mutant: old-to-its-end
    for partition in parent.partitions.iter().filter(|partition| partition.ids.end <= end) {
        let Some(name) = name_of_table(partition.table) else { continue };
        let size = Size::measure(partition.table);
        let times = times(partition, &layout);
        let mut commands = vec![[b"DROP TABLE ", name.as_slice()].concat()];
        if dry_run {
            commands.insert(0, detach(&parent, partition, &name));
        }
        for command in commands {
            if !dry_run {
                run(&[&command]);
            }
            let [command, name] = [&command, &name].map(|text| characters(text).into_owned());
            let names = [("command", column(command)), ("partition", column(name))];
            rows.push(Row::new([&names[..], &times_and_size(Some(times.clone()), &size)].concat()));
        }
    }
    rows
}

/// The command that detaches a partition; readers and writers continue, if PostgreSQL can do that.
fn detach(parent: &Parent, partition: &Partition, name: &[u8]) -> Vec<u8> {
    let how = if has_pending_detach(partition.table) {
        " FINALIZE"
    } else if parent.default.is_some() {
        ""
    } else {
        " CONCURRENTLY"
    };
    [b"ALTER TABLE ", parent.qualified_name().as_slice(), b" DETACH PARTITION ", name, how.as_bytes()].concat()
}

/// Whether DETACH PARTITION ... CONCURRENTLY was interrupted.
fn has_pending_detach(partition: pg_sys::Oid) -> bool {
    // SAFETY: looks for any OID in the catalog. An ERROR passes only frames of C.
    unsafe { pg_guard_ffi_boundary(|| PartitionHasPendingDetach(partition)) }
}

/// The lowest ID that is not older than a time; an ERROR for a time to come.
fn first_id_kept(before: TimestampWithTimeZone, layout: &Layout) -> u64 {
    let now = clock::unix_ms();
    let is_future = before.is_infinity() || unix_ms(before).is_some_and(|before| before > now);
    if before.is_neg_infinity() {
        return 0;
    }
    // mutant: partitions-in-use
    if is_future {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "before must not be in the future")
                .set_detail(format!("The clock shows {}.", display_time(now)))
                .set_hint("Use, for example, now() - interval '90 days'."),
        );
    }
    // Nothing is older than the epoch.
    let tick = unix_ms(before).and_then(|before| layout.tick_at(before).ok());
    tick.map_or(0, |tick| layout.min_id(tick))
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
