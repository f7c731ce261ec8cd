//! What a data directory remembers of the record that it wrote last.
//!
//! A state directory can be exchanged, and a state file can be an old copy. Both look like a restart. So each life of
//! the generator has a random number. The record has it, and so does this file in the data directory;
//! [`formats`](crate::formats) has the places of its bytes.
//!
//! The file names itself, since backups and pg_rewind bring the files of other servers: a copy has an inode of its own,
//! and says nothing about what this data directory wrote.

use crate::UnixMs;
use crate::formats::{CHECKSUM, Format, HEADER, Newer, Release};
use crate::mark::record::Record;
use crate::server::identity::{Inode, Worker};

const FORMAT: Format = Format { magic: *b"SNOWLIFE", version: 1, readable_by: Release::FIRST };
const END: usize = 88;

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
pub fn encode(life: Life, file: Inode, directory: Inode) -> Vec<u8> {
    let mut bytes = vec![0; END + CHECKSUM];
    let Life { number, revision, worker, wal_mark } = life;
    let numbers = [number, file.number, file.born_ns, directory.number, directory.born_ns, revision, wal_mark, worker];
    bytes[HEADER..END].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
    FORMAT.seal(&mut bytes);
    bytes
}

/// Reads the file with this inode; `None` if it was written by another data directory, or is damaged: then it says
/// nothing.
pub fn decode(bytes: &[u8], file: Inode, state_directory: Inode) -> Result<Option<LastLife>, Newer> {
    let Some(bytes) = FORMAT.open_if_whole(bytes, END)? else { return Ok(None) };
    let (numbers, _) = bytes[HEADER..END].as_chunks();
    let numbers = <[[u8; 8]; 8]>::try_from(numbers).expect("eight numbers").map(u64::from_le_bytes);
    let [number, file_number, file_born_ns, directory_number, directory_born_ns, revision, wal_mark, worker] = numbers;
    let written_as = Inode { number: file_number, born_ns: file_born_ns };
    let last_directory = Inode { number: directory_number, born_ns: directory_born_ns };
    let elsewhere = !last_directory.same_inode(&state_directory);
    let life = Life { number, revision, worker, wal_mark };
    Ok(written_as.same_inode(&file).then_some(LastLife { life, elsewhere }))
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
            assert_eq!(decode(&bytes, FILE, present), Ok(Some(LastLife { life: LIFE, elsewhere })));
        }
    }

    #[test]
    fn a_copy_of_the_file_says_nothing() {
        assert_eq!(decode(&encode(LIFE, FILE, DIRECTORY), OTHER, DIRECTORY), Ok(None));
    }

    #[test]
    fn a_damaged_file_says_nothing() {
        let good = encode(LIFE, FILE, DIRECTORY);
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, FILE, DIRECTORY), Ok(None), "bit {bit}");
        }
        for length in 0..good.len() {
            assert_eq!(decode(&good[..length], FILE, DIRECTORY), Ok(None), "{length} bytes");
        }
    }
}
