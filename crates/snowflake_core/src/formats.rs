//! The bytes of what a server keeps, which libraries of other versions read, too.
//!
//! Each begins with the same header. Integers are little-endian.
//!
//! | header | | |
//! |---|---|---|
//! | 0 | 8 | what it is, in letters |
//! | 8 | 4 | version of the format |
//! | 12 | 2, 2 | written by: the major and the minor version of snowflake_pg |
//! | 16 | 2, 2 | readable by: the oldest snowflake_pg that can read it |
//! | 20 | 4 | length of the header and what follows it, up to its checksum |
//! | *length* | 4 | CRC-32C of all bytes before it |
//!
//! A library that is named in `readable by`, or is later, knows what the first fields are. It ignores those that
//! follow. An older one [refuses](Newer), and names both versions. A damaged format is never taken for a newer one,
//! since the checksum is where every library looks for it.
//!
//! **So a later version may** add fields behind the last one. It raises the version of the format, and leaves `readable
//! by` where it is if servers of older libraries need not know the new fields. Where an older library keeps them, as
//! said below, they must stay true although it has changed the others; or the later library looks at who has written.
//! Any other change raises `readable by`, also a layout that an older library cannot read. The files of version 1 in
//! `tests/formats` stay readable for ever.
//!
//! # The state file: `SNOWFLAK`
//!
//! See [`state_file`](crate::mark::state_file). 8192 bytes, with a slot of 512 bytes at 0 and another at 4096.
//!
//! | slot | | |
//! |---|---|---|
//! | 0 | 24 | header; its length is 500 |
//! | 24 | 8 | revision |
//! | 32 | 8 | number of the life |
//! | 40 | 8 | number of the previous life |
//! | 48 | 8 | mark, Unix ms |
//! | 56 | 8 | mark in WAL, Unix ms |
//! | 64 | 8 | system identifier |
//! | 72 | 8, 8 | the directory's inode, and its birth: Unix ns, or 0 |
//! | 88 | 8 | worker |
//! | 96 | 8, 8 | the machine of the writer: its boot, or 0, and its generation |
//! | 112 | 4 | timeline |
//! | 116 | 4 | how many other workers are listed |
//! | 120 | 8 | mark of the unlisted |
//! | 128 | 100 | layout, spelled out, padded with zeros: "t41 w10 s12 unit=1ms epoch=2010-11-…" |
//! | 228 | 4 | 0 |
//! | 232 | 8 × 16 | other workers and their marks |
//! | 360 | 140 | **free**: 0, or fields of a later version, which an older library keeps from record to record |
//! | 500 | 4 | checksum |
//! | 504 | 8 | revision |
//!
//! A slot has 512 bytes in all versions that this one can read.
//!
//! # The life: `SNOWLIFE`
//!
//! See [`life`](crate::mark::life). An older library does not keep what follows: it is of another life.
//!
//! | file | | |
//! |---|---|---|
//! | 0 | 24 | header; its length is 88 |
//! | 24 | 8 | number of the life |
//! | 32 | 8, 8 | this file's inode, and its birth |
//! | 48 | 8, 8 | the state directory's inode, and its birth |
//! | 64 | 8 | revision that it began after |
//! | 72 | 8 | its first mark in WAL, or 0 |
//! | 80 | 8 | worker |
//! | 88 | 4 | checksum |
//!
//! # The lease: `SNOWLEAS`
//!
//! See [`lease`](crate::server::lease). An older library does not keep what follows: it is of another grant.
//!
//! | file | | |
//! |---|---|---|
//! | 0 | 24 | header; its length is 168 |
//! | 24 | 16 | token |
//! | 40 | 16 | token of the next renewal |
//! | 56 | 8 | granted until, Unix ms |
//! | 64 | 8 | revision of the registry |
//! | 72 | 8 | worker |
//! | 80 | 8 | device of the directory |
//! | 88 | 16 | boot of the machine |
//! | 104 | 8, 8 | this file's inode, and its birth |
//! | 120 | 32 | receipt |
//! | 152 | 8 | begins, Unix ms |
//! | 160 | 8 | inode of the directory |
//! | 168 | 4 | checksum |
//!
//! # The page in WAL: `SNOWMARK`
//!
//! See [`wal_page`](crate::mark::wal_page). Behind the 24 bytes of PostgreSQL's page header:
//!
//! | page | | |
//! |---|---|---|
//! | 0 | 24 | header |
//! | 24 | 8 | mark of all workers, Unix ms, or 0 |
//! | 32 | 100 | layout, spelled out, padded with zeros |
//! | 132 | 4 | how many workers are listed |
//! | 136 | 8 | the horizon, an ID; 0 if there is none, 1 if it is withheld |
//! | 144 | 16 each | workers and their marks |
//! | | | fields of a later version, which an older library keeps |
//! | | 4 | checksum |
//!
//! The workers leave 64 bytes of the page **free** for these fields.
//!
//! # The trace: `SNOWTRAC`
//!
//! See [`trace`](crate::mark::trace).
//!
//! | file | | |
//! |---|---|---|
//! | 0 | 24 | header; its length is 508 |
//! | 24 | 8 | number of the file |
//! | 32 | 8, 8 | this file's inode, and its birth |
//! | 48 | 460 | **free**: 0 |
//! | 508 | 4 | checksum |
//! | 512 | 4096 × 64 | events, of which event n is the (n mod 4096)th |
//! | 266240 | 512 × 256 | lives, of which the nth is the (n mod 512)th |
//!
//! | event | | |
//! |---|---|---|
//! | 0 | 8 | its number, from 1 |
//! | 8 | 7, 1 | what the clock showed, Unix ms, and [what happened](crate::mark::trace::Event) |
//! | 16 | 6 × 8 | six numbers of it, 0 if it has fewer |
//!
//! A library leaves out events of a kind that it does not know.
//!
//! | life | | |
//! |---|---|---|
//! | 0 | 8 | counts the lives, from 1 |
//! | 8 | 8 | number of the life |
//! | 16 | 8 | number of the server's file |
//! | 24 | 8 | system identifier |
//! | 32 | 8 | timeline |
//! | 40 | 8 | worker |
//! | 48 | 8 | began, by the clock, Unix ms |
//! | 56 | 8 | row of the start table |
//! | 64 | 8 | first timestamp |
//! | 72 | 8 | all timestamps are known to be below |
//! | 80 | 8 | mark |
//! | 88 | 8 | highest mark that it found |
//! | 96 | 8 | highest mark that it logged |
//! | 104 | 8 | [how it ended](crate::mark::lives::End) |
//! | 112 | 8 | when, by the clock |
//! | 120 | 8 | life of the record that it found |
//! | 128 | 8 | first jump, by the clock |
//! | 136 | 100 | layout, spelled out, padded with zeros |
//! | 236 | 16 | **free**: 0 |
//! | 252 | 4 | CRC-32C of all bytes before it |

