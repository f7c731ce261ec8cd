//! The status of this server.

use super::row::{Column, Row, column};
use super::time::{interval, interval_us, timestamptz};
use crate::clock;
use crate::config::{gucs, preload};
use crate::durable::{identity, wal};
use crate::errors::{ConfigurationError, IssueError, error_report, may_read_all_settings, sentences};
use crate::host_number::Resolved;
use crate::issue::issuer;
use crate::libpq::Failure;
use crate::server_encoding::shown;
use crate::shared::lease::SharedLease;
use crate::shared::{Shared, shared};
use crate::worker;
use pgrx::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// One row: state, settings, durable mark and counters.
#[pg_extern(sql = false)]
fn snowflake_get_status() -> Row {
    if !preload::is_done() {
        warn_in_create_extension();
        return Row::of([("state", column(state()))]);
    }
    let Shared { generator, statistics, lease, .. } = shared();
    let issued = generator.counts().issued;
    let layout = gucs::layout().ok();
    let time_of = |tick| layout.map(|layout| layout.time_of(tick));
    let last = if issued > 0 { time_of(generator.last_tick()) } else { None };
    let mark = if generator.is_started() { time_of(generator.covered_until()) } else { None };
    let text = gucs::layout_text();
    let text = text.to_string_lossy();
    let counts = statistics.counts(generator.counts());
    let count = |counter: &AtomicU64| number(counter.load(Ordering::Relaxed));
    let time = |counter: &AtomicU64| column(interval_us(counter.load(Ordering::Relaxed)));
    let largest_regression = interval(statistics.largest_regression_ms.load(Ordering::Relaxed));
    let failure = sentences(&Failure::from_text(&lease.failure.read()));
    let registry_error = Some(failure).filter(|failure| !failure.is_empty() && may_read_all_settings());
    let at = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed)).filter(|&at| at > 0).map(timestamptz);
    Row::of([
        ("state", column(state())),
        ("worker_id", column(number_of(worker::worker().as_ref()))),
        ("worker_id_source", column(worker::worker().map(|worker| shown(&worker.source)))),
        ("datacenter_id", column(number_of(worker::datacenter().as_ref()))),
        ("layout", column(layout.map_or_else(|| text.to_string(), |layout| format!("{text} ({layout})")))),
        ("clock_regression", column(gucs::clock_regression().to_string())),
        ("sequence_exhaustion", column(gucs::sequence_exhaustion().to_string())),
        ("sequence_start", column(gucs::sequence_start().to_string())),
        ("max_borrow", column(interval(gucs::max_borrow_ms()))),
        ("max_wait", column(interval(gucs::max_wait_ms()))),
        ("reserve_ahead", column(interval(gucs::reserve_ahead_ms()))),
        ("last_issued_at", column(last.map(timestamptz))),
        ("lead", column(last.map(|last| interval(last.saturating_sub(clock::unix_ms()))))),
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
        ("waits", count(&statistics.waits)),
        ("wait_time", time(&statistics.wait_us)),
        ("refusals", count(&statistics.refusals)),
        ("mark_extensions", count(&statistics.mark_extensions)),
        ("mark_wait_time", time(&statistics.mark_wait_us)),
        ("stats_reset", column(at(&statistics.since))),
    ])
}

/// What this server does at present, in a word.
pub fn state() -> &'static str {
    if !preload::is_done() {
        return "not preloaded";
    }
    let Shared { generator, lease, .. } = shared();
    let in_recovery = is_in_recovery();
    match worker::layout_and_series() {
        Err(IssueError::Configuration(ConfigurationError::WorkerUnset(_))) => "worker unset",
        Ok(_) | Err(IssueError::Lease(_) | IssueError::Configuration(ConfigurationError::NoGroup(_)))
            if in_recovery =>
        {
            let is_in_wal =
                || worker::numbers().and_then(|(own, _)| wal::read(own)).is_ok_and(|own| own.mark.is_some());
            if identity::is_shared_with_source() && !is_in_wal() { "shared worker" } else { "standby" }
        }
        Err(IssueError::Lease(_)) => "no lease",
        Err(_) => "misconfigured",
        Ok((layout, _)) if layout.tick_at(clock::unix_ms()).is_err() => "outside the layout",
        Ok(_) if has_no_lease(lease) => "no lease",
        Ok(_) if !generator.is_started() && shared().mark.is_reset() => "clock behind",
        Ok(_) if !generator.is_started() && shared().mark.not_before() > 0 => "waiting",
        Ok(_) if !generator.is_started() => "not started",
        Ok((layout, _)) if issuer::clock_error(&layout).is_some() => "clock behind",
        Ok(_) if generator.counts().issued == 0 => "idle",
        Ok(_) => "ready",
    }
}

/// Whether this server is a standby, or has not finished its recovery.
pub fn is_in_recovery() -> bool {
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Whether the registry has leased nothing to this server, or the lease has ended.
pub fn has_no_lease(lease: &SharedLease) -> bool {
    worker::needs_lease() && (lease.worker().is_none() || lease.granted_until() <= clock::unix_ms())
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

pub fn number(count: u64) -> Column {
    column(i64::try_from(count).ok())
}

fn number_of(found: Option<&Resolved>) -> Option<i32> {
    found.and_then(|found| i32::try_from(found.number).ok())
}

/// Resets the counters.
#[pg_extern(sql = false)]
fn snowflake_stats_reset() {
    if preload::is_done() {
        let Shared { generator, statistics, .. } = shared();
        statistics.reset(generator.counts());
        generator.forget_busiest_second();
    }
}
