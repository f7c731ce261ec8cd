//! Tests that cannot be run here: on this version of PostgreSQL, by this user, or without a program.

use std::fmt::Display;
use std::panic::resume_unwind;

/// Why a test was not run.
pub(crate) struct Skipped(pub String);

/// Ends a test that cannot be run here; the run counts it as ignored, and says why.
pub fn skip(reason: impl Display) -> ! {
    resume_unwind(Box::new(Skipped(reason.to_string())))
}
