//! State files as the tests read them, without a server.

use snowflake_core::UnixMs;
use snowflake_core::record::Record;
use snowflake_core::state_file;
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

/// The state file that a server wrote before there was format version 3.
pub fn in_version_2(record: &Record) -> Vec<u8> {
    let identity = record.identity;
    let mut bytes = b"SNOWFLAK\x02\0\0\0".to_vec();
    bytes.extend(identity.timeline.to_le_bytes());
    for number in [record.mark, identity.system_identifier, identity.directory.number, identity.directory.born_ns] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(identity.numbers.0.to_le_bytes());
    bytes.extend(identity.numbers.1.to_le_bytes());
    bytes.extend(identity.layout.to_string().into_bytes());
    bytes.resize(156, 0);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}
