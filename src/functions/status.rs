//! What a DBA looks at.

use super::row::Row;
use super::time::{interval, timestamptz};
use crate::errors::Refusal;
use crate::shmem::shared;
use crate::{clock, gucs, identity, preload};
use pgrx::IntoDatum;
use pgrx::prelude::*;
use std::sync::atomic::Ordering;

/// One row: the configuration in force, the durable mark, and what was issued since the server started.
#[pg_extern(sql = false)]
fn snowflake_get_status() -> Row<12> {
    // SAFETY: in the order and of the types declared.
    unsafe { Row::new(status()) }
}

fn status() -> [Option<pg_sys::Datum>; 12] {
    if !preload::is_done() {
        let mut columns = [None; 12];
        columns[0] = "not preloaded".into_datum();
        return columns;
    }
    let generator = &shared().generator;
    let issued = generator.issued();
    let state = match identity::configured() {
        Err(Refusal::WorkerUnset) => "worker unset",
        Err(_) => "misconfigured",
        // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
        Ok(_) if unsafe { pg_sys::RecoveryInProgress() } => "standby",
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
    [
        state.into_datum(),
        gucs::worker_id().into_datum(),
        gucs::datacenter_id().into_datum(),
        layout.map_or_else(|| text.to_string(), |layout| format!("{text} ({layout})")).into_datum(),
        interval(gucs::max_borrow_ms()).into_datum(),
        interval(gucs::max_wait_ms()).into_datum(),
        interval(gucs::reserve_ahead_ms()).into_datum(),
        last.map(timestamptz).into_datum(),
        last.map(|last| interval(last.saturating_sub(clock::unix_ms()))).into_datum(),
        mark.map(timestamptz).into_datum(),
        i64::try_from(issued).ok().into_datum(),
        layout.map(|layout| timestamptz(layout.last_time())).into_datum(),
    ]
}
