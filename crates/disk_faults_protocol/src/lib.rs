//! What the library `disk_faults`, in the servers' processes, and the tests agree on: the order that a disk obeys, the
//! record of what was flushed, which is all that it still has after the power was cut, and the journal of what was
//! done.
//!
//! A crate of its own since both link it. A program that linked `disk_faults` itself would have that library's `write`,
//! `fsync` and `select` in place of the C library's.

mod journal;

pub use journal::{Event, Journal, Turn};

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::num::ParseIntError;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

/// The environment variable that names the directory in which orders are obeyed.
pub const DIRECTORY: &str = "DISK_FAULTS_DIRECTORY";

/// The environment variable that names the directory in which orders stand and flushes are noted.
pub const HOME: &str = "DISK_FAULTS_HOME";

/// The file in it that holds the order in force.
const ORDER: &str = "order";

/// What an order to cut a write off begins with.
const CUT_OFF: &str = "cut-off-";

/// What a disk is to do, in the directory that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Work,
    /// Be full: nothing can be written.
    Full,
    /// Fail whenever a file is flushed.
    FailFileFlush,
    /// Fail whenever the directory is flushed.
    FailDirectoryFlush,
    /// Cut the next write inside of a file off after this many bytes, and end the process that writes. Then work.
    CutOff(usize),
    /// Take this long for every flush.
    Slow(Duration),
}

impl Display for Order {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work => write!(formatter, "work"),
            Self::Full => write!(formatter, "full"),
            Self::FailFileFlush => write!(formatter, "fail-file-flush"),
            Self::FailDirectoryFlush => write!(formatter, "fail-directory-flush"),
            Self::CutOff(bytes) => write!(formatter, "{CUT_OFF}{bytes}"),
            Self::Slow(delay) => write!(formatter, "{}", delay.as_millis()),
        }
    }
}

impl FromStr for Order {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let named = [Self::Work, Self::Full, Self::FailFileFlush, Self::FailDirectoryFlush];
        match (named.into_iter().find(|order| order.to_string() == text), text.strip_prefix(CUT_OFF)) {
            (Some(order), _) => Ok(order),
            (None, Some(bytes)) => bytes.parse().map(Self::CutOff),
            (None, None) => text.parse().map(|delay| Self::Slow(Duration::from_millis(delay))),
        }
    }
}

/// A file or directory, told from one that was there before under the same number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// The key of a file or directory with this metadata.
    pub fn new(metadata: &Metadata) -> io::Result<Self> {
        let born = metadata.created()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self(format!("{}-{}", metadata.ino(), born.as_nanos())))
    }

    /// The key of a file or directory that is only imagined.
    pub fn imagined(number: u64, born_ns: u64) -> Self {
        Self(format!("{number}-{born_ns}"))
    }

    /// The number of the inode, and when it was created, in nanoseconds since 1970.
    pub fn inode(&self) -> Option<(u64, u64)> {
        let (number, born_ns) = self.0.split_once('-')?;
        Some((number.parse().ok()?, born_ns.parse().ok()?))
    }
}

/// What a flush makes durable: the bytes of a file, or the entries of a directory.
#[derive(Debug)]
pub struct Flushed {
    key: Key,
    bytes: Vec<u8>,
}

impl Flushed {
    /// What a flush of the file or directory at this path would make durable now.
    pub fn by_path(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let bytes = if metadata.is_dir() { entries(path)?.into_bytes() } else { fs::read(path)? };
        Ok(Self { key: Key::new(&metadata)?, bytes })
    }
}

/// A line for each entry: its key and its name. One that vanishes meanwhile is none.
fn entries(directory: &Path) -> io::Result<String> {
    let mut lines = String::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if let Ok(Key(key)) = entry.metadata().and_then(|metadata| Key::new(&metadata)) {
            lines += &format!("{key} {}\n", entry.file_name().to_string_lossy());
        }
    }
    Ok(lines)
}

/// Where orders stand and flushes are noted: for each [`Key`] a file, with the bytes of that file at its last flush, or
/// with a line for each entry of that directory: its key and its name.
#[derive(Debug)]
pub struct Store {
    home: PathBuf,
}

impl Store {
    /// The store in this directory, which must exist.
    pub fn new(home: PathBuf) -> Self {
        Self { home }
    }

    /// What was done to the server's files.
    pub fn journal(&self) -> Journal {
        Journal::new(&self.home)
    }

    /// Puts an order in force. The servers' user reads it.
    pub fn give(&self, order: Order) -> io::Result<()> {
        self.replace(ORDER, order.to_string().as_bytes())?;
        fs::set_permissions(self.home.join(ORDER), Permissions::from_mode(0o644))
    }

    /// The order in force.
    pub fn order(&self) -> Order {
        let text = fs::read_to_string(self.home.join(ORDER)).unwrap_or_default();
        text.parse().unwrap_or(Order::Work)
    }

    /// Notes what was flushed.
    pub fn note_flush(&self, flushed: &Flushed) -> io::Result<()> {
        self.replace(&flushed.key.0, &flushed.bytes)
    }

    /// Where the bytes of a file at its last flush are.
    pub fn path(&self, Key(key): &Key) -> PathBuf {
        self.home.join(key)
    }

    /// The bytes of a file at its last flush; a file that never was flushed has none.
    pub fn file(&self, key: &Key) -> Vec<u8> {
        fs::read(self.path(key)).unwrap_or_default()
    }

    /// The entries of a directory at its last flush, by their names.
    pub fn directory(&self, key: &Key) -> BTreeMap<String, Key> {
        let text = String::from_utf8_lossy(&self.file(key)).into_owned();
        let entry = |line: &str| line.split_once(' ').map(|(key, name)| (name.to_owned(), Key(key.to_owned())));
        text.lines().filter_map(entry).collect()
    }

    /// As a whole: a reader finds the old or the new one, also after a kill.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.home.join(format!("{name}.{}", std::process::id()));
        fs::write(&new, bytes)?;
        fs::rename(new, self.home.join(name))
    }
}
