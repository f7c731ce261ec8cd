//! Waits for the clock.

use crate::anchor;
use pgrx::pg_sys;
use snowflake_core::{Tick, UnixMs};
use std::time::{Duration, Instant};

/// Sleeps shorter than this are exact to well under a tick, and are not worth a latch.
const SHORT: Duration = Duration::from_millis(2);

/// A sleeper looks at the clock at least this often, since it may be set at any time.
const LONG: Duration = Duration::from_millis(20);

/// How long one call has waited for a clock that does not get there. Measured in time that really passes (a budget in
/// wall-clock time would stretch by the very step that is being waited out).
pub struct Patience {
    budget: Duration,
    since: Option<Instant>,
    marks: Marks,
}

/// The durable marks that one call has seen, all of which had passed when it came to use them.
#[derive(Default)]
struct Marks {
    since: Option<Instant>,
    /// What the call needed when it looked last.
    needed: Tick,
    count: u32,
}

/// How many marks a call may see pass, the one that it finds among them: how long two writes took is known when the third is
/// reserved for.
const MARKS: u32 = 4;

impl Patience {
    /// For a call that may wait so long.
    pub fn new(budget: Duration) -> Self {
        Self { budget, since: None, marks: Marks::default() }
    }

    /// Sleeps until the clock reaches `until`, but not for long: what to wait for may be another time by then, when the
    /// clock has been set. False when the budget is used up. A clock that gets there restores the budget: waiting for
    /// one tick after another is how a full generator works, not a clock that is behind. Can be cancelled like any
    /// query. Timestamps up to `issued` exist already.
    pub fn wait_until(&mut self, until: UnixMs, issued: UnixMs) -> bool {
        let until = Duration::from_millis(until);
        let remaining = || until.saturating_sub(anchor::since_1970(issued));
        let time = remaining();
        self.marks = Marks::default();
        if !time.is_zero() {
            let left = self.budget.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
            if left.is_zero() {
                return false;
            }
            sleep(time.min(left));
        }
        if remaining().is_zero() {
            self.since = None;
        }
        true
    }

    /// Whether a call that needs a tick which the mark, at `limit`, does not cover may have another one written: not if each of
    /// some, over so much time, covered what the call had needed, and had passed when it came to use it.
    pub fn bears(&mut self, tick: Tick, limit: Tick, time: Duration) -> bool {
        let marks = &mut self.marks;
        let since = *marks.since.get_or_insert_with(Instant::now);
        marks.count += u32::from(limit > marks.needed);
        marks.needed = tick;
        marks.count <= MARKS || since.elapsed() < time
    }
}

fn sleep(time: Duration) {
    if time < SHORT {
        std::thread::sleep(time);
    } else {
        on_latch(Some(time.min(LONG)));
    }
    pgrx::check_for_interrupts!();
}

/// Sleeps until somebody wakes this process, or for this time. Ends the process when the postmaster is gone.
pub fn on_latch(at_most: Option<Duration>) {
    let mut events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;
    let mut timeout = -1;
    if let Some(time) = at_most {
        events |= pg_sys::WL_TIMEOUT;
        timeout = std::ffi::c_long::try_from(time.as_millis()).unwrap_or(std::ffi::c_long::MAX);
    }
    // SAFETY: set by PostgreSQL when it starts a process.
    let latch = unsafe { pg_sys::MyLatch };
    // SAFETY: a process's own latch can be waited on at any time.
    unsafe { pg_sys::WaitLatch(latch, events.cast_signed(), timeout, pg_sys::PG_WAIT_EXTENSION) };
    // SAFETY: as above.
    unsafe { pg_sys::ResetLatch(latch) };
}
