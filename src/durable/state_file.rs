//! The file that keeps the durable mark: `<state_directory>/mark`; see [`snowflake_core::state_record`] for its bytes.
//!
//! The file is replaced as a whole, so that a crash leaves the old record or the new one: a temporary file is written,
//! flushed and renamed over the old file, and the directory is flushed. The new mark is durable only when all of that
//! has succeeded. After a failure the file may have the old mark or the new one. Both are safe, since the new mark is
//! higher and not in use yet.
//!
//! Not PostgreSQL's `durable_rename()`: it takes paths, and raises an ERROR instead of returning it; here everything is
//! relative to the open directory. Flushed even if `fsync` is off: one or two writes a second cost little.

use crate::errors::{StateFileError, StatePath};
use pgrx::pg_sys;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, renameat, statx, unlinkat};
use rustix::io::Errno;
use snowflake_core::identity::{Directory, Identity, Record};
use snowflake_core::state_record;
use std::ffi::{CStr, OsStr};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const NAME: &str = "mark";
const TEMPORARY_NAME: &str = "mark.new";

/// Permissions that the state directory must not have; those that PostgreSQL forbids for its data directory.
const FORBIDDEN: u32 = 0o027;

/// Adds the action and the path to an error.
trait While<T> {
    fn during(self, action: &'static str, path: &StatePath) -> Result<T, StateFileError>;
}

impl<T, E: Into<io::Error>> While<T> for Result<T, E> {
    fn during(self, action: &'static str, path: &StatePath) -> Result<T, StateFileError> {
        self.map_err(|source| StateFileError::Io { action, path: path.clone(), source: source.into() })
    }
}

/// The open directory of the mark. All operations are relative to it, so that a change of the path does not matter.
pub struct StateDirectory {
    path: PathBuf,
    opened: File,
}

impl StateDirectory {
    /// Opens the directory. A path relative to the data directory is created if it does not exist. A missing absolute
    /// path is an error: the volume with the mark may not be mounted.
    pub fn open(configured: &Path) -> Result<Self, StateFileError> {
        let (path, is_inside) = locate(configured);
        if is_inside && !path.join(NAME).exists() {
            create(&path)?;
        }
        let directory = StatePath::directory(&path);
        let opened = File::open(&path).during("open directory", &directory)?;
        if !is_inside {
            let metadata = opened.metadata().during("stat directory", &directory)?;
            if metadata.uid() != rustix::process::geteuid().as_raw() {
                return Err(StateFileError::WrongOwner(directory));
            }
            if metadata.mode() & FORBIDDEN != 0 {
                return Err(StateFileError::WrongPermissions(directory, metadata.mode() & 0o777));
            }
        }
        Ok(Self { path, opened })
    }

    /// The same for readers: creates nothing, and returns `None` if there is no mark.
    pub fn find(configured: &Path) -> Result<Option<Self>, StateFileError> {
        let (path, _) = locate(configured);
        if path.join(NAME).exists() { Self::open(configured).map(Some) } else { Ok(None) }
    }

    /// The path of the file.
    pub fn file(&self) -> StatePath {
        StatePath::file(&self.path, NAME)
    }

    /// What identifies the directory.
    pub fn identity(&self) -> Result<Directory, StateFileError> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(&self.opened, "", AtFlags::EMPTY_PATH, wanted)
            .during("stat directory", &StatePath::directory(&self.path))?;
        let born = found.stx_btime;
        let known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let seconds = u64::try_from(born.tv_sec).ok().filter(|_| known).unwrap_or(0);
        let born_ns = seconds.saturating_mul(1_000_000_000).saturating_add(born.tv_nsec.into());
        Ok(Directory { inode: found.stx_ino, born_ns: if seconds > 0 { born_ns } else { 0 } })
    }

    /// The record; `None` only if the file does not exist.
    pub fn read(&self) -> Result<Option<Record>, StateFileError> {
        let path = self.file();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(&self.opened, NAME, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => File::from(file.during("open file", &path)?),
        };
        let mut bytes = Vec::with_capacity(state_record::LENGTH);
        // One byte more than a record has, to notice a longer file without reading it all.
        file.take(state_record::LENGTH as u64 + 1).read_to_end(&mut bytes).during("read file", &path)?;
        match state_record::decode(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(damage) => Err(StateFileError::Damaged { path, damage }),
        }
    }

    /// Makes a record durable, with the identity that the directory then has, and returns that. To be called by one
    /// process at a time.
    ///
    /// An overlay file system copies a directory of its lower layer up when the first file is created in it. The copy
    /// has another identity, but is the same open directory.
    pub fn write(&self, record: &Record) -> Result<Directory, StateFileError> {
        let temporary = StatePath::file(&self.path, TEMPORARY_NAME);
        match unlinkat(&self.opened, TEMPORARY_NAME, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {} // A process that was killed can have left it.
            refused => refused.during("remove file", &temporary)?,
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.opened, TEMPORARY_NAME, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.during("create file", &temporary)?);
        let directory = self.identity()?;
        let identity = Identity { directory, ..record.identity };
        file.write_all(&state_record::encode(&Record { identity, ..*record })).during("write file", &temporary)?;
        file.sync_all().during("fsync file", &temporary)?;
        renameat(&self.opened, TEMPORARY_NAME, &self.opened, NAME).during("rename file", &temporary)?;
        self.opened.sync_all().during("fsync directory", &StatePath::directory(&self.path))?;
        Ok(directory)
    }
}

/// The path of the directory, and whether it is the data directory's own.
fn locate(configured: &Path) -> (PathBuf, bool) {
    // SAFETY: set by PostgreSQL before it loads any library.
    let data_directory = unsafe { pg_sys::DataDir };
    // SAFETY: a C string that lives as long as the process.
    let data_directory = unsafe { CStr::from_ptr(data_directory) };
    let path = Path::new(OsStr::from_bytes(data_directory.to_bytes())).join(configured);
    let is_inside = configured.is_relative() && !path.is_symlink();
    (path, is_inside)
}

/// Creates the directory if it does not exist. Flushed in any case: the process that created it may have been killed
/// before its flush.
fn create(directory: &Path) -> Result<(), StateFileError> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        result => result.during("create directory", &StatePath::directory(directory))?,
    }
    let parent = directory.parent().unwrap_or(directory);
    File::open(parent).and_then(|opened| opened.sync_all()).during("fsync directory", &StatePath::directory(parent))
}
