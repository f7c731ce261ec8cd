//! The clock as far as it is believed: see [`snowflake_core::anchor`].

use crate::errors::error;
use crate::shmem::shared;
use crate::{clock, gucs};
use once_cell::sync::OnceCell;
use pgrx::{PgLogLevel, PgSqlErrorCode};
use snowflake_core::anchor::{Anchor, Belief};
use snowflake_core::{UnixMs, display_time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What was believed when the postmaster started, or when shared memory was given up after a crash: clock less monotonic
/// clock, wrapping. Every process has its own; it counts in the postmaster.
static BELIEVED: OnceCell<AtomicU64> = OnceCell::new();

fn believed() -> &'static AtomicU64 {
    BELIEVED.get_or_init(|| {
        AtomicU64::new(clock::microseconds(clock::since_1970()).wrapping_sub(clock::microseconds(clock::since_boot())))
    })
}

/// An anchor for new shared memory: with what was believed before, since the clock may have jumped just now.
pub fn first() -> Anchor {
    Anchor::new(believed().load(Ordering::Relaxed), 0)
}

/// Keeps what is believed while shared memory is set up anew.
pub fn remember() {
    believed().store(shared().anchor.believed(), Ordering::Relaxed);
}

/// Unix milliseconds, believed. Timestamps up to `issued` exist already.
pub fn unix_ms(issued: UnixMs) -> UnixMs {
    UnixMs::try_from(since_1970(issued).as_millis()).unwrap_or(UnixMs::MAX)
}

/// The time since 1970, believed. Timestamps up to `issued` exist already.
pub fn since_1970(issued: UnixMs) -> Duration {
    let real = clock::since_1970();
    let (now, monotonic) = (clock::microseconds(real), clock::microseconds(clock::since_boot()));
    let (issued, max_jump) = (issued.saturating_mul(1000), gucs::max_forward_jump_ms().saturating_mul(1000));
    match shared().anchor.judge(now, monotonic, issued, max_jump) {
        Belief::Right => real,
        Belief::Held => {
            warn(now / 1000, None);
            real
        }
        Belief::Jumped { expected } => {
            if shared().jump_warnings.is_due() {
                warn(now / 1000, Some(expected / 1000));
            }
            Duration::from_micros(expected)
        }
    }
}

/// Believes the clock, whatever it says.
pub fn accept() {
    shared().anchor.accept(clock::microseconds(clock::since_1970()), clock::microseconds(clock::since_boot()));
    shared().jump_warnings.reset();
    // From the next ID on.
    shared().generator.shut();
}

fn warn(now: UnixMs, expected: Option<UnixMs>) {
    let code = PgSqlErrorCode::ERRCODE_WARNING;
    let now = display_time(now);
    let report = match expected {
        Some(expected) => error(code, "the server's clock has jumped ahead, and is not believed yet")
            .set_detail(format!(
                "It says {now}, where {} was expected. IDs go on by the old clock until the new one has held for a \
                 minute.",
                display_time(expected)
            ))
            .set_hint("If the clock is right, call snowflake_accept_clock(). If it is not, set it back."),
        None => error(code, "the server's clock has jumped ahead, and is believed from now on")
            .set_detail(format!("It says {now}, and has held for a minute.")),
    };
    report.report(PgLogLevel::WARNING);
}
