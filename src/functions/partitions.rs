//! Partitions by time: ranges of IDs for a day, a month or another period.

mod listed;
mod parent;

use super::layout::{layout_in_force, layout_named};
use super::range::must_sort;
use super::row::Row;
use super::time::{display_interval, timestamptz};
use crate::postgres::clock;
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{characters, quoted};
use listed::row;
use parent::Parent;
use pgrx::prelude::*;
use snowflake_core::display_time;
use snowflake_core::id::layout::Layout;
use snowflake_core::id::periods::{self, Every};
use std::ops::Range;

/// The limit of periods in one call. Each takes some milliseconds, and a lock until the end of the transaction.
const MAX_AHEAD: u32 = 1000;

/// Creates missing partitions for the current period and the `ahead` following ones.
#[pg_extern(sql = false)]
fn snowflake_create_partitions(parent: pg_sys::Oid, every: Interval, ahead: i32) -> SetOfIterator<'static, Row> {
    create_partitions(parent, every, ahead, layout_in_force())
}

/// Creates missing partitions for IDs of another layout.
#[pg_extern(sql = false)]
fn snowflake_create_partitions_with_layout(
    parent: pg_sys::Oid,
    every: Interval,
    ahead: i32,
    layout: &[u8],
) -> SetOfIterator<'static, Row> {
    create_partitions(parent, every, ahead, layout_named(layout))
}

fn create_partitions(parent: pg_sys::Oid, every: Interval, ahead: i32, layout: Layout) -> SetOfIterator<'static, Row> {
    // SAFETY: a C string. Before the lock, which a standby cannot take.
    unsafe { pg_sys::PreventCommandIfReadOnly(c"snowflake_create_partitions()".as_ptr()) };
    must_sort(&layout);
    let every = length(every);
    let Some(ahead) = u32::try_from(ahead).ok().filter(|&ahead| ahead <= MAX_AHEAD) else {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("ahead must be between 0 and {MAX_AHEAD}"),
            )
            .set_detail(format!("The value is {ahead}.")),
        )
    };
    let parent = Parent::lock(parent);
    // Under the lock, since the call may have waited for it.
    let periods = periods::ids(&layout, every, clock::unix_ms(), ahead).unwrap_or_else(|last| {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW,
                "the layout ends before the last partition begins",
            )
            .set_detail(format!("The layout is {layout}, and its last timestamp is {}.", display_time(last)))
            .set_hint("Ask for fewer partitions ahead, or for shorter ones."),
        )
    });
    let mut covered = parent.ranges();
    let missing: Vec<_> = periods.into_iter().flat_map(|period| periods::uncovered(period, &covered)).collect();
    let rows: Vec<_> = missing
        .iter()
        .map(|ids| {
            let from = layout.issued_at(ids.start);
            let until = layout.issued_at(ids.end - 1) + layout.tick_ms();
            let partition = create(&parent, ids, from..until);
            row(partition, Some(timestamptz(from)..timestamptz(until)))
        })
        .collect();
    covered.extend(missing);
    say_reach(&parent, covered, &layout);
    SetOfIterator::new(rows)
}

/// Says until when the partitions reach from now on, without a gap.
fn say_reach(parent: &Parent, mut covered: Vec<Range<u64>>, layout: &Layout) {
    covered.sort_unstable_by_key(|ids| ids.start);
    let now = layout.tick_at(clock::unix_ms()).map_or(0, |tick| layout.min_id(tick));
    let reach = covered.iter().fold(now, |reach, ids| if ids.contains(&reach) { ids.end } else { reach });
    let until = if reach > layout.max_id() {
        "the end of the layout".to_owned()
    } else {
        display_time(layout.issued_at(reach)).to_string()
    };
    error_report(
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("partitions of {} reach until {until}", parent.display_name()),
    )
    .report(PgLogLevel::NOTICE);
}

/// Creates a partition for the IDs of a period, in Unix milliseconds.
fn create(parent: &Parent, ids: &Range<u64>, time: Range<u64>) -> pg_sys::Oid {
    let name = parent.partition_name(&periods::suffix(time.start));
    if parent.find(&name).is_some() {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_DUPLICATE_TABLE,
                format!("relation {} already exists", quoted(&characters(name.to_bytes()))),
            )
            .set_detail(format!(
                "A partition from {} until {} is missing, and would have this name.",
                display_time(time.start),
                display_time(time.end)
            ))
            .set_hint("Rename it. If it contains the IDs of that time, use ALTER TABLE ... ATTACH PARTITION."),
        );
    }
    parent.create_partition(&name, ids)
}

fn length(every: Interval) -> Every {
    Every::new(every.months(), every.days(), every.micros()).unwrap_or_else(|| {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                "every must be a number of months, or a whole number of seconds",
            )
            .set_detail(format!("The value is {}.", display_interval(every)))
            .set_hint("Use, for example, interval '1 hour', '1 day', '1 week', '1 month' or '1 year'."),
        )
    })
}
