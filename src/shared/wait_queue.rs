//! Whose turn it is to wait for the clock, and who comes next: see [`crate::issue::wait`].
//!
//! A turn that is passed on while others queue up is *reserved*: only who is woken may take it, and not the process that has
//! just had it and comes back for more.

use pgrx::prelude::*;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Nobody's turn.
const FREE: c_int = 0;

/// The turn of whoever is woken.
const RESERVED: c_int = -1;

/// Whose turn it is, in shared memory.
#[derive(Default)]
pub struct Turns {
    /// The process that has the turn, [`FREE`] or [`RESERVED`].
    holder: AtomicI32,
    /// How many queue up.
    queued: AtomicU32,
    /// Who comes next.
    queue: UnsafeCell<pg_sys::ConditionVariable>,
}

/// The address of the turns for which this process queues up; 0 for none.
static QUEUED_FOR: AtomicUsize = AtomicUsize::new(0);

impl Turns {
    /// Nobody waits. To be called where shared memory is set up.
    pub fn new() -> Self {
        let new = Self::default();
        // SAFETY: writes a condition variable that nobody uses yet, and that may be moved until somebody does.
        unsafe { pg_sys::ConditionVariableInit(new.queue.get()) };
        new
    }

    /// Queues up for the turn. False if it has not come in that time. If it is still the same process's then, that one may
    /// have been stopped, or wait for something far away, and its turn is taken over. Shows this event meanwhile; can be
    /// cancelled like any query.
    pub fn wait_for(&self, at_most: Duration, wait_event: u32) -> bool {
        if self.queued.load(Ordering::SeqCst) == 0 && self.take_from(FREE) {
            return true;
        }
        let deadline = Instant::now() + at_most;
        let place = Place::last(self);
        let before = self.holder.load(Ordering::SeqCst);
        // Once more now: it may have been passed on before this process had queued up.
        let mut taken = self.take_from(FREE);
        while !taken {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = c_long::try_from(left.as_millis()).unwrap_or(c_long::MAX).max(1);
            // SAFETY: prepared by the place in the queue.
            let timed_out = unsafe { pg_sys::ConditionVariableTimedSleep(self.queue.get(), timeout, wait_event) };
            taken = self.take_from(RESERVED) || self.take_from(FREE);
            if timed_out {
                taken = taken || self.take_from(before);
                break;
            }
        }
        drop(place);
        taken
    }

    /// Passes the turn on, if this process has it.
    pub fn pass_on(&self) {
        let to = if self.queued.load(Ordering::SeqCst) > 0 { RESERVED } else { FREE };
        if self.holder.compare_exchange(process(), to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.wake_next();
        }
    }

    /// Whether this process has the turn, and nobody has taken it over.
    pub fn is_mine(&self) -> bool {
        self.holder.load(Ordering::SeqCst) == process()
    }

    /// Gives up everything: this process ends.
    pub fn leave(&self) {
        if QUEUED_FOR.load(Ordering::Relaxed) == self.address() {
            self.give_up_place(true);
        }
        self.pass_on();
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn take_from(&self, holder: c_int) -> bool {
        self.holder.compare_exchange(holder, process(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn wake_next(&self) {
        // SAFETY: initialized when shared memory was set up.
        unsafe { pg_sys::ConditionVariableSignal(self.queue.get()) };
    }

    /// This process may have been woken for a turn that it does not take.
    fn give_up_place(&self, was_woken: bool) {
        QUEUED_FOR.store(0, Ordering::Relaxed);
        if self.queued.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _ = self.holder.compare_exchange(RESERVED, FREE, Ordering::SeqCst, Ordering::SeqCst);
        }
        if was_woken && !self.is_mine() {
            self.wake_next();
        }
    }
}

/// A place in the queue, until it is dropped.
struct Place<'a>(&'a Turns);

impl<'a> Place<'a> {
    fn last(turns: &'a Turns) -> Self {
        turns.queued.fetch_add(1, Ordering::SeqCst);
        QUEUED_FOR.store(turns.address(), Ordering::Relaxed);
        // SAFETY: initialized when shared memory was set up.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(turns.queue.get()) };
        Self(turns)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.give_up_place(cancel_sleep());
    }
}

/// Leaves the queue of the condition variable. True if this process was woken and has not noticed: then nobody else was.
#[cfg(not(feature = "pg15"))]
fn cancel_sleep() -> bool {
    // SAFETY: ends what was prepared before; does nothing where that has ended.
    unsafe { pg_sys::ConditionVariableCancelSleep() }
}

/// Leaves the queue of the condition variable. PostgreSQL 15 itself wakes the next one if this process was woken and has not
/// noticed.
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
