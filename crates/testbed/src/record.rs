//! What a state file says.

use snowflake_core::UnixMs;
use snowflake_core::mark::record::Record;
use snowflake_core::mark::state_file;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The record in a state file. A slow reader can find both slots in the middle of a write, one after the other.
pub fn record_in(path: &Path) -> Record {
    let read = || state_file::decode(&fs::read(path).expect("a state file"));
    let again = |_| read().inspect_err(|_| sleep(Duration::from_millis(10))).ok();
    (0..20).find_map(again).unwrap_or_else(|| read().expect("a whole record"))
}

/// The durable mark in a state file.
pub fn mark_in(path: &Path) -> UnixMs {
    record_in(path).mark
}
