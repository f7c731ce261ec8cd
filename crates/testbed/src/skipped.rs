//! Tests that cannot be run here: on this version of PostgreSQL, by this user, or without a program.

use std::fmt::Display;

/// Why a test was not run.
#[cfg(feature = "runner")]
pub(crate) struct Skipped(pub String);

/// Ends a test that cannot be run here; the run counts it as ignored, and says why. Without a run, a panic says so.
pub fn skip(reason: impl Display) -> ! {
    #[cfg(feature = "runner")]
    std::panic::resume_unwind(Box::new(Skipped(reason.to_string())));
    #[cfg(not(feature = "runner"))]
    panic!("{reason}");
}
