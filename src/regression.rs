//! Tells of a clock that has gone back.

use crate::errors::error;
use crate::gucs;
use crate::shmem::shared;
use pgrx::{PgLogLevel, PgSqlErrorCode};
use snowflake_core::policy::ClockRegression;
use snowflake_core::{UnixMs, display_time};

/// Counts that the clock has gone back by `step_ms`, to `now`, and warns of it once a minute at most.
#[cold]
pub fn note(now: UnixMs, step_ms: u64, policy: ClockRegression) {
    shared().statistics.count_regression(now, step_ms);
    if shared().regression_warnings.is_due() {
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
