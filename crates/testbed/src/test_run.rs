//! Whether this is a run of tests, and how a test says that it cannot be run here.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_TESTING: AtomicBool = AtomicBool::new(false);

/// Whether this is a run of tests, whose servers are in memory and wait less. Examples and benchmarks are none.
pub(crate) fn is_testing() -> bool {
    IS_TESTING.load(Ordering::Relaxed)
}

/// To be called before the first server is made.
#[cfg(feature = "runner")]
pub(crate) fn set_testing() {
    IS_TESTING.store(true, Ordering::Relaxed);
}

/// Why a test was not run.
#[cfg(feature = "runner")]
pub(crate) struct Skipped {
    pub reason: String,
    /// Whether this version of PostgreSQL is why: no machine could run it.
    pub by_version: bool,
}

/// Ends a test that cannot be run here: on this version of PostgreSQL, by this user, or without a program. The run
/// counts it as ignored, and says why. Without a runner, a panic says so.
pub fn skip(reason: impl Display) -> ! {
    skip_by(reason, false)
}

/// Ends a test that needs this version of PostgreSQL.
pub(crate) fn skip_before(major: u32) -> ! {
    skip_by(format_args!("it came with PostgreSQL {major}"), true)
}

#[cfg_attr(not(feature = "runner"), expect(unused_variables, reason = "nobody counts"))]
fn skip_by(reason: impl Display, by_version: bool) -> ! {
    #[cfg(feature = "runner")]
    std::panic::resume_unwind(Box::new(Skipped { reason: reason.to_string(), by_version }));
    #[cfg(not(feature = "runner"))]
    panic!("{reason}");
}
