//! The bytes of the durable mark and of its owner.
//!
//! ```text
//!   0               8       12      16              24              32              40
//!   ┌───────────────┬───────┬───────┬───────────────┬───────────────┬───────────────┐
//!   │ "SNOWFLAK"    │version│time-  │ mark, Unix ms │ system        │ inode of the  │   integers are
//!   │               │   2   │line   │               │ identifier    │ directory     │   little-endian
//!   ├───────────────┼───────┼───────┼───────────────┴───────────────┴───────────────┤
//!   │ its birth,    │data   │worker │ layout, spelled out, padded with zeros        │
//!   │ Unix ns, or 0 │center │       │ "t41 d5 w5 s12 unit=1ms epoch=2010-11-04T0…"  │
//!   ├───────────────┼───────┼───────┼───────────────────────────────────────────────┘
//!   40              48      52      56                                       156     160
//!                                                                             │CRC-32C│   of all bytes before it
//! ```
//!
//! The mark is a point in time and not a position, so that it keeps its meaning when the layout changes.

use crate::UnixMs;
use crate::identity::{Directory, Identity, Record};
use crate::layout::Layout;
use std::ops::Range;

const MAGIC: [u8; 8] = *b"SNOWFLAK";
const VERSION: u32 = 2;
const LAYOUT: Range<usize> = 56..156;

/// Length of a record in bytes; below the 512 that a disk writes as one.
pub const LENGTH: usize = 160;

/// Why bytes are not a record. A record that can't be read is never taken for one that was never written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Not a state file at all.
    #[error("The file does not begin as a state file does")]
    Magic,
    /// Written by a version of the extension that this one does not know.
    #[error("The file has format version {0}, expected {VERSION}")]
    Version(u32),
    /// Too short or too long.
    #[error("The file has {0} bytes, expected {LENGTH}")]
    Length(usize),
    /// The checksum is not that of the bytes.
    #[error("The file has checksum {found:08X}, expected {expected:08X}")]
    Checksum {
        /// The checksum of the bytes.
        expected: u32,
        /// The checksum in the file.
        found: u32,
    },
    /// Whole, but no server can have written it: all timestamps of its layout are below `end`.
    #[error("The mark, {mark} ms after 1970, is after the end of the layout, {end} ms after 1970")]
    Mark {
        /// The mark in the file.
        mark: UnixMs,
        /// See [`Layout::end`].
        end: UnixMs,
    },
    /// Whole, but with a layout that this extension can't read.
    #[error("The file has the unknown layout \"{0}\"")]
    Layout(String),
}

