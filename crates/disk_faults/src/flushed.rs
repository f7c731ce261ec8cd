//! What a disk still has after the power was cut: what was flushed, as it was when it was flushed.
//!
//! The library in the servers' processes notes it, and the tests' harness reads it and gives orders: this file, which both
//! compile, is what they have to agree on.

use std::fmt::{self, Display};
use std::fs::{self, Metadata};
use std::io;
use std::num::ParseIntError;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

/// The environment variable that names the directory in which orders are obeyed.
pub const DIRECTORY: &str = "DISK_FAULTS_DIRECTORY";

/// The environment variable that names the directory in which orders stand and flushes are noted.
pub const HOME: &str = "DISK_FAULTS_HOME";

/// The file in it that holds the order in force.
pub const ORDER: &str = "order";

/// What a disk is to do, in the directory that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Work.
    Work,
    /// Be full: nothing can be written.
    Full,
    /// Fail whenever a file is flushed.
    FailFileFlush,
    /// Fail whenever the directory is flushed.
    FailDirectoryFlush,
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
            Self::Slow(delay) => write!(formatter, "{}", delay.as_millis()),
        }
    }
}

impl FromStr for Order {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let named = [Self::Work, Self::Full, Self::FailFileFlush, Self::FailDirectoryFlush];
        match named.into_iter().find(|order| order.to_string() == text) {
            Some(order) => Ok(order),
            None => text.parse().map(|delay| Self::Slow(Duration::from_millis(delay))),
        }
    }
}

/// A file or directory, told from one that was there before under the same number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub String);

impl Key {
    /// Of what was found to lie somewhere.
    pub fn of(found: &Metadata) -> io::Result<Self> {
        let born = found.created()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self(format!("{}-{}", found.ino(), born.as_nanos())))
    }
}

/// Where orders stand and flushes are noted: for each [`Key`] a file, with the bytes of that file at its last flush, or
/// with a line for each entry of that directory: its key and its name.
#[derive(Debug)]
pub struct Store {
    home: PathBuf,
}

impl Store {
    /// In this directory, which must exist.
    pub fn new(home: PathBuf) -> Self {
        Self { home }
    }

    /// Where the order in force stands, or what was noted under a key.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// As a whole: whoever reads or is killed at any moment finds the old or the new.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.path(&format!("{name}.{}", std::process::id()));
        fs::write(&new, bytes)?;
        fs::rename(new, self.path(name))
    }
}
