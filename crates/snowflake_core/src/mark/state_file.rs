//! The bytes of the state file, which keeps a [`Record`]; [`formats`] has their places.
//!
//! The file has two *slots* of 512 bytes, at 0 and at 4096, and is 8192 bytes long; the rest is 0. A record with an
//! even revision is in the first slot, one with an odd revision in the second. So each write leaves the previous record
//! untouched. A new file has the same record in both slots, once with the previous revision.
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
//!
//! So a slot is no longer than a sector, which a disk writes as a whole: of two sectors, a disk could have written only
//! the second, with the higher revision.

use crate::UnixMs;
use crate::formats::{self, Format, Newer, Release, Unreadable, u32_at, u64_at};
use crate::id::layout::Layout;
use crate::mark::record::{LaterFields, OTHER_WORKERS, OtherMarks, Record};
use crate::server::identity::{Identity, Inode};
use crate::server::vmclock::Machine;
use std::ops::Range;

const FORMAT: Format = Format { magic: *b"SNOWFLAK", version: 1, readable_by: Release::FIRST };
const LAYOUT: Range<usize> = 128..228;
const LIST: usize = 232;
const ENTRY: usize = 16;
const LATER: Range<usize> = LIST + ENTRY * OTHER_WORKERS..CHECKSUM;
const CHECKSUM: usize = END_REVISION - formats::CHECKSUM;
const END_REVISION: usize = SLOT - 8;

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
    /// Not a state file at all, or changed.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Too short or too long.
    #[error("The file has {0} bytes, expected {LENGTH}")]
    Length(usize),
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
    let Machine { boot, generation } = record.machine.unwrap_or(Machine { boot: 0, generation: 0 });
    let numbers = [record.revision, record.life, record.previous_life, record.mark, record.logged, system_identifier];
    put(24, numbers.map(u64::to_le_bytes).as_flattened());
    let numbers = [directory.number, directory.born_ns, worker, boot, generation];
    put(72, numbers.map(u64::to_le_bytes).as_flattened());
    put(112, &timeline.to_le_bytes());
    put(120, &record.others.unlisted().to_le_bytes());
    put(LAYOUT.start, layout.as_bytes());
    let mut listed = 0_u32;
    for (at, (worker, mark)) in (LIST..).step_by(ENTRY).zip(record.others.listed()) {
        put(at, &worker.to_le_bytes());
        put(at + 8, &mark.to_le_bytes());
        listed += 1;
    }
    put(116, &listed.to_le_bytes());
    // mutant: later-fields-written
    put(LATER.start, &record.later.0);
    put(END_REVISION, &record.revision.to_le_bytes());
    FORMAT.seal(&mut bytes[..END_REVISION]);
    bytes
}

/// Reads the record of a file.
pub fn decode(bytes: &[u8]) -> Result<Record, Damage> {
    // Before the length, which may be another one.
    // mutant: newer-before-damaged
    if let Some(newer) = [0, 4096].into_iter().find_map(|slot| newer(bytes.get(slot..)?)) {
        return Err(Unreadable::Newer(newer).into());
    }
    if bytes.len() != LENGTH {
        let is_another = bytes.len() >= 8 && !bytes.starts_with(&FORMAT.magic) && bytes[..8] != [0; 8];
        return Err(if is_another { Unreadable::Magic.into() } else { Damage::Length(bytes.len()) });
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

/// The library of a slot, if it is one that this one can't read.
fn newer(bytes: &[u8]) -> Option<Newer> {
    FORMAT.open_if_whole(bytes, formats::HEADER).err()
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
    FORMAT.open(&bytes[..END_REVISION], CHECKSUM)?;
    let (layout, mark) = layout_and_mark(&bytes[LAYOUT], u64_at(bytes, 48))?;
    let listed = usize::try_from(u32_at(bytes, 116)).unwrap_or(OTHER_WORKERS).min(OTHER_WORKERS);
    let entry = |i| {
        let at = LIST + ENTRY * i;
        (u64_at(bytes, at), u64_at(bytes, at + 8))
    };
    Ok(Record {
        revision: u64_at(bytes, 24),
        life: u64_at(bytes, 32),
        previous_life: u64_at(bytes, 40),
        mark,
        logged: u64_at(bytes, 56),
        identity: Identity {
            system_identifier: u64_at(bytes, 64),
            timeline: u32_at(bytes, 112),
            directory: Inode { number: u64_at(bytes, 72), born_ns: u64_at(bytes, 80) },
            worker: u64_at(bytes, 88),
            layout,
        },
        machine: Some(Machine { boot: u64_at(bytes, 96), generation: u64_at(bytes, 104) })
            .filter(|machine| machine.boot > 0),
        others: OtherMarks::new((0..listed).map(entry), u64_at(bytes, 120)),
        later: LaterFields(bytes[LATER].try_into().expect("as many bytes")),
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

#[cfg(test)]
mod tests;
