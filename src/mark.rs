//! Keeps the durable mark ahead of the IDs.
//!
//! Two rules make IDs unique on any clock and through any crash:
//!
//! - **I1**: every timestamp issued is below the mark on disk. So the mark is written first, and the generator is
//!   allowed to use it afterwards.
//! - **I2**: after every start of the generator, the first timestamp is at or above the mark that was read.
//!
//! The backend that needs a tick beyond the mark does the work, under a lock, once for everybody who waits for it. No
//! demand, no writes.

use crate::errors::Refusal;
use crate::{clock, gucs, shmem, state_file};
use pgrx::{log, pg_sys};
use snowflake_core::generator::Generator;
use snowflake_core::layout::{Layout, TimeError};
use snowflake_core::{Tick, UnixMs, display_time, reservation};

/// Brings the generator to where it may issue `tick`: starts it if need be, or extends the mark past the tick. The
/// caller has to try again afterwards, and to say how many times it has done so before: where the disk takes longer than
/// the reservation lasts, each time reserves twice as much.
pub fn cover(layout: &Layout, tick: Tick, times_before: u32) -> Result<(), Refusal> {
    let generator = shmem::generator();
    let reserve_ahead_ms = gucs::reserve_ahead_ms() << times_before.min(10);
    let lock = shmem::lock_mark();
    if !generator.is_started() {
        let message = start(layout, generator, tick, reserve_ahead_ms)?;
        // A client that asks for log messages and does not read them must not hold up everybody else.
        drop(lock);
        log!("snowflake_pg: {message}");
        Ok(())
    } else if tick >= generator.covered_until() {
        let end = write(layout, tick, clock::unix_ms(), reserve_ahead_ms)?;
        generator.cover(end);
        Ok(())
    } else {
        Ok(()) // Another backend has done it.
    }
}

/// Starts the generator above everything an earlier life of this server may have issued. Returns what to log of it.
///
/// Not before the first mark of this life is on disk: a directory that can't be written may be the wrong one, and the
/// right one, with the right mark in it, may come back.
fn start(layout: &Layout, generator: &Generator, tick: Tick, reserve_ahead_ms: u64) -> Result<String, Refusal> {
    // SAFETY: set once, when the server starts.
    if unsafe { pg_sys::IsBinaryUpgrade } {
        return Err(Refusal::BinaryUpgrade);
    }
    // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Err(Refusal::InRecovery);
    }
    let found = state_file::read(&gucs::state_directory())?;
    let now = clock::unix_ms();
    let now_tick = layout.tick_at(now).map_err(|error| Refusal::Clock(now, error))?;
    let floor = reservation::floor(found, now, gucs::reserve_ahead_ms());
    // Position 0 is what a generator holds that was not started, so tick 0 is never issued.
    let first = layout.first_tick_from(floor).max(1);
    let end = write(layout, tick.max(first), now, reserve_ahead_ms)?;
    generator.start(first, now_tick);
    generator.cover(end);
    let which = if found.is_some() { "durable mark found" } else { "no durable mark found" };
    Ok(format!("{which}, IDs begin at {} or later", display_time(floor)))
}

/// Makes a mark past `tick` durable, and returns the first tick that it does not cover.
fn write(layout: &Layout, tick: Tick, now: UnixMs, reserve_ahead_ms: u64) -> Result<Tick, Refusal> {
    if tick > layout.last_tick() {
        return Err(Refusal::Clock(now, TimeError::AfterEnd { last: layout.last_time() }));
    }
    let mark = reservation::next_mark(now, layout.time_of(tick), reserve_ahead_ms);
    state_file::write(&gucs::state_directory(), mark)?;
    Ok(layout.first_tick_from(mark))
}
