//! What a data directory remembers of the record that it wrote last.
//!
//! A state directory can be exchanged, and a state file can be an old copy. Both look like a restart. So each life of
//! the generator has a random number. The record has it, and so does this file in the data directory, 88 bytes:
//!
//! ```text
//!   0               8       12      16              24              32              40
//!   ┌───────────────┬───────┬───────┬───────────────┬───────────────┬───────────────┐
//!   │ "SNOWLIFE"    │version│       │ number of the │ inode of this │ its birth,    │   integers are
//!   │               │   1   │   0   │ life          │ file          │ Unix ns, or 0 │   little-endian
//!   ├───────────────┼───────┴───────┼───────────────┼───────────────┼───────┬───────┤
//!   │ inode of the  │ its birth,    │ revision that │ its first mark│ data  │worker │   the checksum is of
//!   │ state dir.    │ Unix ns, or 0 │ it began after│ in WAL, or 0  │ center│       │   all bytes before it
//!   ├───────┬───────┼───────────────┴───────────────┴───────────────┴───────┴───────┘
//!   │       │CRC-32C│
//!   │   0   │       │
//!   └───────┴───────┘
//!   80      84      88
//! ```
//!
//! The file names itself, since backups and pg_rewind bring the files of other servers: a copy has an inode of its own,
//! and says nothing about what this data directory wrote.

use crate::UnixMs;
use crate::mark::record::Record;
use crate::server::identity::{Inode, Worker};

const MAGIC: [u8; 8] = *b"SNOWLIFE";
const VERSION: u32 = 1;
const CHECKED: usize = 84;

/// Length of the file in bytes.
pub const LENGTH: usize = 88;

/// A life of the generator, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its random number.
    pub number: u64,
    /// The records of this life have greater revisions, and no earlier record here has.
    pub revision: u64,
    /// The data center and the worker of its IDs.
    pub worker: Worker,
    /// WAL knows of this life if it has this mark, which was its first one, or a higher one. 0 if marks did not go
    /// through WAL.
    pub wal_mark: UnixMs,
}

/// The life that a data directory knows to be its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastLife {
    /// What the data directory has kept of it.
    pub life: Life,
    /// Whether it wrote its record in another directory than the present state directory.
    pub elsewhere: bool,
}

impl LastLife {
    /// [`Life::revision`] of the life that begins where this record is found.
    ///
    /// If the record of the last life is lost, it may come back, with a revision that this life has reached: less than
    /// 2⁴⁰ further than it began, at a thousand writes a second for thirty years.
    pub fn revision_of_next(last: Option<Self>, record: Option<&Record>) -> u64 {
        let beyond = |last: Self| last.life.revision.saturating_add(1 << 40);
        let revision = record.map_or(0, |record| record.revision);
        match last {
            Some(last) if !record.is_some_and(|record| record.continues(last.life.number)) => {
                revision.max(beyond(last))
            }
            _ => revision,
        }
    }
}

/// The bytes of the file with this inode, for this state directory.
pub fn encode(life: Life, file: Inode, directory: Inode) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let Life { number, revision, worker, wal_mark } = life;
    let numbers = [number, file.number, file.born_ns, directory.number, directory.born_ns, revision, wal_mark, worker];
    bytes[16..80].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
    let checksum = crc32c::crc32c(&bytes[..CHECKED]);
    bytes[CHECKED..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads the file with this inode; `None` if it was written by another data directory, or is damaged: then it says
/// nothing.
pub fn decode(bytes: &[u8], file: Inode, state_directory: Inode) -> Option<LastLife> {
    let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
    let checksum = crc32c::crc32c(&bytes[..CHECKED]).to_le_bytes();
    if bytes[..8] != MAGIC || bytes[8..12] != VERSION.to_le_bytes() || bytes[CHECKED..] != checksum {
        return None;
    }
    let (numbers, _) = bytes[16..80].as_chunks();
    let [number, file_number, file_born_ns, directory_number, directory_born_ns, revision, wal_mark, worker] =
        numbers.try_into().map(|numbers: [[u8; 8]; 8]| numbers.map(u64::from_le_bytes)).ok()?;
    let written_as = Inode { number: file_number, born_ns: file_born_ns };
    let last_directory = Inode { number: directory_number, born_ns: directory_born_ns };
    let elsewhere = !last_directory.same_inode(&state_directory);
    let life = Life { number, revision, worker, wal_mark };
    written_as.same_inode(&file).then_some(LastLife { life, elsewhere })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Life = Life { number: 0x0102_0304_0506_0708, revision: 9, worker: 4, wal_mark: 10 };
    const FILE: Inode = Inode { number: 11, born_ns: 1_700_000_000_000_000_001 };
    const DIRECTORY: Inode = Inode { number: 12, born_ns: 1_700_000_000_000_000_002 };
    const OTHER: Inode = Inode { number: 13, born_ns: 1_700_000_000_000_000_003 };

    #[test]
    fn a_file_says_which_life_was_the_last_and_whether_its_mark_is_elsewhere() {
        let bytes = encode(LIFE, FILE, DIRECTORY);
        for (present, elsewhere) in [(DIRECTORY, false), (OTHER, true)] {
            assert_eq!(decode(&bytes, FILE, present), Some(LastLife { life: LIFE, elsewhere }));
        }
    }

    #[test]
    fn a_copy_of_the_file_says_nothing() {
        assert_eq!(decode(&encode(LIFE, FILE, DIRECTORY), OTHER, DIRECTORY), None);
    }

    #[test]
    fn a_damaged_file_says_nothing() {
        let good = encode(LIFE, FILE, DIRECTORY);
        for bit in 0..LENGTH * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, FILE, DIRECTORY), None, "bit {bit}");
        }
        assert_eq!(decode(&good[..LENGTH - 1], FILE, DIRECTORY), None);
        // Another kind of file, and another version, each with the right checksum.
        for at in [0, 8] {
            let mut other = good;
            other[at] += 1;
            let checksum = crc32c::crc32c(&other[..CHECKED]).to_le_bytes();
            other[CHECKED..].copy_from_slice(&checksum);
            assert_eq!(decode(&other, FILE, DIRECTORY), None);
        }
        assert_eq!(decode(&[], FILE, DIRECTORY), None);
    }

    /// The format is a promise to files that exist.
    #[test]
    fn the_format_has_not_changed() {
        let mut bytes = b"SNOWLIFE\x01\0\0\0\0\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\x0b\0\0\0\0\0\0\0".to_vec();
        bytes.extend(FILE.born_ns.to_le_bytes());
        bytes.extend(12_u64.to_le_bytes());
        bytes.extend(DIRECTORY.born_ns.to_le_bytes());
        bytes.extend([9_u64, 10, 4].map(u64::to_le_bytes).concat());
        bytes.extend([0; 4]);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        assert_eq!(encode(LIFE, FILE, DIRECTORY)[..], bytes[..]);
    }
}
