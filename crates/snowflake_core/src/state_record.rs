//! The bytes in which the durable mark is kept.
//!
//! ```text
//!  0               8       12      16              24      28
//!  ┌───────────────┬───────┬───────┬───────────────┬───────┐
//!  │ "SNOWFLAK"    │version│ zero  │ mark, Unix ms │CRC-32C│   integers are little-endian
//!  └───────────────┴───────┴───────┴───────────────┴───────┘
//!  └────────────── covered by the checksum ────────┘
//! ```
//!
//! The mark is a point in time and not a position, so that it keeps its meaning when the layout changes.

use crate::UnixMs;

const MAGIC: [u8; 8] = *b"SNOWFLAK";
const VERSION: u32 = 1;

/// Length of a record in bytes; far below the 512 that a disk writes as one.
pub const LENGTH: usize = 28;

/// Why bytes are not a record. A record that can't be read is never taken for one that was never written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Too short or too long.
    #[error("it has {0} bytes instead of {LENGTH}")]
    Length(usize),
    /// Not a state file at all.
    #[error("it does not begin as a state file does")]
    Magic,
    /// The checksum is not that of the bytes.
    #[error("its checksum is {found:08X} instead of {expected:08X}")]
    Checksum {
        /// The checksum of the bytes.
        expected: u32,
        /// The checksum in the file.
        found: u32,
    },
    /// Written by a version of the extension that this one does not know.
    #[error("its format has version {0}, and this extension reads version {VERSION}")]
    Version(u32),
}

/// The bytes of a record.
pub fn encode(mark: UnixMs) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&mark.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..24]);
    bytes[24..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The mark in a record.
pub fn decode(bytes: &[u8]) -> Result<UnixMs, Damage> {
    let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| Damage::Length(bytes.len()))?;
    if bytes[..8] != MAGIC {
        return Err(Damage::Magic);
    }
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (expected, found) = (crc32c::crc32c(&bytes[..24]), u32_at(24));
    if found != expected {
        return Err(Damage::Checksum { expected, found });
    }
    match u32_at(8) {
        VERSION => Ok((16..24).rev().fold(0, |mark, at| mark << 8 | u64::from(bytes[at]))),
        version => Err(Damage::Version(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_as_it_was_written() {
        for mark in [0, 1, 1_700_000_000_123, u64::MAX] {
            assert_eq!(decode(&encode(mark)), Ok(mark));
        }
    }

    /// The format is a promise to files that exist: these bytes must stay readable.
    #[test]
    fn the_format_has_not_changed() {
        let mut bytes = *b"SNOWFLAK\x01\0\0\0\0\0\0\0\x7b\x68\xe5\xcf\x8b\x01\0\0\0\0\0\0";
        let checksum = crc32c::crc32c(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(decode(&bytes), Ok(1_700_000_000_123));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = encode(1_700_000_000_123);
        for bit in 0..LENGTH * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_other_length_is_noticed() {
        let good = encode(1_700_000_000_123);
        for length in 0..LENGTH {
            assert_eq!(decode(&good[..length]), Err(Damage::Length(length)));
        }
        assert_eq!(decode(&[&good[..], b"\n"].concat()), Err(Damage::Length(LENGTH + 1)));
    }
}
