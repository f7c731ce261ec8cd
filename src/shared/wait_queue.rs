//! A fair queue of processes that wait for the clock: see [`crate::issue::wait`].
//!
//! The *leader* sleeps until the clock is there; the others wait behind it. A leader hands the lead off to the first of
//! them. Only a process that was woken may then take it, so that the former leader cannot come back for more.

use pgrx::prelude::*;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Nobody leads.
const FREE: c_int = 0;

/// The process that is woken next leads.
const HANDED_OFF: c_int = -1;

/// The queue, in shared memory.
#[derive(Default)]
pub struct WaitQueue {
    /// The process that leads, [`FREE`] or [`HANDED_OFF`].
    leader: AtomicI32,
    /// How many processes wait.
    queued: AtomicU32,
    /// The processes wait here, in the order in which they came.
    waiters: UnsafeCell<pg_sys::ConditionVariable>,
}

/// The address of the queue in which this process waits; 0 for none.
static QUEUED_FOR: AtomicUsize = AtomicUsize::new(0);

impl WaitQueue {
    /// Nobody waits. To be called where shared memory is set up.
    pub fn new() -> Self {
        let new = Self::default();
        // SAFETY: writes a condition variable that nobody uses yet, and that may be moved until somebody does.
        unsafe { pg_sys::ConditionVariableInit(new.waiters.get()) };
        new
    }

    /// Waits until this process leads, and shows this event meanwhile; false if it does not after that time. If the
    /// same process has led all the time, it may have been stopped or wait for a distant time, and this process takes
    /// the lead over. Can be cancelled like any query.
    pub fn wait_to_lead(&self, at_most: Duration, wait_event: u32) -> bool {
        if self.queued.load(Ordering::SeqCst) == 0 && self.take_over_from(FREE) {
            return true;
        }
        let deadline = Instant::now() + at_most;
        let queued = QueueGuard::last(self);
        let first_leader = self.leader.load(Ordering::SeqCst);
        // Again: the lead may have been handed off before this process was in the queue.
        let mut taken = self.take_over_from(FREE);
        while !taken {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = c_long::try_from(left.as_millis()).unwrap_or(c_long::MAX).max(1);
            // SAFETY: prepared by the guard.
            let timed_out = unsafe { pg_sys::ConditionVariableTimedSleep(self.waiters.get(), timeout, wait_event) };
            taken = self.take_over_from(HANDED_OFF) || self.take_over_from(FREE);
            if timed_out {
                taken = taken || self.take_over_from(first_leader);
                break;
            }
        }
        drop(queued);
        taken
    }

    /// Hands the lead off, if this process has it.
    pub fn hand_off(&self) {
        let to = if self.queued.load(Ordering::SeqCst) > 0 { HANDED_OFF } else { FREE };
        if self.leader.compare_exchange(process(), to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.wake_next();
        }
    }

    /// Whether this process leads. Another one may have taken the lead over.
    pub fn leads(&self) -> bool {
        self.leader.load(Ordering::SeqCst) == process()
    }

    /// Leaves the queue and hands off the lead: for a process that ends.
    pub fn leave(&self) {
        if QUEUED_FOR.load(Ordering::Relaxed) == self.address() {
            self.leave_queue(true);
        }
        self.hand_off();
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn take_over_from(&self, leader: c_int) -> bool {
        self.leader.compare_exchange(leader, process(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn wake_next(&self) {
        // SAFETY: initialized when shared memory was set up.
        unsafe { pg_sys::ConditionVariableSignal(self.waiters.get()) };
    }

    /// If this process was woken and does not lead, it wakes the next one.
    fn leave_queue(&self, was_woken: bool) {
        QUEUED_FOR.store(0, Ordering::Relaxed);
        if self.queued.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _ = self.leader.compare_exchange(HANDED_OFF, FREE, Ordering::SeqCst, Ordering::SeqCst);
        }
        if was_woken && !self.leads() {
            self.wake_next();
        }
    }
}

/// This process waits in the queue until it is dropped.
struct QueueGuard<'a>(&'a WaitQueue);

impl<'a> QueueGuard<'a> {
    fn last(queue: &'a WaitQueue) -> Self {
        queue.queued.fetch_add(1, Ordering::SeqCst);
        QUEUED_FOR.store(queue.address(), Ordering::Relaxed);
        // SAFETY: initialized when shared memory was set up.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(queue.waiters.get()) };
        Self(queue)
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.leave_queue(cancel_sleep());
    }
}

/// Leaves the queue of the condition variable. True if this process was woken and has not noticed: then nobody else
/// was.
#[cfg(not(feature = "pg15"))]
fn cancel_sleep() -> bool {
    // SAFETY: ends what was prepared before; does nothing where that has ended.
    unsafe { pg_sys::ConditionVariableCancelSleep() }
}

/// Leaves the queue of the condition variable. PostgreSQL 15 itself wakes the next one if this process was woken and
/// has not noticed.
#[cfg(feature = "pg15")]
fn cancel_sleep() -> bool {
    // SAFETY: ends what was prepared before; does nothing where that has ended.
    unsafe { pg_sys::ConditionVariableCancelSleep() };
    false
}

fn process() -> c_int {
    // SAFETY: set once, when a process starts.
    unsafe { pg_sys::MyProcPid }
}
