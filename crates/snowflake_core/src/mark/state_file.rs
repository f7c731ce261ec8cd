//! The bytes of the state file, which keeps a [`Record`].
//!
//! The file has two *slots* of 512 bytes, at 0 and at 4096, and is 8192 bytes long; the rest is 0. A record with an
//! even revision is in the first slot, one with an odd revision in the second. So each write leaves the previous record
//! untouched. A new file has the same record in both slots, once with the previous revision.
//!
//! ```text
//!   0               8       12      16              24              32              40
//!   ┌───────────────┬───────┬───────┬───────────────┬───────────────┬───────────────┐
//!   │ "SNOWFLAK"    │version│time-  │ revision      │ number of the │ number of the │   integers are
//!   │               │   4   │line   │               │ life          │ previous life │   little-endian
//!   ├───────────────┼───────┴───────┼───────────────┼───────────────┼───────┬───────┤
//!   │ mark, Unix ms │ system        │ inode of the  │ its birth,    │ worker        │
//!   │               │ identifier    │ directory     │ Unix ns, or 0 │               │
//!   ├───────────────┴───────────────┴───────────────┴───────────────┴───────────────┤
//!   │ layout, spelled out, padded with zeros: "t41 w10 s12 unit=1ms epoch=2010-11-…" │   100 bytes
//!   ├───────┬───────────────┬───────────────┬───────────────┬───────────────────────┤
//!   │ how   │ mark of the   │ worker        │ its mark      │ …                     │   from 180, 192;
//!   │ many  │ unlisted      │               │               │                       │   17 workers at most
//!   ├───────┴───────┼───────┴───────┼───────┬───────┼───────┴───────────────────────┘
//!   464             472             480     │       488
//!   │ boot, or 0    │ generation of │ mark in WAL   │   the machine of the writer
//!   │               │ the machine   │               │
//!   ├───────┬───────┼───────────────┼───────────────┘
//!   488     500     504             512
//!   │   0   │CRC-32C│ revision      │   the checksum is of all bytes before it
//! ```
//!
//! The mark of the unlisted counts for every worker without an entry. Marks are points in time and not positions, so
//! they keep their meaning when the layout changes. The layout is [flat](Layout::flat).
//!
//! # A write that was cut off
//!
//! If the machine stops during a write, a slot can have the beginning of the new record and the end of what was in it
//! before. Its checksum is wrong then, and the revision at its end is still lower than the other slot's. No ID was
//! issued above that record, so the other slot counts. A slot with a wrong checksum and a higher revision at its end is
//! damaged, and so is the file: the record may have been in use. The same is true of a slot in which all is 0.

use crate::UnixMs;
use crate::id::layout::Layout;
use crate::mark::record::{OTHER_WORKERS, OtherMarks, Record};
use crate::server::identity::{Identity, Inode};
use crate::server::vmclock::Machine;
use std::ops::Range;

const MAGIC: [u8; 8] = *b"SNOWFLAK";
const VERSION: u32 = 4;
const LAYOUT: Range<usize> = 80..180;
const OTHERS: usize = 180;
const UNLISTED: usize = 184;
const LIST: usize = 192;
const ENTRY: usize = 16;
const BOOT: usize = 464;
const GENERATION: usize = 472;
const LOGGED: usize = 480;
const CHECKSUM: usize = 500;
const END_REVISION: usize = 504;

/// Length of a slot in bytes, which a disk writes as a whole.
pub const SLOT: usize = 512;

/// Length of the file in bytes.
pub const LENGTH: usize = 8192;

/// Where the slot of a revision begins. In blocks of their own, since a block of a disk can have 4096 bytes.
pub fn offset(revision: u64) -> usize {
    if revision.is_multiple_of(2) { 0 } else { 4096 }
}

/// Why bytes are not a record. A record that can't be read is never taken for one that was never written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Not a state file at all.
    #[error("The file does not begin like a state file")]
    Magic,
    /// Written by a version of the extension that this one does not know.
    #[error("The file has format version {0}, expected {VERSION}")]
    Version(u32),
    /// Too short or too long.
    #[error("The file has {0} bytes, expected {LENGTH}")]
    Length(usize),
    /// The checksum does not match the bytes.
    #[error("The file has checksum {stored:08X}, expected {expected:08X}")]
    Checksum {
        /// The checksum of the bytes.
        expected: u32,
        /// The checksum in the file.
        stored: u32,
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

/// The bytes of a new file with this record. Its revision is not 0.
pub fn encode(record: &Record) -> Vec<u8> {
    let mut bytes = vec![0; LENGTH];
    for revision in [record.revision - 1, record.revision] {
        let offset = offset(revision);
        bytes[offset..offset + SLOT].copy_from_slice(&encode_slot(&Record { revision, ..*record }));
    }
    bytes
}

/// The bytes of a slot, to be written at its [`offset`].
pub fn encode_slot(record: &Record) -> [u8; SLOT] {
    let Identity { system_identifier, timeline, directory, worker, layout } = record.identity;
    let layout = layout.to_string();
    assert!(layout.len() <= LAYOUT.len(), "no layout is that long: {layout}");
    let mut bytes = [0; SLOT];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &MAGIC);
    put(8, &VERSION.to_le_bytes());
    put(12, &timeline.to_le_bytes());
    put(16, &record.revision.to_le_bytes());
    put(24, &record.life.to_le_bytes());
    put(32, &record.previous_life.to_le_bytes());
    put(40, &record.mark.to_le_bytes());
    put(48, &system_identifier.to_le_bytes());
    put(56, &directory.number.to_le_bytes());
    put(64, &directory.born_ns.to_le_bytes());
    put(72, &worker.to_le_bytes());
    put(LAYOUT.start, layout.as_bytes());
    put(UNLISTED, &record.others.unlisted().to_le_bytes());
    let mut listed = 0_u32;
    for (at, (worker, mark)) in (LIST..).step_by(ENTRY).zip(record.others.listed()) {
        put(at, &worker.to_le_bytes());
        put(at + 8, &mark.to_le_bytes());
        listed += 1;
    }
    put(OTHERS, &listed.to_le_bytes());
    if let Some(Machine { boot, generation }) = record.machine {
        put(BOOT, &boot.to_le_bytes());
        put(GENERATION, &generation.to_le_bytes());
    }
    put(LOGGED, &record.logged.to_le_bytes());
    put(END_REVISION, &record.revision.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..CHECKSUM]);
    bytes[CHECKSUM..END_REVISION].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads the record of a file.
