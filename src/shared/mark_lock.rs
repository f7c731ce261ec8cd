//! The lock under which the mark changes, and the wait for the process that holds it.
//!
//! # Note about locking
//!
//! The lock is an LWLock that is held while the mark is written and flushed. A disk can take seconds for that, and a
//! process that waits for an LWLock cannot be cancelled. So no process waits for it: [`try_take`] takes it
//! conditionally, and [`take_or_wait`] sleeps on a condition variable that the holder signals when it releases the
//! lock. The holder itself cannot be cancelled before the flush ends.
//!
//! pgrx's `PgLwLock` has no conditional acquire. The tranche is a new one whenever shared memory is set up (see
//! [`crate::shared`]): the counter of tranches is in shared memory too, and starts again with it.

use crate::postgres::sleep::WaitEvent;
use crate::shared::shared;
use pgrx::pg_sys;
use std::time::Duration;

/// The lock under which the mark changes; released when it is dropped.
pub struct MarkLock(());

/// Takes the lock, if no process holds it.
pub fn try_take() -> Option<MarkLock> {
    // SAFETY: initialized when shared memory was set up.
    unsafe { pg_sys::LWLockConditionalAcquire(shared().mark_lock.get(), pg_sys::LWLockMode::LW_EXCLUSIVE) }
        // mutant: lock-not-got
        .then(|| MarkLock(()))
}

impl Drop for MarkLock {
    fn drop(&mut self) {
        // SAFETY: this process holds the lock, unless an ERROR has set the counter to 0: then PostgreSQL releases it.
        unsafe {
            if pg_sys::InterruptHoldoffCount > 0 {
                pg_sys::LWLockRelease(shared().mark_lock.get());
            }
        }
        wake_waiters();
    }
}

/// Takes the lock. If another process holds it, waits for the release and returns `None`: that process may have done
/// the work. Can be cancelled like any query.
pub fn take_or_wait() -> Option<MarkLock> {
    let mut lock = try_take();
    if lock.is_none() {
        let retry = || {
            lock = try_take();
            lock.is_some()
        };
        wait_for_change(retry, Duration::from_secs(1));
    }
    lock
}

/// Sleeps until the mark may have changed, for `at_most`, unless `done` returns true. Can be cancelled like any query.
pub fn wait_for_change(done: impl FnMut() -> bool, at_most: Duration) {
    shared().mark_changed.sleep_unless(done, at_most, WaitEvent::Mark);
}

/// Wakes all processes that wait for the mark.
pub fn wake_waiters() {
    shared().mark_changed.wake_all();
}
