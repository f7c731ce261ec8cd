//! State files as the tests read them, without a server.

use snowflake_core::{UnixMs, state_record};
use std::fs;
use std::path::Path;

/// The durable mark in a state file.
pub fn mark_in(path: &Path) -> UnixMs {
    state_record::decode(&fs::read(path).expect("a state file")).expect("a whole record").mark
}