use std::fmt::{self, Display, Formatter};

/// Length of the header in bytes.
pub const HEADER: usize = 24;

/// Length of a checksum in bytes.
pub const CHECKSUM: usize = 4;

/// The greatest length of a file that is read as a whole, in any version.
pub const MAX_LENGTH: usize = 8192;

const WRITTEN_BY: usize = 12;
const READABLE_BY: usize = 16;
const LENGTH: usize = 20;

/// A version of snowflake_pg, but for corrections of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// Its first number.
    pub major: u16,
    /// Its second number.
    pub minor: u16,
}

impl Release {
    /// This library's.
    pub const THIS: Self =
        Self { major: number(env!("CARGO_PKG_VERSION_MAJOR")), minor: number(env!("CARGO_PKG_VERSION_MINOR")) };

    /// The one that wrote the first version of all formats.
    pub const FIRST: Self = Self { major: 1, minor: 0 };

    fn to_bytes(self) -> [u8; 4] {
        (u32::from(self.major) | u32::from(self.minor) << 16).to_le_bytes()
    }

    fn read(bytes: &[u8], at: usize) -> Self {
        let [major, minor] = [at, at + 2].map(|at| u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        Self { major, minor }
    }
}

impl Display for Release {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

const fn number(digits: &str) -> u16 {
    match u16::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a version is of numbers"),
    }
}

/// A format that this library does not know, since it is of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newer {
    /// The library that wrote it.
    pub written_by: Release,
    /// The oldest library that can read it.
    pub readable_by: Release,
}