/// The bytes of a record.
pub fn encode(record: &Record) -> [u8; LENGTH] {
    let Identity { system_identifier, timeline, directory, datacenter, worker, layout } = record.identity;
    let layout = layout.to_string();
    assert!(layout.len() <= LAYOUT.len(), "no layout is that long: {layout}");
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&timeline.to_le_bytes());
    bytes[16..24].copy_from_slice(&record.mark.to_le_bytes());
    bytes[24..32].copy_from_slice(&system_identifier.to_le_bytes());
    bytes[32..40].copy_from_slice(&directory.inode.to_le_bytes());
    bytes[40..48].copy_from_slice(&directory.born_ns.to_le_bytes());
    bytes[48..52].copy_from_slice(&datacenter.to_le_bytes());
    bytes[52..56].copy_from_slice(&worker.to_le_bytes());
    bytes[LAYOUT.start..LAYOUT.start + layout.len()].copy_from_slice(layout.as_bytes());
    let checksum = crc32c::crc32c(&bytes[..LAYOUT.end]);
    bytes[LAYOUT.end..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads a record.
pub fn decode(bytes: &[u8]) -> Result<Record, Damage> {
    // Another version may have another length, so its number comes first.
    if bytes.get(..8) != Some(&MAGIC) {
        return Err(if bytes.len() < 8 { Damage::Length(bytes.len()) } else { Damage::Magic });
    }
    let u32_at = |at| read(bytes, at, u32::from_le_bytes).ok_or(Damage::Length(bytes.len()));
    let u64_at = |at| read(bytes, at, u64::from_le_bytes).ok_or(Damage::Length(bytes.len()));
    match u32_at(8)? {
        VERSION if bytes.len() == LENGTH => {}
        VERSION => return Err(Damage::Length(bytes.len())),
        version => return Err(Damage::Version(version)),
    }
    let (expected, found) = (crc32c::crc32c(&bytes[..LAYOUT.end]), u32_at(LAYOUT.end)?);
    if found != expected {
        return Err(Damage::Checksum { expected, found });
    }
    let layout = String::from_utf8_lossy(&bytes[LAYOUT]);
    let layout = layout.trim_end_matches('\0');
    let layout = Layout::from_spelled_out(layout).ok_or_else(|| Damage::Layout(layout.to_owned()))?;
    let (mark, end) = (u64_at(16)?, layout.end());
    if mark > end {
        return Err(Damage::Mark { mark, end });
    }
    Ok(Record {
        mark,
        identity: Identity {
            system_identifier: u64_at(24)?,
            timeline: u32_at(12)?,
            directory: Directory { inode: u64_at(32)?, born_ns: u64_at(40)? },
            datacenter: u32_at(48)?,
            worker: u32_at(52)?,
            layout,
        },
    })
}

fn read<const N: usize, T>(bytes: &[u8], at: usize, number: fn([u8; N]) -> T) -> Option<T> {
    bytes.get(at..at + N)?.try_into().ok().map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            mark: 1_700_000_000_123,
            identity: Identity {
                system_identifier: 0x0102_0304_0506_0708,
                timeline: 3,
                directory: Directory { inode: 0x1112_1314, born_ns: 0x2122_2324_2526_2728 },
                datacenter: 4,
                worker: 5,
                layout: "twitter".parse().unwrap(),
            },
        }
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        assert_eq!(decode(&encode(&record())), Ok(record()));
        let end = record().identity.layout.end();
        for mark in [0, 1, end] {
            let record = Record { mark, ..record() };
            assert_eq!(decode(&encode(&record)), Ok(record));
        }
    }

    #[test]
    fn a_mark_after_the_end_of_its_layout_is_noticed() {
        let end = record().identity.layout.end();
        for mark in [end + 1, u64::MAX] {
            assert_eq!(decode(&encode(&Record { mark, ..record() })), Err(Damage::Mark { mark, end }));
        }
    }

    /// The format is a promise to files that exist: these bytes must stay readable.
    #[test]
    fn the_format_has_not_changed() {
        let mut bytes = b"SNOWFLAK\x02\0\0\0\x03\0\0\0\x7b\x68\xe5\xcf\x8b\x01\0\0\x08\x07\x06\x05\x04\x03\x02\x01\
            \x14\x13\x12\x11\0\0\0\0\x28\x27\x26\x25\x24\x23\x22\x21\x04\0\0\0\x05\0\0\0\
            t41 d5 w5 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z"
            .to_vec();
        bytes.resize(156, 0);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        assert_eq!(decode(&bytes), Ok(record()));
        assert_eq!(encode(&record())[..], bytes[..]);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = encode(&record());
        for bit in 0..LENGTH * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_other_length_is_noticed() {
        let good = encode(&record());
        for length in 0..LENGTH {
            assert_eq!(decode(&good[..length]), Err(Damage::Length(length)));
        }
        assert_eq!(decode(&[&good[..], b"\n"].concat()), Err(Damage::Length(LENGTH + 1)));
    }

    #[test]
    fn another_version_is_told_whatever_its_length() {
        let mut bytes = encode(&record()).to_vec();
        bytes[8] = 3;
        assert_eq!(decode(&bytes), Err(Damage::Version(3)));
        assert_eq!(decode(&bytes[..28]), Err(Damage::Version(3)));
    }
}
