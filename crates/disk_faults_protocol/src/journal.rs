//! What processes did to a server's files, one after the other: see [`Journal`].

use crate::Key;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Something that was done to a file or a directory. Paths are relative to the data directory, which is the empty path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A directory was made.
    Directory { path: PathBuf, key: Key },
    /// Bytes were written into the file that had this path. The first write to a file says that it was created.
    Write { path: PathBuf, key: Key, at: u64, bytes: Vec<u8> },
    /// A file or a directory was flushed.
    Flush { path: PathBuf, key: Key },
    /// A flush has failed: what it was to make durable may never be.
    FailedFlush { key: Key },
    /// A file was renamed.
    Rename { from: PathBuf, to: PathBuf },
    /// A file was removed.
    Remove { path: PathBuf },
    /// What a test has to say at this point.
    Note(String),
}

/// A file of [`Event`]s, in the order in which they happened: each is done and appended under a lock.
#[derive(Debug)]
pub struct Journal(PathBuf);

/// Nobody else does or appends anything before this is dropped.
#[derive(Debug)]
pub struct Turn(File);

impl Journal {
    /// The journal in this directory, which exists only if [`begin`](Self::begin) was called.
    pub(crate) fn new(home: &Path) -> Self {
        Self(home.join("journal"))
    }

    /// From now on, events are appended.
    pub fn begin(&self) -> io::Result<()> {
        File::create(&self.0)?;
        fs::set_permissions(&self.0, Permissions::from_mode(0o666))
    }

    /// Waits for a turn to do something; `None` if there is no journal.
    pub fn turn(&self) -> io::Result<Option<Turn>> {
        match OpenOptions::new().append(true).open(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            file => {
                let file = file?;
                file.lock()?;
                Ok(Some(Turn(file)))
            }
        }
    }

    /// All events so far.
    pub fn events(&self) -> io::Result<Vec<Event>> {
        let text = fs::read_to_string(&self.0)?;
        let event = |line| Event::parse(line).ok_or_else(|| io::Error::other(format!("no event: {line}")));
        text.lines().map(event).collect()
    }
}

impl Turn {
    /// Appends what was done.
    pub fn append(&mut self, event: &Event) -> io::Result<()> {
        self.0.write_all(format!("{}\n", event.line()).as_bytes())
    }
}

/// A line is a word and its arguments, separated by spaces. Paths and bytes are in hexadecimal digits, after an `x`.
impl Event {
    fn line(&self) -> String {
        let path = |path: &Path| hex(path.as_os_str().as_bytes());
        match self {
            Self::Directory { path: at, key: Key(key) } => format!("directory {} {key}", path(at)),
            Self::Write { path: of, key: Key(key), at, bytes } => {
                format!("write {} {key} {at} {}", path(of), hex(bytes))
            }
            Self::Flush { path: of, key: Key(key) } => format!("flush {} {key}", path(of)),
            Self::FailedFlush { key: Key(key) } => format!("failed-flush {key}"),
            Self::Rename { from, to } => format!("rename {} {}", path(from), path(to)),
            Self::Remove { path: at } => format!("remove {}", path(at)),
            Self::Note(text) => format!("note {}", hex(text.as_bytes())),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let path = |word: &str| Some(PathBuf::from(std::ffi::OsString::from_vec(unhex(word)?)));
        let key = |word: &str| Key(word.to_owned());
        Some(match words[..] {
            ["directory", at, of] => Self::Directory { path: path(at)?, key: key(of) },
            ["write", of, file, at, bytes] => {
                Self::Write { path: path(of)?, key: key(file), at: at.parse().ok()?, bytes: unhex(bytes)? }
            }
            ["flush", of, file] => Self::Flush { path: path(of)?, key: key(file) },
            ["failed-flush", file] => Self::FailedFlush { key: key(file) },
            ["rename", from, to] => Self::Rename { from: path(from)?, to: path(to)? },
            ["remove", at] => Self::Remove { path: path(at)? },
            ["note", text] => Self::Note(String::from_utf8(unhex(text)?).ok()?),
            _ => return None,
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits =
        bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)]));
    ['x'].into_iter().chain(digits).collect()
}

fn unhex(word: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = word.strip_prefix('x')?.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}
