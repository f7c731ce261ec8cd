//! Has the journal say what is done to the files of the mark, in the order in which it is done: the state directory,
//! the life file, the page of marks, and WAL. Only if a test has begun a journal.

use crate::{DISK, Disk, open_file, path_of};
use disk_faults_protocol::{Event, Key, Turn};
use libc::{c_char, c_int, c_void, mode_t, ssize_t};
use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The lock on the journal, and the path of a file, as seen from the data directory.
type Begun = (Turn, PathBuf);

/// A write to an open file, by `write`. `at` says where.
///
/// # Safety
///
/// `buffer` must hold as many bytes as `write` says that it has written.
pub unsafe fn write(
    file: c_int,
    at: impl FnOnce() -> i64,
    buffer: *const c_void,
    write: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some((mut turn, path)) = begin_with(file) else { return write() };
    let at = at();
    let written = write();
    if let (Ok(at), Ok(length @ 1..)) = (u64::try_from(at), usize::try_from(written)) {
        // SAFETY: the caller's bytes.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), length) }.to_vec();
        append(&mut turn, &Event::Write { path, key: key(&open_file(file)), at, bytes });
    }
    written
}

/// A flush of an open file or directory, by `flush`.
pub fn flush(file: c_int, flush: impl FnOnce() -> c_int) -> c_int {
    let Some((mut turn, path)) = begin_with(file) else { return flush() };
    let key = key(&open_file(file));
    let result = flush();
    append(&mut turn, &if result == 0 { Event::Flush { path, key } } else { Event::FailedFlush { key } });
    result
}

/// As mkdir(2).
///
/// # Safety
///
/// As for mkdir(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller's own arguments.
    let make = || result(unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path, mode) });
    // SAFETY: a C string.
    let absolute = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    let Some((mut turn, path)) = begin(absolute.as_os_str().as_bytes()) else { return make() };
    let made = make();
    if made == 0 {
        append(&mut turn, &Event::Directory { path, key: key(absolute) });
    }
    made
}

/// As renameat(2), by which only the files of the mark are renamed.
///
/// # Safety
///
/// As for renameat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: the caller's own arguments.
    let rename = || result(unsafe { libc::syscall(libc::SYS_renameat2, from_directory, from, to_directory, to, 0) });
    // SAFETY: C strings.
    let names = unsafe { [CStr::from_ptr(from), CStr::from_ptr(to)] };
    let Some((mut turn, directory)) = begin_with(from_directory) else { return rename() };
    let [from, to] = names.map(|name| directory.join(OsStr::from_bytes(name.to_bytes())));
    let renamed = rename();
    if renamed == 0 {
        append(&mut turn, &Event::Rename { from, to });
    }
    renamed
}

/// As unlinkat(2), by which only the files of the mark are removed.
///
/// # Safety
///
/// As for unlinkat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(directory: c_int, name: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller's own arguments.
    let remove = || result(unsafe { libc::syscall(libc::SYS_unlinkat, directory, name, flags) });
    // SAFETY: a C string.
    let relative = unsafe { CStr::from_ptr(name) };
    let Some((mut turn, directory)) = begin_with(directory) else { return remove() };
    let path = directory.join(OsStr::from_bytes(relative.to_bytes()));
    let removed = remove();
    if removed == 0 {
        append(&mut turn, &Event::Remove { path });
    }
    removed
}

fn result(of_call: i64) -> c_int {
    c_int::try_from(of_call).unwrap_or(-1)
}

fn begin_with(file: c_int) -> Option<Begun> {
    let mut buffer = [0; libc::PATH_MAX as usize];
    begin(path_of(file, &mut buffer)?)
}

/// Allocates nothing for other files: PostgreSQL writes in signal handlers, too.
fn begin(path: &[u8]) -> Option<Begun> {
    let Disk { directory, store } = DISK.as_ref()?;
    let path = path.strip_prefix(directory.parent()?.as_os_str().as_bytes())?;
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let kept: [&[u8]; 3] = [b"snowflake_pg", b"global/16111", b"pg_wal/0"];
    if !path.is_empty() && !kept.iter().any(|start| path.starts_with(start)) {
        return None;
    }
    let turn = store.journal().turn().expect("the lock on the journal")?;
    Some((turn, PathBuf::from(OsStr::from_bytes(path))))
}

fn key(path: &Path) -> Key {
    fs::metadata(path).and_then(|metadata| Key::new(&metadata)).expect("what was written")
}

fn append(turn: &mut Turn, event: &Event) {
    turn.append(event).expect("the journal");
}
