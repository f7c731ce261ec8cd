//! The file that keeps the durable mark: `<state_directory>/mark`; see [`snowflake_core::mark::state_file`] for its
//! bytes.
//!
//! A mark is written in place, beside the record before it, with one write and one flush. It is durable only when both
//! have succeeded. After a failure the file may have the old record or the new one. Both are safe, since the new mark
//! is higher and not in use yet. The next attempt then [replaces](crate::durable::replace) the whole file, as the first
//! one does: a slot in which two attempts failed one after the other could look damaged.

use crate::config::gucs;
use crate::durable::regular_file;
use crate::durable::replace::{Target, inode};
use crate::errors::{StateFileError, StatePath, While};
use rustix::fs::{Mode, OFlags, open};
use snowflake_core::formats::Unreadable;
use snowflake_core::mark::record::Record;
use snowflake_core::mark::state_file::{self, Damage};
use snowflake_core::server::identity::{Identity, Inode};
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

const NAME: &str = "mark";
const TEMPORARY_NAME: &str = "mark.new";

/// Permissions that the state directory must not have: the ones that PostgreSQL forbids for its data directory.
const FORBIDDEN: u32 = 0o027;

/// The open directory of the mark. All operations are relative to it, so that a change of the path does not matter.
///
/// Not opened by fd.c, which raises an ERROR and has no openat(). It leaves ten files free to code that opens some for
/// a short time (NUM_RESERVED_FDS). Only [`directory_lock`](super::directory_lock) keeps one open.
pub struct StateDirectory {
    path: StatePath,
    handle: File,
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
        // Nobody waits for the other end of a FIFO.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = File::from(open(&path, flags, Mode::empty()).during("open directory", &directory)?);
        if !is_inside {
            let metadata = handle.metadata().during("stat directory", &directory)?;
            if metadata.uid() != rustix::process::geteuid().as_raw() {
                return Err(StateFileError::WrongOwner(directory));
            }
            if metadata.mode() & FORBIDDEN != 0 {
                return Err(StateFileError::WrongPermissions(directory, metadata.mode() & 0o777));
            }
        }
        Ok(Self { path: directory, handle })
    }

    /// Opens the directory for readers: creates nothing, and returns `None` if there is no mark.
    pub fn find(configured: &Path) -> Result<Option<Self>, StateFileError> {
        let (path, _) = locate(configured);
        if path.join(NAME).exists() { Self::open(configured).map(Some) } else { Ok(None) }
    }

    /// The directory itself.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// Its path.
    pub fn path(&self) -> &StatePath {
        &self.path
    }

    /// The path of the file.
    pub fn file(&self) -> StatePath {
        self.path.file(NAME)
    }

    /// What identifies the directory.
    pub fn inode(&self) -> Result<Inode, StateFileError> {
        inode(&self.handle, "stat directory", &self.path)
    }

    /// The record; `None` only if the file does not exist.
    pub fn read(&self) -> Result<Option<Record>, StateFileError> {
        let path = self.file();
        let file = match regular_file::open(&self.handle, NAME, OFlags::RDONLY) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.during("open file", &path)?,
        };
        let mut bytes = Vec::with_capacity(state_file::LENGTH + 1);
        // One byte more than a file has, to notice a longer one without reading it all.
        file.take(state_file::LENGTH as u64 + 1).read_to_end(&mut bytes).during("read file", &path)?;
        match state_file::decode(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(Damage::Unreadable(Unreadable::Newer(newer))) => Err(StateFileError::Newer(path, newer)),
            // mutant: damage-reported
            Err(damage) => Err(StateFileError::Damaged { path, damage }),
        }
    }

    /// Makes a record durable beside the one before it, which must be in the file. This function and
    /// [`replace`](Self::replace) write the record with the identity that the directory then has, and return that
    /// identity. One process at a time may call them.
    ///
    /// An overlay file system copies a directory of its lower layer up when the first file is changed in it. The copy
    /// has another identity, but is the same open directory.
    pub fn add(&self, record: &Record) -> Result<Inode, StateFileError> {
        let path = self.file();
        let file = regular_file::open(&self.handle, NAME, OFlags::WRONLY).during("open file", &path)?;
        // mutant: copied-up
        let directory = self.inode()?;
        let slot = state_file::encode_slot(&in_directory(record, directory));
        file.write_all_at(&slot, state_file::offset(record.revision) as u64).during("write file", &path)?;
        // mutant: file-flushed
        file.sync_data().during("fsync file", &path)?;
        Ok(directory)
    }

    /// Makes a record durable in a new file.
    pub fn replace(&self, record: &Record) -> Result<Inode, StateFileError> {
        let mut directory = self.inode()?;
        let (handle, path) = (&self.handle, &self.path);
        let target =
            Target { directory: handle, path, name: NAME, temporary_name: TEMPORARY_NAME, may_come_back: false };
        target.prepare(|_| {
            directory = self.inode()?;
            Ok(state_file::encode(&in_directory(record, directory)))
        })?;
        target.commit()?;
        Ok(directory)
    }
}

fn in_directory(record: &Record, directory: Inode) -> Record {
    Record { identity: Identity { directory, ..record.identity }, ..*record }
}

/// The path of the file, as it is configured.
pub fn path() -> StatePath {
    StatePath::directory(&locate(&gucs::state_directory()).0).file(NAME)
}

/// The path of the directory, and whether it is the data directory's own.
fn locate(configured: &Path) -> (PathBuf, bool) {
    let path = gucs::data_directory().join(configured);
    let leads_out = configured.is_absolute() || configured.components().any(|part| part == Component::ParentDir);
    let is_inside = !leads_out && !path.is_symlink();
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
