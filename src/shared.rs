//! The memory that all processes of a server share.
//!
//! PostgreSQL sets it up when the server starts, and again after a crash of a backend. The generator then issues
//! nothing until it is started above the durable mark (see [`crate::durable`]).

pub mod citus_group;
pub mod condition;
pub mod failure;
pub mod holders;
pub mod lease;
pub mod machine;
pub mod mark_lock;
pub mod optional;
pub mod statistics;
pub mod text;
pub mod throttle;
pub mod wait_queue;
pub mod without_ids;
pub mod writers;

use crate::config::gucs;
use citus_group::SharedGroup;
use condition::Condition;
use lease::SharedLease;
use once_cell::sync::OnceCell;
use optional::{OptionalNumber, OptionalOsError};
use pgrx::prelude::*;
use pgrx::shmem::PGRXSharedMemory;
use pgrx::{PgAtomic, pg_shmem_init};
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use snowflake_core::issue::forward_jump::ForwardJumpGuard;
use snowflake_core::issue::generator::Generator;
use snowflake_core::issue::horizon::Horizon;
use snowflake_core::issue::waiting::Waiting;
use snowflake_core::mark::MarkState;
use statistics::Statistics;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use text::SharedText;
use throttle::Throttle;
use wait_queue::WaitQueue;

/// The content of shared memory.
pub struct Shared {
    /// Issues IDs.
    pub generator: Generator,
    /// The position below which no row can appear any more.
    pub horizon: Horizon,
    /// The horizon on the page in WAL, if this server has logged one; else 0. Written under the lock of the mark.
    pub horizon_in_wal: AtomicU64,
    /// Whether readers sleep on `ended`.
    pub waiting: Waiting,
    /// Woken when a transaction has ended, if readers wait for that.
    pub ended: Condition,
    /// Whether to trust a clock that has jumped ahead.
    pub jump_guard: ForwardJumpGuard,
    /// For warnings of a clock that has jumped ahead.
    pub jump_warnings: Throttle,
    /// For warnings of a clock that has gone back.
    pub regression_warnings: Throttle,
    /// Counters for `snowflake_status`.
    pub statistics: Statistics,
    /// Calls that wait for the next tick.
    pub tick_queue: WaitQueue,
    /// Calls that wait for a clock that is further behind.
    pub clock_queue: WaitQueue,
    /// The number of the next [event](crate::durable::trace).
    pub next_event: AtomicU64,
    /// The place of the last [life](crate::durable::trace::lives); 0 before this server has begun one. Written under
    /// the lock of the mark.
    pub last_life: AtomicU64,
    /// What is known of the mark. Written under the lock.
    pub mark: MarkState,
    /// What is wrong with the mark in WAL: SQLSTATE and [message and detail](crate::errors::sentences); empty if
    /// nothing is. Written under the lock.
    pub wal_failure: SharedText,
    /// For warnings of `wal_failure`.
    pub wal_warnings: Throttle,
    /// The highest tick that a backend wants covered. Raised by backends that may not extend the mark themselves, and
    /// cleared by those that give up.
    pub wanted: OptionalNumber,
    /// The error of the keeper's last write. Written by the keeper.
    pub keeper_error: OptionalOsError,
    /// The keeper's process ID; 0 while there is no keeper. Written by the keeper.
    pub keeper_pid: AtomicI32,
    /// The error of the keeper's last work: SQLSTATE and [message and detail](crate::errors::sentences); empty if it
    /// succeeded. Written by the keeper.
    pub keeper_failure: SharedText,
    /// Since when the keeper works on a mark, in milliseconds of the monotonic clock; none while it does not. Written
    /// by the keeper.
    pub extending_since: OptionalNumber,
    /// Whether the configuration has been logged for the logging collector.
    pub configuration_logged: AtomicBool,
    /// The keeper's latch; null while there is no keeper. Written by the keeper.
    keeper: AtomicPtr<pg_sys::Latch>,
    /// The group of this node in a Citus cluster, if that is the worker.
    pub citus: SharedGroup,
    /// The generation of the [machine] on which the server has begun. From the start on, written under the lock of the
    /// mark.
    pub generation: AtomicU64,
    /// The lease of the worker, if it is leased.
    pub lease: SharedLease,
    /// Held while the generator is started and while the mark is written; for [`mark_lock`].
    mark_lock: UnsafeCell<pg_sys::LWLock>,
    /// Woken when the lock is released; for [`mark_lock`].
    mark_changed: Condition,
}

