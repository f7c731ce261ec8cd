//! A condition variable of PostgreSQL's in shared memory, on which no process sleeps for longer than it says.

use crate::postgres::sleep::WaitEvent;
use pgrx::pg_sys;
use std::cell::UnsafeCell;
use std::ffi::c_long;
use std::time::Duration;

/// What processes sleep on until another one wakes them.
pub struct Condition(UnsafeCell<pg_sys::ConditionVariable>);

impl Condition {
    /// Nobody sleeps on it yet. It has no pointers to itself, and may be moved until somebody does.
    pub fn new() -> Self {
        let new = Self(UnsafeCell::default());
        // SAFETY: no other process has it yet.
        unsafe { pg_sys::ConditionVariableInit(new.0.get()) };
        new
    }

    /// Sleeps until it is woken, for `at_most`, unless `done` returns true: what that looks at may change before the
    /// sleep begins. Can be cancelled like any query.
    pub fn sleep_unless(&self, mut done: impl FnMut() -> bool, at_most: Duration, event: WaitEvent) {
        // SAFETY: initialized, in shared memory.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(self.0.get()) };
        if !done() {
            let timeout = c_long::try_from(at_most.as_millis()).unwrap_or(c_long::MAX).max(1);
            // SAFETY: the same.
            unsafe { pg_sys::ConditionVariableTimedSleep(self.0.get(), timeout, event.number()) };
        }
        // SAFETY: ends what was prepared above; after an ERROR PostgreSQL does it.
        unsafe { pg_sys::ConditionVariableCancelSleep() };
    }

    /// Wakes all who sleep on it. Raises no ERROR.
    pub fn wake_all(&self) {
        // SAFETY: initialized, in shared memory.
        unsafe { pg_sys::ConditionVariableBroadcast(self.0.get()) };
    }
}
