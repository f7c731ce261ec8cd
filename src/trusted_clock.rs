//! The server's clock, as far as it is trusted.
//!
//! A jump ahead is not trusted at once: see [`snowflake_core::issue::forward_jump`]. A step back is counted and logged;
//! [`snowflake_core::issue::policy`] decides what follows.

use crate::config::gucs;
use crate::postgres::clock;
use crate::postgres::report::warning;
use crate::shared::shared;
use once_cell::sync::OnceCell;
use pgrx::PgLogLevel;
use snowflake_core::id::layout::Layout;
use snowflake_core::issue::forward_jump::{ForwardJumpGuard, Verdict};
use snowflake_core::issue::policy::ClockRegression;
use snowflake_core::{UnixMs, display_time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The offset (clock less monotonic clock, wrapping) that was trusted when the postmaster started, or when a crash
/// ended shared memory. Only the postmaster's is used.
static OFFSET: OnceCell<AtomicU64> = OnceCell::new();

fn offset() -> &'static AtomicU64 {
    OFFSET.get_or_init(|| {
        AtomicU64::new(clock::microseconds(clock::since_1970()).wrapping_sub(clock::microseconds(clock::since_boot())))
    })
}

/// What the clock showed when the postmaster started, in Unix milliseconds: before anything else of a start can take
/// time.
static SERVER_START: OnceCell<UnixMs> = OnceCell::new();

/// A clock that is not before the server's start, even if it was set back since: before that, another server can have
/// had this one's worker.
pub fn since_server_start(now: UnixMs) -> UnixMs {
    // mutant: begins-before-server
    now.max(SERVER_START.get().copied().unwrap_or(0))
}

/// A guard for new shared memory, with the offset trusted before: the clock may have jumped just now.
pub fn first_jump_guard() -> ForwardJumpGuard {
    SERVER_START.get_or_init(clock::unix_ms);
    // mutant: offset-outlives-crash
    ForwardJumpGuard::new(offset().load(Ordering::Relaxed), 0)
}

/// Keeps the trusted offset while shared memory is set up again.
pub fn remember_offset() {
    offset().store(shared().jump_guard.offset(), Ordering::Relaxed);
}

/// The time since 1970, for a generator of this layout.
pub fn now(layout: &Layout) -> Duration {
    now_above(shared().last_timestamp(layout))
}

/// The time since 1970 in milliseconds, for a generator of this layout.
pub fn now_ms(layout: &Layout) -> UnixMs {
    now_ms_above(shared().last_timestamp(layout))
}

/// Unix milliseconds, before the generator is started; timestamps up to `issued` may exist.
pub fn now_ms_above(issued: UnixMs) -> UnixMs {
    UnixMs::try_from(now_above(issued).as_millis()).unwrap_or(UnixMs::MAX)
}

fn now_above(issued: UnixMs) -> Duration {
    let real = clock::since_1970();
    let (now, monotonic) = (clock::microseconds(real), clock::microseconds(clock::since_boot()));
    let (issued, max_jump) = (issued.saturating_mul(1000), gucs::max_forward_jump_ms().saturating_mul(1000));
    match shared().jump_guard.check(now, monotonic, issued, max_jump) {
        Verdict::Trusted => real,
        Verdict::Confirmed => {
            warn_of_jump(now / 1000, None);
            real
        }
        Verdict::Jumped { expected } => {
            if shared().jump_warnings.is_due() {
                warn_of_jump(now / 1000, Some(expected / 1000));
            }
            Duration::from_micros(expected)
        }
    }
}

/// Trusts the clock, whatever it shows.
pub fn accept() {
    shared().jump_guard.accept(clock::microseconds(clock::since_1970()), clock::microseconds(clock::since_boot()));
    shared().jump_warnings.reset();
    // The next ID already reads the clock.
    // mutant: accepted-clock-read
    shared().generator.shut();
}

fn warn_of_jump(now: UnixMs, expected: Option<UnixMs>) {
    let now = display_time(now);
    let report = match expected {
        Some(expected) => warning("the server's clock has jumped ahead and is not trusted yet")
            .set_detail(format!(
                "It shows {now}, expected {}. IDs follow the old clock until the new one has been steady for a minute.",
                display_time(expected)
            ))
            .set_hint("If the clock is right, call snowflake_accept_clock(). If it is not, set it back."),
        None => warning("the server's clock has jumped ahead and is trusted from now on")
            .set_detail(format!("It shows {now}, and has been steady for a minute.")),
    };
    report.report(PgLogLevel::WARNING);
}

/// Counts that the clock has gone back by `step_ms` to `now`, and logs it once a minute at most.
#[cold]
pub fn record_regression(now: UnixMs, step_ms: u64, policy: ClockRegression) {
    shared().statistics.count_regression(now, step_ms);
    if shared().regression_warnings.is_due() {
        let max_borrow_ms = gucs::max_borrow_ms();
        let what = match policy {
            ClockRegression::Borrow => {
                format!("IDs continue from the last timestamp, up to {max_borrow_ms} ms ahead of the clock")
            }
            ClockRegression::Wait => format!("Calls wait up to {} ms for it to catch up", gucs::max_wait_ms()),
            ClockRegression::Error => "Calls fail until it has caught up".to_owned(),
            ClockRegression::History => "IDs go back with it, and use the sequence numbers that past ticks have \
                                         left"
                .to_owned(),
        };
        warning("the server's clock has gone back")
            .set_detail(format!(
                "It went back by {step_ms} ms, to {}. {what}; snowflake_pg.clock_regression is {policy}.",
                display_time(now)
            ))
            .set_hint("Configure the time service to slew the clock. snowflake_status counts these steps.")
            .report(PgLogLevel::WARNING);
    }
}
