//! The row of `snowflake_status`.

use super::horizon;
use super::row::{Column, Row, column};
use super::state::Condition;
use super::time::{interval, interval_us, timestamptz};
use crate::config::{gucs, preload};
use crate::errors::sentences;
use crate::postgres::host_number::Resolved;
use crate::postgres::report::{error_report, may_read_all_settings};
use crate::postgres::server_encoding::displayable;
use crate::postgres::{clock, command};
use crate::shared::machine;
use crate::shared::{Shared, shared};
use crate::worker;
use pgrx::prelude::*;
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One row: state and problem, and where the library is preloaded, durable mark and counters.
#[pg_extern(sql = false)]
fn snowflake_get_status() -> Row {
    let condition = Condition::now();
    let state = condition.state;
    let (problem_sqlstate, problem) = parts(condition.problem().as_deref());
    let mut columns = vec![
        ("state", column(state)),
        ("problem_sqlstate", problem_sqlstate),
        ("problem", problem),
        ("library_version", column(env!("CARGO_PKG_VERSION"))),
        ("extension_version", column(extension_version())),
    ];
    if preload::is_done() {
        columns.extend(of_generator());
    } else {
        warn_in_create_extension();
    }
    Row::new(columns)
}

/// The version of the extension in this database. Here and not in the view, which so grows at its end: `CREATE OR
/// REPLACE VIEW` takes no other new column.
fn extension_version() -> Option<String> {
    let query = c"SELECT extversion FROM pg_catalog.pg_extension
        WHERE extname OPERATOR(pg_catalog.=) 'snowflake_pg'::pg_catalog.name";
    let [version] = command::rows::<1>(query).pop()?;
    version?.into_string().ok()
}

/// The columns that only a preloading server has.
fn of_generator() -> Vec<(&'static str, Column)> {
    let Shared { generator, statistics, lease, keeper_pid, .. } = shared();
    let issued = generator.counts().issued;
    let layout = gucs::layout().ok();
    let time_of = |tick| layout.map(|layout| layout.time_of(tick));
    let last = if issued > 0 { time_of(generator.last_tick()) } else { None };
    let mark = if generator.is_started() { time_of(generator.covered_until()) } else { None };
    let counts = statistics.counts(generator.counts());
    let count = |counter: &AtomicU64| number(counter.load(Ordering::Relaxed));
    let time = |counter: &AtomicU64| column(interval_us(counter.load(Ordering::Relaxed)));
    let largest_regression = interval(statistics.largest_regression_ms.load(Ordering::Relaxed));
    let failure = sentences(&lease.failure.read());
    let registry_error = Some(failure).filter(|failure| !failure.is_empty() && may_read_all_settings());
    let at = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed)).filter(|&at| at > 0).map(timestamptz);
    let has_datacenter = |_: &_| layout.is_none_or(|layout| layout.has_datacenter());
    let mark_left = layout.filter(|layout| issued > 0 && is_busy(layout)).map(|layout| {
        let mark = layout.time_of(generator.covered_until());
        interval(mark.saturating_sub(clock::unix_ms()))
    });
    let (clones_detected_by, why_not) = machine::detection();
    let refused_at = at(&statistics.last_refusal_at);
    let refusal = refused_at.map(|_| statistics.last_refusal.read());
    let (refusal_sqlstate, refusal) = parts(refusal.as_deref());
    let max_ids_per_second = |layout: Layout| i64::try_from(layout.ids_per_tick() * 1000 / layout.tick_ms()).ok();
    vec![
        ("worker_id", column(number_of(worker::worker().as_ref()))),
        ("worker_id_source", column(worker::worker().map(|worker| displayable(&worker.source)))),
        ("datacenter_id", column(number_of(worker::datacenter().filter(has_datacenter).as_ref()))),
        (
            "layout",
            column(
                layout.map_or_else(|| gucs::layout_text().to_string_lossy().into_owned(), |layout| layout.to_string()),
            ),
        ),
        ("last_issued_at", column(last.map(timestamptz))),
        ("lead", column(last.map(|last| interval(last.saturating_sub(clock::unix_ms()))))),
        ("horizon_at", column(layout.zip(horizon::known()).map(|(layout, id)| timestamptz(time_of_id(&layout, id))))),
        ("durable_mark", column(mark.map(timestamptz))),
        ("usable_until", column(layout.map(|layout| timestamptz(layout.last_time())))),
        ("lease_until", column(Some(lease.granted_until()).filter(|&until| until > 0).map(timestamptz))),
        ("clock_offset", column(lease.clock_offset_ms().map(|ms| Interval::from_micros(ms.saturating_mul(1000))))),
        ("registry_error", column(registry_error)),
        ("ids_issued", number(counts.issued)),
        ("ticks_exhausted", number(counts.ticks_exhausted)),
        ("borrowed_ids", number(counts.borrowed)),
        ("history_ids", number(counts.history)),
        ("clock_regressions", count(&statistics.clock_regressions)),
        ("largest_regression", column(largest_regression)),
        ("last_regression_at", column(at(&statistics.last_regression_at))),
        ("clock_waits", count(&statistics.waits)),
        ("clock_wait_time", time(&statistics.wait_us)),
        ("refusals", count(&statistics.refusals)),
        ("mark_extensions", count(&statistics.mark_extensions)),
        ("mark_wait_time", time(&statistics.mark_wait_us)),
        ("stats_reset_at", column(at(&statistics.since))),
        ("clones_detected_by", column(clones_detected_by)),
        ("clones_undetected_because", column(why_not.filter(|_| may_read_all_settings()).map(|why| displayable(&why)))),
        ("keeper_pid", column(Some(keeper_pid.load(Ordering::Relaxed)).filter(|&pid| pid > 0))),
        ("last_refusal_at", column(refused_at)),
        ("last_refusal_sqlstate", refusal_sqlstate),
        ("last_refusal", refusal),
        ("max_ids_per_second", column(layout.and_then(max_ids_per_second))),
        ("busiest_second_ids", number(counts.busiest_second)),
        ("mark_left", column(mark_left)),
    ]
}

