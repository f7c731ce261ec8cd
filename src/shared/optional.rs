//! What may be missing, in shared memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A number below the greatest, or none.
#[derive(Default)]
pub struct OptionalNumber {
    /// One more than the number; 0 if there is none.
    successor: AtomicU64,
}

impl OptionalNumber {
    /// None.
    pub const fn new() -> Self {
        Self { successor: AtomicU64::new(0) }
    }

    /// The number.
    pub fn get(&self) -> Option<u64> {
        self.successor.load(Ordering::Acquire).checked_sub(1)
    }

    /// Makes it this one.
    pub fn set(&self, number: u64) {
        self.successor.store(number + 1, Ordering::Release);
    }

    /// Makes it this one, unless it is greater.
    pub fn raise(&self, number: u64) {
        self.successor.fetch_max(number + 1, Ordering::AcqRel);
    }

    /// Makes it none, and returns it.
    pub fn take(&self) -> Option<u64> {
        self.successor.swap(0, Ordering::AcqRel).checked_sub(1)
    }

    /// Makes it none if it is this one.
    pub fn clear(&self, number: u64) {
        let _ = self.successor.compare_exchange(number + 1, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// An error of the operating system in one of two directories.
#[derive(Clone, Copy)]
pub struct OsError {
    /// Its errno.
    pub number: i32,
    /// Whether it is of the data directory, and not of the state directory.
    pub is_in_data_directory: bool,
}

/// An [`OsError`], or none, that one process writes.
#[derive(Default)]
pub struct OptionalOsError {
    number: OptionalNumber,
    is_in_data_directory: AtomicBool,
}

impl OptionalOsError {
    /// The error.
    pub fn get(&self) -> Option<OsError> {
        let number = i32::try_from(self.number.get()?).ok()?;
        Some(OsError { number, is_in_data_directory: self.is_in_data_directory.load(Ordering::Relaxed) })
    }

    /// Makes it this one, or none.
    pub fn set(&self, error: Option<OsError>) {
        self.number.take();
        if let Some(OsError { number, is_in_data_directory }) = error {
            self.is_in_data_directory.store(is_in_data_directory, Ordering::Relaxed);
            self.number.set(u64::from(number.unsigned_abs()));
        }
    }
}