impl Display for Newer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { written_by, readable_by } = self;
        write!(f, "written by snowflake_pg {written_by}, which only {readable_by} and later can read")
    }
}

/// Why bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// They are something else.
    #[error("The file does not begin as it should")]
    Magic,
    /// Bytes are missing.
    #[error("The file ends too early")]
    TooShort,
    /// The checksum does not match the bytes.
    #[error("The file has checksum {stored:08X}, expected {expected:08X}")]
    Checksum {
        /// The checksum of the bytes.
        expected: u32,
        /// The checksum that follows them.
        stored: u32,
    },
    /// They are whole, and of a later library.
    #[error("The file was {0}")]
    Newer(Newer),
}

/// How this library writes a format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What it is.
    pub magic: [u8; 8],
    /// Its version.
    pub version: u32,
    /// The oldest library that can read it.
    pub readable_by: Release,
}

impl Format {
    /// Writes the header before what is in the bytes, and the checksum behind it.
    pub fn seal(&self, bytes: &mut [u8]) {
        let length = u32::try_from(bytes.len() - CHECKSUM).expect("a short format");
        bytes[..8].copy_from_slice(&self.magic);
        bytes[8..WRITTEN_BY].copy_from_slice(&self.version.to_le_bytes());
        bytes[LENGTH..HEADER].copy_from_slice(&length.to_le_bytes());
        sign(bytes, Release::THIS, self.readable_by);
    }

    /// What has the checksum, which is the header and the fields, as many as this library knows or more. Other bytes
    /// may follow.
    pub fn open<'a>(&self, bytes: &'a [u8], known: usize) -> Result<&'a [u8], Unreadable> {
        if bytes.len() < HEADER || !bytes.starts_with(&self.magic) {
            return Err(Unreadable::Magic);
        }
        let length = usize::try_from(u32_at(bytes, LENGTH)).unwrap_or(usize::MAX);
        if length < HEADER || bytes.len().checked_sub(CHECKSUM).is_none_or(|room| length > room) {
            return Err(Unreadable::TooShort);
        }
        let (expected, stored) = (crc32c::crc32c(&bytes[..length]), u32_at(bytes, length));
        // mutant: format-checksum
        if stored != expected {
            return Err(Unreadable::Checksum { expected, stored });
        }
        let [written_by, readable_by] = [WRITTEN_BY, READABLE_BY].map(|at| Release::read(bytes, at));
        if readable_by > Release::THIS {
            return Err(Unreadable::Newer(Newer { written_by, readable_by }));
        }
        if length < known { Err(Unreadable::TooShort) } else { Ok(&bytes[..length]) }
    }

    /// The same; `None` for what says nothing, since it is something else or damaged.
    pub fn open_if_whole<'a>(&self, bytes: &'a [u8], known: usize) -> Result<Option<&'a [u8]>, Newer> {
        match self.open(bytes, known) {
            Err(Unreadable::Newer(newer)) => Err(newer),
            opened => Ok(opened.ok()),
        }
    }
}

/// Names the libraries that wrote and can read a format, and makes its checksum right.
pub fn sign(bytes: &mut [u8], written_by: Release, readable_by: Release) {
    bytes[WRITTEN_BY..READABLE_BY].copy_from_slice(&written_by.to_bytes());
    bytes[READABLE_BY..LENGTH].copy_from_slice(&readable_by.to_bytes());
    let length = u32_at(bytes, LENGTH) as usize;
    let checksum = crc32c::crc32c(&bytes[..length]);
    bytes[length..length + CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

/// The number at this place.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The number at this place.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
