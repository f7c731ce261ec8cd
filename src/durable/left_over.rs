//! What is left of a server that was killed: processes in the same data directory that it had started.

use crate::config::gucs;
use crate::durable::state_file::StateDirectory;
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The process in this data directory that has the lock on this directory. The kernel shows, in proc(5), which open
/// file has a lock. `None` if there is no such process, or if that cannot be known.
pub fn holder(directory: &StateDirectory) -> Option<u32> {
    let here = fs::metadata(gucs::data_directory()).ok()?;
    let locked = directory.handle().metadata().ok()?;
    let has_lock = |process: &DirEntry| {
        let process = process.path();
        // mutant: lock-of-this-server
        is_same(&process.join("cwd"), &here)
            && entries(&process.join("fd")).any(|file| {
                let information = || fs::read_to_string(process.join("fdinfo").join(file.file_name()));
                // mutant: flock-found
                is_same(&file.path(), &locked) && information().is_ok_and(|text| text.contains("FLOCK"))
            })
    };
    entries(Path::new("/proc")).find(has_lock)?.file_name().to_str()?.parse().ok()
}

fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(directory).into_iter().flatten().flatten()
}

fn is_same(path: &Path, as_this: &Metadata) -> bool {
    fs::metadata(path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == (as_this.dev(), as_this.ino()))
}
