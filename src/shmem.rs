//! The memory that all backends of a server share.
//!
//! PostgreSQL sets it up when the server starts, and again after every crash of a backend: the generator then begins
//! anew, and refuses everything until it has been started above the durable mark (see [`crate::mark`]).

use crate::gucs;
use pgrx::prelude::*;
use pgrx::shmem::PGRXSharedMemory;
use pgrx::{PgAtomic, PgLwLock, PgLwLockExclusiveGuard, pg_shmem_init};
use snowflake_core::generator::Generator;
use std::sync::atomic::AtomicU64;

/// What lies in shared memory.
struct Shared {
    generator: Generator,
    /// A server that found no mark issues nothing before this time, in Unix milliseconds; 0 once it has passed. Written
    /// under the lock.
    hold_until: AtomicU64,
    /// How long the last write of the mark took, in milliseconds. Written under the lock.
    last_write_ms: AtomicU64,
}

// SAFETY: made of atomics, and of numbers that nobody changes; no pointers.
unsafe impl PGRXSharedMemory for Shared {}

// SAFETY: no other library uses the names of this extension.
static SHARED: PgAtomic<Shared> = unsafe { PgAtomic::new(c"snowflake_pg") };

/// Held while the generator is started and while the mark is extended.
// SAFETY: as above.
static MARK_LOCK: PgLwLock<()> = unsafe { PgLwLock::new(c"snowflake_pg_mark") };

/// Asks PostgreSQL for the memory. Only while preloading.
pub fn reserve() {
    pg_shmem_init!(
        SHARED = Shared {
            generator: Generator::new(layout_sequence_bits()),
            hold_until: AtomicU64::new(0),
            last_write_ms: AtomicU64::new(0),
        }
    );
    pg_shmem_init!(MARK_LOCK = ());
}

/// Without a layout, none: the generator is never started then.
fn layout_sequence_bits() -> u32 {
    gucs::layout().map_or(0, |layout| layout.sequence_bits())
}

/// The generator. Only where the library was preloaded.
#[inline]
pub fn generator() -> &'static Generator {
    &SHARED.get().generator
}

/// Until when a server that found no mark issues nothing, in Unix milliseconds; 0 once that has passed.
pub fn hold_until() -> &'static AtomicU64 {
    &SHARED.get().hold_until
}

/// How long the last write of the mark took, in milliseconds.
pub fn last_write_ms() -> &'static AtomicU64 {
    &SHARED.get().last_write_ms
}

/// Waits for the lock under which the mark changes.
pub fn lock_mark() -> PgLwLockExclusiveGuard<'static, ()> {
    MARK_LOCK.exclusive()
}