fn time_of_id(layout: &Layout, id: i64) -> UnixMs {
    layout.issued_at(id.cast_unsigned())
}

/// Whether the keeper keeps the mark ahead of the clock, since IDs were issued a short time ago.
fn is_busy(layout: &Layout) -> bool {
    let last_use = Duration::from_millis(shared().last_timestamp(layout)) + gucs::keep_warm();
    clock::since_1970() < last_use
}

/// The SQLSTATE of the text of an error, for everybody, and its text for users who may read all settings.
fn parts(summary: Option<&str>) -> (Column, Column) {
    let (sqlstate, text) = summary.and_then(|summary| summary.split_once(' ')).unzip();
    (column(sqlstate), column(text.filter(|_| may_read_all_settings()).map(displayable)))
}

/// Warns in CREATE EXTENSION, whose script reads the status.
fn warn_in_create_extension() {
    // SAFETY: a flag of this process.
    if unsafe { pg_sys::creating_extension } {
        error_report(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "snowflake_pg is not loaded via shared_preload_libraries",
        )
        .set_detail("IDs can be decoded but not issued.")
        .set_hint(
            "To issue IDs, add snowflake_pg to shared_preload_libraries, set snowflake_pg.worker_id, and restart the \
             server.",
        )
        .report(PgLogLevel::WARNING); // CREATE EXTENSION hides a NOTICE.
    }
}

fn number(count: u64) -> Column {
    column(i64::try_from(count).ok())
}

fn number_of(resolved: Option<&Resolved>) -> Option<i32> {
    resolved.and_then(|resolved| i32::try_from(resolved.number).ok())
}

/// Resets the counters.
#[pg_extern(sql = false)]
fn snowflake_reset_stats() {
    if preload::is_done() {
        let Shared { generator, statistics, .. } = shared();
        statistics.reset(generator.counts());
        generator.forget_busiest_second();
    }
}
