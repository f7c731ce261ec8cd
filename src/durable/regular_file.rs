//! Opens files of the server's that somebody may have replaced by something else.

use rustix::fs::{Mode, OFlags, openat};
use rustix::path::Arg;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Opens a regular file, and no other: who opens a FIFO waits until somebody opens its other end.
pub fn open(directory: impl AsFd, path: impl Arg, flags: OFlags) -> io::Result<File> {
    // mutant: fifo-waits
    let flags = flags | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(directory, path, flags, Mode::RUSR | Mode::WUSR)?);
    // mutant: regular-files
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}
