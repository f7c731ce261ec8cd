//! The lease of this server's worker, as the registry client knows it.

use super::failure::SharedFailure;
use super::optional::OptionalNumber;
use pgrx::pg_sys;
use snowflake_core::UnixMs;
use snowflake_core::server::identity::Worker;
use snowflake_core::server::lease::LeaseStart;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU64, Ordering};

/// The lease, in shared memory. Written by the registry client; `granted_until` is lowered under the lock of the mark.
pub struct SharedLease {
    /// The worker, once it is leased. Written last.
    worker: OptionalNumber,
    /// Where IDs begin at the earliest.
    begins: AtomicU64,
    /// Which kind of [`LeaseStart`] that is, by its index in [`STARTS`].
    start: AtomicU8,
    /// Every timestamp is below this.
    granted_until: AtomicU64,
    /// How far the clock is ahead of the registry's, in milliseconds; [`UNKNOWN`] before the first answer.
    clock_offset_ms: AtomicI64,
    /// Whether the registry has said that the worker is not this server's any more, when it was asked last.
    pub is_superseded: AtomicBool,
    /// What went wrong with the registry last; the default if nothing did.
    pub failure: SharedFailure,
    /// The latch of the registry client; null while there is none.
    client: AtomicPtr<pg_sys::Latch>,
}

const UNKNOWN: i64 = i64::MIN;

const STARTS: [fn(UnixMs) -> LeaseStart; 3] = [LeaseStart::Continued, LeaseStart::First, LeaseStart::At];

impl SharedLease {
    /// No lease.
    pub fn new() -> Self {
        Self {
            worker: OptionalNumber::new(),
            begins: AtomicU64::new(0),
            start: AtomicU8::new(0),
            granted_until: AtomicU64::new(0),
            clock_offset_ms: AtomicI64::new(UNKNOWN),
            is_superseded: AtomicBool::new(false),
            failure: SharedFailure::default(),
            client: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Lets the server use a worker.
    pub fn publish(&self, worker: Worker, start: LeaseStart, granted_until: UnixMs) {
        let (nth, begins) = match start {
            LeaseStart::Continued(begins) => (0, begins),
            LeaseStart::First(begins) => (1, begins),
            LeaseStart::At(begins) => (2, begins),
        };
        self.start.store(nth, Ordering::Relaxed);
        self.begins.store(begins, Ordering::Relaxed);
        self.granted_until.store(granted_until, Ordering::Relaxed);
        self.worker.set(worker);
    }

    /// The worker; `None` until it is leased.
    pub fn worker(&self) -> Option<Worker> {
        self.worker.get()
    }

    /// Where its IDs begin; `None` until it is leased.
    pub fn start(&self) -> Option<LeaseStart> {
        self.worker()?;
        let begins = self.begins.load(Ordering::Relaxed);
        Some(STARTS[usize::from(self.start.load(Ordering::Relaxed))](begins))
    }

    /// Every timestamp is below this time; 0 until there is a lease.
    pub fn granted_until(&self) -> UnixMs {
        self.granted_until.load(Ordering::Acquire)
    }

    /// Allows timestamps below another time.
    pub fn grant(&self, until: UnixMs) {
        self.granted_until.store(until, Ordering::Release);
    }

    /// How far the clock is ahead of the registry's, in milliseconds; `None` if that is not known.
    pub fn clock_offset_ms(&self) -> Option<i64> {
        Some(self.clock_offset_ms.load(Ordering::Relaxed)).filter(|&offset| offset != UNKNOWN)
    }

    /// Records how far the clock is ahead of the registry's.
    pub fn record_clock_offset(&self, ms: i64) {
        self.clock_offset_ms.store(ms, Ordering::Relaxed);
    }

    /// Makes the process with this latch the registry client; null is none.
    pub fn set_client(&self, latch: *mut pg_sys::Latch) {
        self.client.store(latch, Ordering::Release);
    }

    /// Whether there is a registry client.
    pub fn has_client(&self) -> bool {
        !self.client.load(Ordering::Acquire).is_null()
    }

    /// Wakes the registry client, if there is one.
    pub fn wake_client(&self) {
        let latch = self.client.load(Ordering::Acquire);
        if !latch.is_null() {
            // SAFETY: as in `Shared::wake_keeper`.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }
}
