//! Readers that wait for rows: they look again when a transaction has ended.

use crate::postgres::sleep::{self, WaitEvent};
use crate::shared::shared;
use pgrx::pg_sys;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// How often to look again at least: nobody wakes readers when a clock has reached the IDs of other workers.
const LOOK: Duration = Duration::from_secs(1);

/// How often to look at what a standby has replayed: nobody wakes readers there.
const LOOK_ON_STANDBY: Duration = Duration::from_millis(100);

/// How long to rest after a look in vain, while transactions end all the time.
const REST: RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_millis(100);

/// Looks whenever rows may have appeared, until there are some, for `at_most`. Can be cancelled like any query.
pub fn wait(at_most: Duration, mut look: impl FnMut() -> bool) {
    let began = Instant::now();
    let left = || at_most.checked_sub(began.elapsed()).filter(|left| !left.is_zero());
    let mut is_done = false;
    while !is_done && let Some(time) = left() {
        // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
        if unsafe { pg_sys::RecoveryInProgress() } {
            sleep::whole(time.min(LOOK_ON_STANDBY), WaitEvent::Poll);
        } else {
            let announced = || {
                shared().waiting.announce();
                is_done = look();
                is_done
            };
            shared().ended.sleep_unless(announced, time.min(LOOK), WaitEvent::Poll);
        }
        if !is_done {
            is_done = look();
        }
        // A look costs a query. So it comes later by an eighth of the wait at most.
        if !is_done && let Some(time) = left() {
            let rest = (began.elapsed() / 8).clamp(*REST.start(), *REST.end());
            sleep::whole(time.min(rest), WaitEvent::Poll);
        }
    }
}
