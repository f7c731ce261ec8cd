//! What is left of a server that was killed: processes in the same data directory that it had started.
//!
//! The kernel shows, in proc(5), which open file has a lock. Only processes that have inherited that file from the
//! process that opened it have it, too. So a lock that a process in this data directory has is not another server's.

use crate::durable::state_file::{StateDirectory, data_directory};
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether a process that runs in this data directory has the lock on this directory. False if that cannot be known.
pub fn has_lock(directory: &StateDirectory) -> bool {
    let (Ok(here), Ok(locked)) = (fs::metadata(data_directory()), directory.opened().metadata()) else { return false };
    entries(Path::new("/proc")).any(|process| {
        let process = process.path();
        is_same(&process.join("cwd"), &here)
            && entries(&process.join("fd")).any(|file| {
                let information = || fs::read_to_string(process.join("fdinfo").join(file.file_name()));
                is_same(&file.path(), &locked) && information().is_ok_and(|text| text.contains("FLOCK"))
            })
    })
}

fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

fn is_same(path: &Path, as_this: &Metadata) -> bool {
    fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (as_this.dev(), as_this.ino()))
}
