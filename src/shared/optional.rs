//! Optional values in shared memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number below the greatest, or none.
#[derive(Default)]
pub struct OptionalNumber {
    /// One more than the number; 0 if there is none.
    successor: AtomicU64,
}

impl OptionalNumber {
    /// No number.
    pub const fn new() -> Self {
        Self { successor: AtomicU64::new(0) }
    }

    /// The number.
    pub fn get(&self) -> Option<u64> {
        self.successor.load(Ordering::Acquire).checked_sub(1)
    }

    /// Sets the number.
    pub fn set(&self, number: u64) {
        self.successor.store(number + 1, Ordering::Release);
    }

    /// Raises the number to this one, unless it is greater.
    pub fn raise(&self, number: u64) {
        self.successor.fetch_max(number + 1, Ordering::AcqRel);
    }

    /// Removes the number, and returns it.
    pub fn take(&self) -> Option<u64> {
        self.successor.swap(0, Ordering::AcqRel).checked_sub(1)
    }

    /// Removes the number if it is this one.
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

/// An [`OsError`], or none.
#[derive(Default)]
pub struct OptionalOsError {
    /// Twice the errno, and 1 more in the data directory.
    code: OptionalNumber,
}

impl OptionalOsError {
    /// The error.
    pub fn get(&self) -> Option<OsError> {
        let code = self.code.get()?;
        Some(OsError { number: i32::try_from(code / 2).ok()?, is_in_data_directory: code % 2 == 1 })
    }

    /// Sets the error, or removes it.
    pub fn set(&self, error: Option<OsError>) {
        match error {
            Some(error) => {
                self.code.set(2 * u64::from(error.number.unsigned_abs()) + u64::from(error.is_in_data_directory));
            }
            None => _ = self.code.take(),
        }
    }
}
