//! One writer: a server locks its state directory, so that no other server writes marks to it.
//!
//! The postmaster opens the directory, and all its processes inherit the open directory. So the lock, whichever process
//! takes it, is the server's: it lasts until the last process has ended, also after a kill -9, and no process of the
//! server has to keep it. It is taken when the generator starts, and not by a standby.
//!
//! After a kill -9, what is left of a server can have the lock for a while: the logging collector lives as long as a
//! command that the server has started can write to it. The next server in the data directory says which process it is.
//!
//! Some network file systems do not lock directories. There, and where the directory did not exist when the server
//! started, only the comparison before each write protects (see [`crate::durable::mark`]).

use crate::config::gucs;
use crate::durable::state_file::StateDirectory;
use crate::durable::{left_over, regular_file};
use crate::errors::IssueError;
use crate::postgres::sleep;
use crate::worker;
use pgrx::pg_sys;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::io::{Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The file that says, in a line for people, who has the lock.
const HOLDER: &str = "holder";

/// How many milliseconds to wait for the lock. A server that may not begin has it for a moment.
const PATIENCE: u32 = 100;

/// Longer than any line in [`HOLDER`].
const LONG: u64 = 8192;

/// The directory that the postmaster opened. Not counted as an external file of fd.c: PostgreSQL counts what is open
/// after it has set up shared memory.
static STATE_DIRECTORY: Mutex<Option<StateDirectory>> = Mutex::new(None);

fn state_directory() -> MutexGuard<'static, Option<StateDirectory>> {
    STATE_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the directory. To be called in the postmaster, whenever shared memory is set up: all other processes of the
/// server have ended then.
pub fn open() {
    if !worker::may_issue() {
        return; // No ID will be issued.
    }
    let present = StateDirectory::open(&gucs::state_directory()).ok();
    let mut opened = state_directory();
    if !same_directory(opened.as_ref(), present.as_ref()) {
        *opened = present;
    }
}

fn same_directory(one: Option<&StateDirectory>, other: Option<&StateDirectory>) -> bool {
    let inode = |directory: Option<&StateDirectory>| directory?.inode().ok();
    inode(one).zip(inode(other)).is_some_and(|(one, other)| one.same_inode(&other))
}

/// Takes the lock, if this server does not have it yet. An error if another server has it, or if the directory is not
/// the one that the postmaster opened.
pub fn take(directory: &StateDirectory) -> Result<(), IssueError> {
    let opened = state_directory();
    let Some(opened) = opened.as_ref() else { return Ok(()) };
    // mutant: locked-directory-used
    if !same_directory(Some(opened), Some(directory)) {
        return Err(IssueError::StateDirectoryExchanged(directory.path().clone()));
    }
    // mutant: directory-locked
    let is_ours = || flock(opened.handle(), FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK);
    for _ in 0..PATIENCE {
        if is_ours() {
            return Ok(());
        }
        sleep::pause(Duration::from_millis(1));
    }
    let left_over = left_over::holder(opened);
    // The holder can be a process of this server, which has just taken the lock for all of them.
    if is_ours() {
        return Ok(());
    }
    let path = directory.path().clone();
    Err(match left_over {
        Some(process) => IssueError::StateDirectoryStillInUse(path, process),
        None => IssueError::StateDirectoryInUse(path, holder(directory)),
    })
}

/// Whether the postmaster could open the directory. Otherwise there is nothing to lock.
pub fn is_possible() -> bool {
    state_directory().is_some()
}

/// Releases the lock: other processes that have inherited it may outlive the server for a moment.
pub fn release() {
    if let Some(directory) = state_directory().as_ref() {
        let _ = flock(directory.handle(), FlockOperation::Unlock);
    }
}

/// Writes down who has the lock. A failure does no harm: the line is for an error message of another server.
pub fn sign(directory: &StateDirectory) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let Ok(mut file) = regular_file::open(directory.handle(), HOLDER, flags) else { return };
    // SAFETY: both are fixed when a process starts.
    let (postmaster, this_process) = unsafe { (pg_sys::PostmasterPid, pg_sys::MyProcPid) };
    // In single-user mode there is no postmaster.
    let process = if postmaster > 0 { postmaster } else { this_process };
    let line = format!("process ID {process} on {}", location());
    let _ = file.write_all(line.as_bytes());
}

fn location() -> String {
    let host = rustix::system::uname();
    format!("host \"{}\", data directory \"{}\"", host.nodename().to_string_lossy(), gucs::data_directory().display())
}

/// Who has the lock; `None` if that is not known. This server may have written the line itself: another server that has
/// the lock and may not begin does not write one.
fn holder(directory: &StateDirectory) -> Option<String> {
    let file = regular_file::open(directory.handle(), HOLDER, OFlags::RDONLY).ok()?;
    let mut line = String::new();
    file.take(LONG).read_to_string(&mut line).ok()?;
    Some(line).filter(|line| !line.is_empty() && !line.ends_with(&location()))
}
