//! Readers that wait for rows: they look again when a transaction has ended.

use crate::config::gucs;
use crate::postgres::sleep::{self, WaitEvent};
use crate::shared::shared;
use pgrx::pg_sys;
use std::time::{Duration, Instant};

/// How long to sleep at most: nobody wakes readers when a clock has reached the IDs of other workers.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// How often to look at most. A look costs a query, and transactions may end all the time.
const LEAST_REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(100);

/// How long to wait on a standby, where the snapshot of the statement can hold back the replay of what it waits for.
const LONGEST_ON_STANDBY: Duration = Duration::from_secs(1);

/// Looks whenever rows may have appeared, until there are some, for `at_most`, after a look in vain. Can be cancelled
/// like any query.
pub fn wait(at_most: Duration, mut look: impl FnMut() -> bool) {
    let began = Instant::now();
    let mut looked_at = began;
    let mut is_done = false;
    let left = || at_most.checked_sub(began.elapsed()).filter(|left| !left.is_zero());
    while !is_done && let Some(time) = left() {
        // SAFETY: reads shared memory of PostgreSQL's that every backend is attached to.
        if unsafe { pg_sys::RecoveryInProgress() } {
            if began.elapsed() >= LONGEST_ON_STANDBY {
                return;
            }
            // Nobody wakes readers.
            sleep::whole(time.min(LONGEST_REST), WaitEvent::Poll);
            is_done = look();
            continue;
        }
        let rest = (began.elapsed() / 4).clamp(LEAST_REST, LONGEST_REST);
        let announced = || {
            shared().waiting.announce();
            is_done = look();
            looked_at = Instant::now();
            is_done
        };
        let sleep = if ends_of_ticks_matter() { rest } else { LONGEST_SLEEP };
        shared().ended.sleep_unless(announced, time.min(sleep), WaitEvent::Poll);
        if !is_done && let Some(time) = left() {
            sleep::whole(time.min(rest.saturating_sub(looked_at.elapsed())), WaitEvent::Poll);
        }
    }
    if !is_done {
        look();
    }
}

/// Whether a row can be above the horizon until its tick has passed, since its tag is above the sequence.
fn ends_of_ticks_matter() -> bool {
    gucs::layout().is_ok_and(|layout| !layout.sorts_within_ticks())
}
