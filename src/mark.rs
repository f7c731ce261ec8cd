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
use snowflake_core::{Tick, display_time, reservation};

/// Brings the generator to where it may issue `tick`: starts it if need be, or extends the mark past the tick. The
/// caller has to try again afterwards.
pub fn cover(layout: &Layout, tick: Tick) -> Result<(), Refusal> {
    let generator = shmem::generator();
    let lock = shmem::lock_mark();
    if !generator.is_started() {
        let message = start(layout, generator)?;
        // A client that asks for log messages and does not read them must not hold up everybody else.
        drop(lock);
        log!("snowflake_pg: {message}");
        Ok(())
    } else if tick >= generator.covered_until() {
        extend(layout, generator, tick)
    } else {
        Ok(()) // Another backend has done it.
    }
}

/// Starts the generator above everything an earlier life of this server may have issued. Returns what to log of it.
fn start(layout: &Layout, generator: &Generator) -> Result<String, Refusal> {
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
    let floor = reservation::floor(found, now);
    // Position 0 is what a generator holds that was not started, so tick 0 is never issued.
    generator.start(layout.first_tick_from(floor).max(1), now_tick);
    let which = if found.is_some() { "durable mark found" } else { "no durable mark found" };
    Ok(format!("{which}, IDs begin at {} or later", display_time(floor)))
}

/// Makes a mark past `tick` durable, then lets the generator use it.
fn extend(layout: &Layout, generator: &Generator, tick: Tick) -> Result<(), Refusal> {
    let now = clock::unix_ms();
    if tick > layout.last_tick() {
        return Err(Refusal::Clock(now, TimeError::AfterEnd { last: layout.last_time() }));
    }
    let mark = reservation::next_mark(now, layout.time_of(tick), gucs::reserve_ahead_ms());
    state_file::write(&gucs::state_directory(), mark)?;
    generator.cover(layout.first_tick_from(mark));
    Ok(())
}
