//! Whose turn it is to wait for the clock, and who comes next: see [`crate::wait`].

use pgrx::prelude::*;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

/// Whose turn it is, in shared memory.
#[derive(Default)]
pub struct Turns {
    /// The process that has the turn; 0 for none.
    holder: AtomicI32,
    /// Who comes next.
    pub queue: UnsafeCell<pg_sys::ConditionVariable>,
}

impl Turns {
    /// Nobody waits. To be called where shared memory is set up.
    pub fn new() -> Self {
        let new = Self::default();
        // SAFETY: writes a condition variable that nobody uses yet, and that may be moved until somebody does.
        unsafe { pg_sys::ConditionVariableInit(new.queue.get()) };
        new
    }

    /// Takes the turn, if nobody has it.
    pub fn take(&self) -> bool {
        self.holder.compare_exchange(0, process(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Passes the turn on, if this process has it.
    pub fn pass_on(&self) {
        if self.holder.compare_exchange(process(), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: initialized when shared memory was set up.
            unsafe { pg_sys::ConditionVariableSignal(self.queue.get()) };
        }
    }
}

fn process() -> c_int {
    // SAFETY: set once, when a process starts.
    unsafe { pg_sys::MyProcPid }
}
