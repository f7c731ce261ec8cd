//! State files as the tests read them, without a server.

use snowflake_core::UnixMs;
use snowflake_core::mark::record::Record;
use snowflake_core::mark::state_file;
use std::fs;
use std::path::Path;

/// The record in a state file.
pub fn record_in(path: &Path) -> Record {
    state_file::decode(&fs::read(path).expect("a state file")).expect("a whole record")
}

/// The durable mark in a state file.
pub fn mark_in(path: &Path) -> UnixMs {
    record_in(path).mark
}
