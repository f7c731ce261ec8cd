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
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Brings the generator to where it may issue `tick`: starts it if need be, or extends the mark past the tick. The
/// caller has to try again afterwards, and before that, if a time is returned, to wait for it.
pub fn cover(layout: &Layout, tick: Tick) -> Result<Option<UnixMs>, Refusal> {
    let generator = shmem::generator();
    let lock = shmem::lock_mark();
    if !generator.is_started() {
        let (hold_until, message) = start(layout, generator)?;
        // A client that asks for log messages and does not read them must not hold up everybody else.
        drop(lock);
        log!("snowflake_pg: {message}");
        return Ok(hold_until);
    }
    let hold_until = shmem::hold_until().load(Ordering::Relaxed);
    let now = clock::unix_ms();
    if now < hold_until {
        return Ok(Some(hold_until));
    }
    // Once passed, for good: a clock that is set back later is an ordinary one that is behind.
    shmem::hold_until().store(0, Ordering::Relaxed);
    // If it is covered by now, another backend has done it.
    if tick >= generator.covered_until() {
        let end = write(layout, tick, now)?;
        generator.cover(end);
    }
    Ok(None)
}

/// Starts the generator above everything an earlier life of this server may have issued. Returns until when it has to
/// be held back, and what to log.
///
/// Not before the first mark of this life is on disk: a directory that can't be written may be the wrong one, and the
/// right one, with the right mark in it, may come back. For the same reason a server that finds no mark waits until its
/// clock has passed the floor, instead of going ahead of it: what it has issued by then, a right clock has passed, too.
fn start(layout: &Layout, generator: &Generator) -> Result<(Option<UnixMs>, String), Refusal> {
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
    let end = write(layout, first, now)?;
    let time = display_time(floor);
    if found.is_some() {
        generator.start(first, now_tick);
        generator.cover(end);
        Ok((None, format!("durable mark found, IDs begin at {time} or later")))
    } else {
        shmem::hold_until().store(floor, Ordering::Relaxed);
        generator.start(first, now_tick);
        Ok((Some(floor), format!("no durable mark found, IDs begin at {time}")))
    }
}

/// Makes a mark past `tick` durable, and returns the first tick that it does not cover.
///
/// Where the disk is slow, it reserves for several writes: a mark that has passed before it is on disk would have to be
/// written again at once, and again.
fn write(layout: &Layout, tick: Tick, now: UnixMs) -> Result<Tick, Refusal> {
    if tick > layout.last_tick() {
        return Err(Refusal::Clock(now, TimeError::AfterEnd { last: layout.last_time() }));
    }
    let reserve_ahead_ms = gucs::reserve_ahead_ms().max(4 * shmem::last_write_ms().load(Ordering::Relaxed));
    let mark = reservation::next_mark(now, layout.time_of(tick), reserve_ahead_ms);
    let began = Instant::now();
    state_file::write(&gucs::state_directory(), mark)?;
    let took = UnixMs::try_from(began.elapsed().as_millis()).unwrap_or(UnixMs::MAX / 8);
    shmem::last_write_ms().store(took, Ordering::Relaxed);
    Ok(layout.first_tick_from(mark))
}
