//! Tells of a clock that has gone back.

use crate::errors::error;
use crate::shmem::shared;
use crate::{clock, gucs};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use snowflake_core::policy::ClockRegression;
use snowflake_core::{UnixMs, display_time};
use std::sync::atomic::{AtomicU64, Ordering};

/// A server log is not to be flooded by a clock that swings.
const REPEAT_S: u64 = 60;

/// Counts that the clock has gone back by `step_ms`, to `now`, and warns of it once a minute at most.
#[cold]
pub fn note(now: UnixMs, step_ms: u64, policy: ClockRegression) {
    shared().statistics.count_regression(now, step_ms);
    if is_due(&shared().regression_warned_at) {
        let max_borrow_ms = gucs::max_borrow_ms();
        let what = match policy {
            ClockRegression::Borrow => {
                format!("IDs go on from the last timestamp, up to {max_borrow_ms} ms ahead of the clock")
            }
            ClockRegression::Wait => format!("Calls wait up to {} ms for it to catch up", gucs::max_wait_ms()),
            ClockRegression::Error => "Calls are refused until it has caught up".to_owned(),
            ClockRegression::History => "IDs go back with it, to numbers that past ticks have left over".to_owned(),
        };
        error(PgSqlErrorCode::ERRCODE_WARNING, "the server's clock has gone back")
            .set_detail(format!(
                "It went back by {step_ms} ms, to {}. {what}; snowflake_pg.clock_regression is {policy}.",
                display_time(now)
            ))
            .set_hint("Have the clock slewed rather than stepped. snowflake_status counts such steps.")
            .report(PgLogLevel::WARNING);
    }
}

/// Whether something that is told once a minute at most has to be told now; true for one process. `last` is when it was
/// told last, in seconds of the monotonic clock plus 1; 0 for never.
pub fn is_due(last: &AtomicU64) -> bool {
    let now = clock::since_boot().as_secs() + 1;
    let before = last.load(Ordering::Relaxed);
    (before == 0 || now.saturating_sub(before) >= REPEAT_S)
        && last.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}
