//! Writes a small file so that a crash leaves the old one or the new one: a temporary file is written, flushed and
//! renamed over the old file, and the directory is flushed.
//!
//! Not PostgreSQL's `durable_rename()`: it takes paths, and raises an ERROR instead of returning it; here everything is
//! relative to the open directory. Flushed even if `fsync` is off: that costs little.

use crate::errors::{StateFileError, StatePath, While};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fstatfs, openat, renameat, statx, unlinkat};
use rustix::io::Errno;
use snowflake_core::server::identity::Inode;
use std::fs::File;
use std::io::Write;

/// A directory, and the names of a file in it.
pub struct Target<'a> {
    /// The open directory.
    pub directory: &'a File,
    /// Its path, for messages.
    pub path: &'a StatePath,
    /// The name of the file.
    pub name: &'static str,
    /// Its name while it is written.
    pub temporary_name: &'static str,
    /// Whether the old file may come back when the power is cut, where the file system flushes no directories.
    pub may_come_back: bool,
}

impl Target<'_> {
    /// Makes a new file durable beside the old one, if there is one. `bytes` is called when the new file exists. One
    /// process at a time may call this and [`commit`](Self::commit).
    pub fn prepare(&self, bytes: impl FnOnce(&File) -> Result<Vec<u8>, StateFileError>) -> Result<(), StateFileError> {
        let temporary = self.path.file(self.temporary_name);
        match unlinkat(self.directory, self.temporary_name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {} // A process that was killed can have left it.
            refused => refused.during("remove file", &temporary)?,
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(self.directory, self.temporary_name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.during("create file", &temporary)?);
        file.write_all(&bytes(&file)?).during("write file", &temporary)?;
        // mutant: new-file-flushed
        file.sync_all().during("fsync file", &temporary)
    }

    /// Renames the new file over the old one.
    pub fn commit(&self) -> Result<(), StateFileError> {
        let temporary = self.path.file(self.temporary_name);
        renameat(self.directory, self.temporary_name, self.directory, self.name).during("rename file", &temporary)?;
        // mutant: directory-flushed
        match rustix::fs::fsync(self.directory) {
            // Some file systems flush no directories. As PostgreSQL's fsync_fname() in src/backend/storage/file/fd.c.
            Err(Errno::BADF | Errno::INVAL) if self.may_come_back => Ok(()),
            flushed => flushed.during("fsync directory", self.path),
        }
    }
}

/// File systems that keep the number of an inode for its life, by their magic numbers in statfs(2): ext2 to ext4, XFS,
/// Btrfs, tmpfs, ZFS, F2FS, bcachefs. Others, such as overlay file systems and FUSE, may assign a new one when they are
/// mounted.
const KEEP_NUMBERS: [u64; 7] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x2FC1_2FC1, 0xF2F5_2010, 0xCA45_1A4E];

/// What identifies an open file or directory. `action` is "stat file" or "stat directory".
pub fn inode(opened: &File, action: &'static str, path: &StatePath) -> Result<Inode, StateFileError> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let status = statx(opened, "", AtFlags::EMPTY_PATH, wanted).during(action, path)?;
    let born = status.stx_btime;
    let known = status.stx_mask & StatxFlags::BTIME.bits() != 0;
    let seconds = u64::try_from(born.tv_sec).ok().filter(|_| known).unwrap_or(0);
    let born_ns = seconds.saturating_mul(1_000_000_000).saturating_add(born.tv_nsec.into());
    if seconds == 0 {
        return Ok(Inode { number: status.stx_ino, born_ns: 0 });
    }
    // The type has another width on some architectures.
    let kind = u64::try_from(fstatfs(opened).during(action, path)?.f_type).unwrap_or(0) & 0xFFFF_FFFF;
    Ok(Inode { number: if KEEP_NUMBERS.contains(&kind) { status.stx_ino } else { 0 }, born_ns })
}