pub fn decode(bytes: &[u8]) -> Result<Record, Damage> {
    // Another version may have another length, so its number comes first.
    let version = [0, 4096].into_iter().find_map(|slot| other_version(bytes.get(slot..)?));
    if bytes.len() != LENGTH {
        let magic_is_wrong = bytes.len() >= MAGIC.len() && !bytes.starts_with(&MAGIC) && bytes[..8] != [0; 8];
        return Err(version.unwrap_or(if magic_is_wrong { Damage::Magic } else { Damage::Length(bytes.len()) }));
    }
    let slot = |offset| Slot::read(&bytes[offset..offset + SLOT]);
    match [slot(0), slot(4096)] {
        [Slot::Whole(one), Slot::Whole(other)] => Ok(*if one.revision > other.revision { one } else { other }),
        [Slot::Whole(record), Slot::Bad(end, damage)] | [Slot::Bad(end, damage), Slot::Whole(record)] => {
            if end.is_some_and(|end| end < record.revision) { Ok(*record) } else { Err(damage) }
        }
        [Slot::Bad(_, damage), Slot::Bad(..)] => Err(damage),
    }
}

/// The version of a slot, or of a file, if it is another one.
fn other_version(bytes: &[u8]) -> Option<Damage> {
    let version = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
    (bytes.starts_with(&MAGIC) && version != VERSION).then_some(Damage::Version(version))
}

/// What is in a slot.
enum Slot {
    /// A record.
    Whole(Box<Record>),
    /// No record; with the revision at its end, unless all is 0.
    Bad(Option<u64>, Damage),
}

impl Slot {
    fn read(bytes: &[u8]) -> Self {
        match decode_slot(bytes) {
            Ok(record) => Self::Whole(Box::new(record)),
            Err(damage) => {
                let is_written = bytes.iter().any(|&byte| byte != 0);
                Self::Bad(is_written.then(|| u64_at(bytes, END_REVISION)), damage)
            }
        }
    }
}

fn decode_slot(bytes: &[u8]) -> Result<Record, Damage> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Damage::Magic);
    }
    let (expected, stored) = (crc32c::crc32c(&bytes[..CHECKSUM]), u32_at(bytes, CHECKSUM));
    if stored != expected {
        return Err(Damage::Checksum { expected, stored });
    }
    if let Some(other_version) = other_version(bytes) {
        return Err(other_version);
    }
    let (layout, mark) = layout_and_mark(&bytes[LAYOUT], u64_at(bytes, 40))?;
    let listed = usize::try_from(u32_at(bytes, OTHERS)).unwrap_or(OTHER_WORKERS).min(OTHER_WORKERS);
    let entry = |i| {
        let at = LIST + ENTRY * i;
        (u64_at(bytes, at), u64_at(bytes, at + 8))
    };
    Ok(Record {
        revision: u64_at(bytes, 16),
        life: u64_at(bytes, 24),
        previous_life: u64_at(bytes, 32),
        mark,
        logged: u64_at(bytes, LOGGED),
        identity: Identity {
            system_identifier: u64_at(bytes, 48),
            timeline: u32_at(bytes, 12),
            directory: Inode { number: u64_at(bytes, 56), born_ns: u64_at(bytes, 64) },
            worker: u64_at(bytes, 72),
            layout,
        },
        machine: Some(Machine { boot: u64_at(bytes, BOOT), generation: u64_at(bytes, GENERATION) })
            .filter(|machine| machine.boot > 0),
        others: OtherMarks::new((0..listed).map(entry), u64_at(bytes, UNLISTED)),
    })
}

/// The layout, and the mark, which must not be after the end of the layout.
fn layout_and_mark(layout: &[u8], mark: UnixMs) -> Result<(Layout, UnixMs), Damage> {
    let layout = String::from_utf8_lossy(layout);
    let layout = layout.trim_end_matches('\0');
    let layout = Layout::from_spelled_out(layout).ok_or_else(|| Damage::Layout(layout.to_owned()))?;
    let end = layout.end();
    if mark > end { Err(Damage::Mark { mark, end }) } else { Ok((layout, mark)) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;
