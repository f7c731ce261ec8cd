//! What a DBA looks at.

use super::row::Row;
use super::time::{interval, interval_us, timestamptz};
use crate::errors::Refusal;
use crate::shmem::{Shared, shared};
use crate::{clock, gucs, identity, preload};
use pgrx::IntoDatum;
use pgrx::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

const COLUMNS: usize = 27;

/// One row: the configuration in force, the durable mark, and what was issued since the server started.
#[pg_extern(sql = false)]
fn snowflake_get_status() -> Row<COLUMNS> {
    // SAFETY: in the order and of the types declared.
    unsafe { Row::new(status()) }
}

fn status() -> [Option<pg_sys::Datum>; COLUMNS] {
    if !preload::is_done() {
        let mut columns = [None; COLUMNS];
        columns[0] = "not preloaded".into_datum();
        return columns;
    }
    let Shared { generator, statistics, .. } = shared();
    let issued = generator.counts().issued;
    let state = match identity::configured() {
        Err(Refusal::WorkerUnset) => "worker unset",
        Err(_) => "misconfigured",
        // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
        Ok(_) if unsafe { pg_sys::RecoveryInProgress() } => "standby",
        Ok((layout, _)) if layout.tick_at(clock::unix_ms()).is_err() => "outside the layout",
        Ok(_) if !generator.is_started() && shared().hold_until.load(Ordering::Relaxed) > 0 => "waiting",
        Ok(_) if !generator.is_started() => "not started",
        Ok(_) if issued == 0 => "idle",
        Ok(_) => "ready",
    };
    let layout = gucs::layout().ok();
    let time_of = |tick| layout.map(|layout| layout.time_of(tick));
    let last = if issued > 0 { time_of(generator.last_tick()) } else { None };
    let mark = if generator.is_started() { time_of(generator.covered_until()) } else { None };
    let text = gucs::layout_text();
    let text = text.to_string_lossy();
    let policy = gucs::policy(layout.map_or(1, |layout| layout.unit_ms()));
    let counts = statistics.counts(generator.counts());
    let count = |counter: &AtomicU64| number(counter.load(Ordering::Relaxed));
    let time = |counter: &AtomicU64| interval_us(counter.load(Ordering::Relaxed)).into_datum();
    let largest_regression = interval(statistics.largest_regression_ms.load(Ordering::Relaxed));
    let at = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed)).filter(|&at| at > 0).map(timestamptz);
    [
        state.into_datum(),
        gucs::worker_id().into_datum(),
        gucs::datacenter_id().into_datum(),
        layout.map_or_else(|| text.to_string(), |layout| format!("{text} ({layout})")).into_datum(),
        policy.clock_regression.to_string().into_datum(),
        policy.sequence_exhaustion.to_string().into_datum(),
        policy.sequence_start.to_string().into_datum(),
        interval(gucs::max_borrow_ms()).into_datum(),
        interval(gucs::max_wait_ms()).into_datum(),
        interval(gucs::reserve_ahead_ms()).into_datum(),
        last.map(timestamptz).into_datum(),
        last.map(|last| interval(last.saturating_sub(clock::unix_ms()))).into_datum(),
        mark.map(timestamptz).into_datum(),
        layout.map(|layout| timestamptz(layout.last_time())).into_datum(),
        number(counts.issued),
        number(counts.ticks_exhausted),
        number(counts.borrowed),
        number(counts.history),
        count(&statistics.clock_regressions),
        largest_regression.into_datum(),
        at(&statistics.last_regression_at).into_datum(),
        count(&statistics.waits),
        time(&statistics.wait_us),
        count(&statistics.refusals),
        count(&statistics.mark_extensions),
        time(&statistics.mark_wait_us),
        at(&statistics.since).into_datum(),
    ]
}

fn number(count: u64) -> Option<pg_sys::Datum> {
    i64::try_from(count).ok().into_datum()
}

/// Begins to count anew what [`snowflake_get_status`] shows.
#[pg_extern(sql = false)]
fn snowflake_stats_reset() {
    if preload::is_done() {
        let Shared { generator, statistics, .. } = shared();
        statistics.reset(generator.counts());
    }
}