// SAFETY: consists of atomics, of numbers that never change, and of a lock and a condition variable of PostgreSQL's for
// shared memory. The one pointer points to shared memory, which is at the same address in all processes.
unsafe impl PGRXSharedMemory for Shared {}

// SAFETY: no other library uses the name of this extension.
static SHARED: PgAtomic<Shared> = unsafe { PgAtomic::new(c"snowflake_pg") };

/// What is known in the postmaster when shared memory is set up: the first offset to trust, the number of the next
/// event, and the generation of the machine.
type First = (ForwardJumpGuard, u64, u64);

/// Asks PostgreSQL for the memory. Only while preloading. Whenever it is set up, `first` is called.
pub fn reserve(first: fn() -> First) {
    static FIRST: OnceCell<fn() -> First> = OnceCell::new();
    FIRST.get_or_init(|| first);
    writers::reserve();
    pg_shmem_init!(SHARED = Shared::new(FIRST.get().expect("set above, in the postmaster")()));
}

impl Shared {
    fn new((jump_guard, next_event, generation): First) -> Self {
        let new = Self {
            // Without a layout the generator is never started.
            generator: gucs::layout().map_or_else(
                |_| Generator::new(0),
                |layout| Generator::with_ticks_per_second(layout.sequence_bits(), 1000 / layout.tick_ms()),
            ),
            horizon: Horizon::default(),
            horizon_in_wal: AtomicU64::new(0),
            waiting: Waiting::default(),
            ended: Condition::new(),
            jump_guard,
            jump_warnings: Throttle::default(),
            regression_warnings: Throttle::default(),
            statistics: Statistics::new(),
            tick_queue: WaitQueue::new(),
            clock_queue: WaitQueue::new(),
            next_event: AtomicU64::new(next_event),
            last_life: AtomicU64::new(0),
            mark: MarkState::default(),
            wal_failure: SharedText::new(),
            wal_warnings: Throttle::default(),
            wanted: OptionalNumber::new(),
            keeper_error: OptionalOsError::default(),
            keeper_pid: AtomicI32::new(0),
            keeper_failure: SharedText::new(),
            extending_since: OptionalNumber::new(),
            configuration_logged: AtomicBool::new(false),
            keeper: AtomicPtr::new(std::ptr::null_mut()),
            citus: SharedGroup::new(),
            generation: AtomicU64::new(generation),
            lease: SharedLease::new(),
            mark_lock: UnsafeCell::default(),
            mark_changed: Condition::new(),
        };
        let tranche = new_tranche(c"snowflake_pg_mark");
        // SAFETY: writes a lock that no process uses yet. It has no pointers to itself, and may be moved until then.
        unsafe { pg_sys::LWLockInitialize(new.mark_lock.get(), tranche) };
        new
    }

    /// The last timestamp issued; before the first, where IDs begin.
    pub fn last_timestamp(&self, layout: &Layout) -> UnixMs {
        layout.time_of(self.generator.last_tick())
    }

    /// Wakes the keeper, if there is one.
    pub fn wake_keeper(&self) {
        let latch = self.keeper.load(Ordering::Acquire);
        if !latch.is_null() {
            // SAFETY: latches are in shared memory as long as the server runs. If the keeper has ended and another
            // process has its latch, that process wakes up in vain, which every process must expect.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }

    /// Whether there is a keeper.
    pub fn has_keeper(&self) -> bool {
        self.keeper_pid.load(Ordering::Relaxed) > 0
    }

    /// Makes the process with this latch the keeper; null is none.
    pub fn set_keeper(&self, latch: *mut pg_sys::Latch) {
        self.keeper.store(latch, Ordering::Release);
    }
}

/// A tranche of lightweight locks with this name, for the current shared memory.
fn new_tranche(name: &'static CStr) -> c_int {
    // SAFETY: only takes the next number from PostgreSQL's shared memory, which exists by now.
    #[cfg(feature = "pg19")]
    return unsafe { pg_sys::LWLockNewTrancheId(name.as_ptr()) };
    #[cfg(not(feature = "pg19"))]
    {
        // SAFETY: the same.
        let tranche = unsafe { pg_sys::LWLockNewTrancheId() };
        // SAFETY: the name lives as long as the process, and processes that are started later inherit it.
        unsafe { pg_sys::LWLockRegisterTranche(tranche, name.as_ptr()) };
        tranche
    }
}

/// The shared memory. Only where the library was preloaded.
#[inline]
pub fn shared() -> &'static Shared {
    SHARED.get()
}
