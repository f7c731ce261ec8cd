//! The file that keeps the durable mark: `<state_directory>/mark`.
//!
//! It is replaced as a whole, so that a crash leaves the old record or the new one: a temporary file is written and
//! flushed, renamed over the old one, and then the directory is flushed. Only when all of that has succeeded is the new
//! mark durable. After a failure the file may hold the old mark or the new one; both are safe, since the new one is
//! higher and not in use yet.
//!
//! Flushed always, whatever `fsync` says: at one write every two seconds there is nothing to gain.

use pgrx::pg_sys;
use snowflake_core::UnixMs;
use snowflake_core::state_record::{self, Damage};
use std::ffi::{CStr, OsStr};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "mark";
const TEMPORARY_NAME: &str = "mark.new";

/// Why the mark can't be read or written.
#[derive(Debug)]
pub enum StateFileError {
    /// The operating system said no.
    Io {
        /// What was tried: "create directory", "write file", …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file is not a state file, or not whole.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
}

/// Names what was tried, and on what.
trait While<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, StateFileError>;
}

impl<T> While<T> for io::Result<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, StateFileError> {
        self.map_err(|source| StateFileError::Io { action, path: path.to_owned(), source })
    }
}

/// The mark, or `None` if there is no file. Only a file that is absent counts as none, and only from a directory that is
/// there, or that is ours to make: another one that is missing may be a volume that is not mounted, with the mark on it.
pub fn read(directory: &Path) -> Result<Option<UnixMs>, StateFileError> {
    let whole = absolute(directory);
    if directory.is_absolute() || whole.is_symlink() {
        fs::read_dir(&whole).during("open directory", &whole)?;
    }
    let path = whole.join(NAME);
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.during("open file", &path)?,
    };
    let mut bytes = Vec::with_capacity(state_record::LENGTH);
    // One byte more than a record has, to notice a longer file without reading it all.
    file.take(state_record::LENGTH as u64 + 1).read_to_end(&mut bytes).during("read file", &path)?;
    match state_record::decode(&bytes) {
        Ok(mark) => Ok(Some(mark)),
        Err(damage) => Err(StateFileError::Damaged { path, damage }),
    }
}

/// Makes a mark durable. To be called by one process at a time.
pub fn write(directory: &Path, mark: UnixMs) -> Result<(), StateFileError> {
    let ours_to_make = directory.is_relative();
    let directory = absolute(directory);
    let path = directory.join(NAME);
    if ours_to_make && !path.exists() {
        create_directory(&directory)?;
    }
    // Opened before anything is changed: a write that fails should leave the old mark.
    let opened = File::open(&directory).during("open directory", &directory)?;
    let temporary = directory.join(TEMPORARY_NAME);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).during("remove file", &temporary)?,
        _ => {} // A process that was killed can have left it.
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .during("create file", &temporary)?;
    file.write_all(&state_record::encode(mark)).during("write file", &temporary)?;
    file.sync_all().during("flush file", &temporary)?;
    fs::rename(&temporary, &path).during("rename file", &temporary)?;
    opened.sync_all().during("flush directory", &directory)
}

/// Makes the directory if it is not there. Flushed in any case: who made it may have been killed before.
fn create_directory(directory: &Path) -> Result<(), StateFileError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        result => result.during("create directory", directory)?,
    }
    flush_directory(directory.parent().unwrap_or(directory))
}

fn flush_directory(directory: &Path) -> Result<(), StateFileError> {
    File::open(directory).and_then(|opened| opened.sync_all()).during("flush directory", directory)
}

/// A path from the root: relative ones begin in the data directory.
fn absolute(directory: &Path) -> PathBuf {
    // SAFETY: set by PostgreSQL before it starts any process that serves clients.
    let data_directory = unsafe { pg_sys::DataDir };
    // SAFETY: a C string that lives as long as the process.
    let data_directory = unsafe { CStr::from_ptr(data_directory) };
    Path::new(OsStr::from_bytes(data_directory.to_bytes())).join(directory)
}
