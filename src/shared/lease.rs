//! The lease of this server's worker, as the registry client knows it.

use pgrx::pg_sys;
use snowflake_core::UnixMs;
use snowflake_core::identity::Numbers;
use snowflake_core::lease::LeaseStart;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU64, Ordering, fence};

/// The lease, in shared memory. Written by the registry client; `granted_until` is lowered under the lock of the mark.
pub struct SharedLease {
    /// The worker, plus 1; 0 until it is leased. Written last.
    worker: AtomicU64,
    /// The data center.
    datacenter: AtomicU64,
    /// Where IDs begin at the earliest.
    begins: AtomicU64,
    /// Which kind of [`LeaseStart`] that is, by its place in [`STARTS`].
    start: AtomicU8,
    /// Every timestamp is below this.
    granted_until: AtomicU64,
    /// How far the clock is ahead of the registry's, in milliseconds; [`UNKNOWN`] before the first answer.
    clock_offset_ms: AtomicI64,
    /// Whether the registry has said that the worker is not this server's any more, when it was asked last.
    pub is_superseded: AtomicBool,
    /// What went wrong with the registry last.
    pub failure: SharedText,
    /// The latch of the registry client; null while there is none.
    client: AtomicPtr<pg_sys::Latch>,
}

const UNKNOWN: i64 = i64::MIN;

const STARTS: [fn(UnixMs) -> LeaseStart; 3] = [LeaseStart::Continued, LeaseStart::First, LeaseStart::At];

impl SharedLease {
    /// None.
    pub fn new() -> Self {
        Self {
            worker: AtomicU64::new(0),
            datacenter: AtomicU64::new(0),
            begins: AtomicU64::new(0),
            start: AtomicU8::new(0),
            granted_until: AtomicU64::new(0),
            clock_offset_ms: AtomicI64::new(UNKNOWN),
            is_superseded: AtomicBool::new(false),
            failure: SharedText::new(),
            client: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Lets the server use a worker.
    pub fn publish(&self, (datacenter, worker): Numbers, start: LeaseStart, granted_until: UnixMs) {
        let (nth, begins) = match start {
            LeaseStart::Continued(begins) => (0, begins),
            LeaseStart::First(begins) => (1, begins),
            LeaseStart::At(begins) => (2, begins),
        };
        self.start.store(nth, Ordering::Relaxed);
        self.datacenter.store(datacenter.into(), Ordering::Relaxed);
        self.begins.store(begins, Ordering::Relaxed);
        self.granted_until.store(granted_until, Ordering::Relaxed);
        self.worker.store(u64::from(worker) + 1, Ordering::Release);
    }

    /// The worker; `None` until it is leased.
    pub fn worker(&self) -> Option<u64> {
        self.worker.load(Ordering::Acquire).checked_sub(1)
    }

    /// The data center and the worker; `None` until it is leased.
    pub fn numbers(&self) -> Option<Numbers> {
        let worker = self.worker()?;
        let small = |number| u32::try_from(number).expect("stored as such");
        Some((small(self.datacenter.load(Ordering::Relaxed)), small(worker)))
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

    /// Records it.
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

const WORDS: usize = 128;

/// A short text that one process writes and others read. Longer ones are cut.
pub struct SharedText {
    /// Odd while the text is written.
    version: AtomicU64,
    /// The length in bytes, then the bytes.
    words: [AtomicU64; WORDS],
}

impl SharedText {
    fn new() -> Self {
        Self { version: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// Writes it. To be called by one process.
    pub fn write(&self, text: &str) {
        let bytes = &text.as_bytes()[..text.floor_char_boundary((WORDS - 1) * 8)];
        self.version.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.words[0].store(bytes.len() as u64, Ordering::Relaxed);
        for (word, chunk) in self.words[1..].iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Reads it; empty if it is just being written.
    pub fn read(&self) -> String {
        for _ in 0..100 {
            let before = self.version.load(Ordering::Acquire);
            let words: Vec<_> = self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                let length = usize::try_from(words[0]).unwrap_or(0).min((WORDS - 1) * 8);
                let bytes: Vec<_> = words[1..].iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
                return String::from_utf8_lossy(&bytes).into_owned();
            }
            std::hint::spin_loop();
        }
        String::new()
    }
}
