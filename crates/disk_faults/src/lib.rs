//! A disk that fills up, fails, is slow, and forgets what was not flushed.
//!
//! Loaded into a server's processes by `LD_PRELOAD`, this library replaces the functions of the C library that
//! write and flush. In one directory it does what the [`Order`] in force says, and notes what each flush makes durable
//! (see [`Flushed`]); everywhere else it only passes calls on. Two environment variables tell it where: [`DIRECTORY`]
//! and [`HOME`]. If there is a [journal](disk_faults_protocol::Journal), it also has each write, flush, rename and
//! removal of what belongs to the mark: see `journal.rs`.
//!
//! Servers with a clock of their own load it, too: see [`select`].

#![allow(unsafe_code, reason = "it stands in for functions of the C library")]

mod journal;

use disk_faults_protocol::{DIRECTORY, Flushed, HOME, Order, Store};
use libc::{c_char, c_int, c_long, c_void, fd_set, off64_t, size_t, ssize_t, timespec, timeval};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::LazyLock;
use std::thread::sleep;

/// The directory that is watched, and what is noted of it.
struct Disk {
    directory: PathBuf,
    store: Store,
}

/// `None` in a process that was not told where.
static DISK: LazyLock<Option<Disk>> = LazyLock::new(|| {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    Some(Disk { directory: path(DIRECTORY)?, store: Store::new(path(HOME)?) })
});

/// Where a file is, as seen from the directory that is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    /// It is in the directory.
    Inside,
    /// It is the directory.
    Itself,
    /// It is the directory that holds it.
    Parent,
}

/// As write(2).
///
/// # Safety
///
/// `buffer` must hold `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(file: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    if let Some((disk, Location::Inside)) = location(file)
        && disk.store.order() == Order::Full
    {
        return ssize_t::try_from(fail(libc::ENOSPC)).unwrap_or(-1);
    }
    // SAFETY: the caller's own arguments.
    let write = || ssize_t::try_from(unsafe { libc::syscall(libc::SYS_write, file, buffer, count) }).unwrap_or(-1);
    // SAFETY: takes nothing but numbers.
    let at = || unsafe { libc::lseek(file, 0, libc::SEEK_CUR) };
    // SAFETY: the caller's own bytes.
    unsafe { journal::write(file, at, buffer, write) }
}

/// As pwrite(2), by the name that programs with large files call it.
///
/// # Safety
///
/// `buffer` must hold `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(file: c_int, buffer: *const c_void, count: size_t, offset: off64_t) -> ssize_t {
    // SAFETY: the caller's own arguments, or fewer bytes of them.
    let write = |count: size_t| unsafe { libc::syscall(libc::SYS_pwrite64, file, buffer, count, offset) };
    if let Some((disk, Location::Inside)) = location(file) {
        match disk.store.order() {
            Order::Full => return ssize_t::try_from(fail(libc::ENOSPC)).unwrap_or(-1),
            Order::CutOff(bytes) => {
                write(bytes.min(count));
                let _ = Flushed::by_path(&open_file(file)).and_then(|flushed| disk.store.note_flush(&flushed));
                let _ = disk.store.give(Order::Work);
                // SAFETY: takes nothing but a number.
                unsafe { libc::raise(libc::SIGKILL) };
            }
            _ => {}
        }
    }
    let write = || ssize_t::try_from(write(count)).unwrap_or(-1);
    // SAFETY: the caller's own bytes.
    unsafe { journal::write(file, || offset, buffer, write) }
}

/// As pwrite(2), by the name that PostgreSQL calls it where every file may be large.
///
/// # Safety
///
/// As for [`pwrite64`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(file: c_int, buffer: *const c_void, count: size_t, offset: off64_t) -> ssize_t {
    // SAFETY: the caller's own arguments.
    unsafe { pwrite64(file, buffer, count, offset) }
}

/// As fsync(2).
#[unsafe(no_mangle)]
pub extern "C" fn fsync(file: c_int) -> c_int {
    flush(file, libc::SYS_fsync)
}

/// As fdatasync(2).
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(file: c_int) -> c_int {
    flush(file, libc::SYS_fdatasync)
}

/// As select(2), past libfaketime's: while a process is in there, libfaketime shows it the true time. PostgreSQL 15's
/// postmaster starts the keeper in a signal handler that interrupts select, and the keeper would see the true time
/// forever.
///
/// # Safety
///
/// As for select(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    end: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's own argument, which may be NULL.
    let timeout = unsafe { timeout.as_ref() };
    let timeout = timeout.map(|time| timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec * 1000 });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let signals: *const c_void = ptr::null();
    // SAFETY: the caller's own arguments, and no signals to mask meanwhile.
    let ready = unsafe { libc::syscall(libc::SYS_pselect6, end, readable, writable, exceptional, timeout, signals) };
    c_int::try_from(ready).unwrap_or(-1)
}

fn flush(file: c_int, call: c_long) -> c_int {
    // SAFETY: the call takes nothing but a file.
    let really_flush = || c_int::try_from(unsafe { libc::syscall(call, file) }).unwrap_or(-1);
    let Some((disk, location)) = location(file) else { return journal::flush(file, really_flush) };
    match (disk.store.order(), location) {
        (Order::FailFileFlush, Location::Inside) | (Order::FailDirectoryFlush, Location::Itself) => {
            return journal::flush(file, || fail(libc::EIO));
        }
        (Order::Slow(delay), Location::Inside | Location::Itself) => sleep(delay),
        _ => {}
    }
    // What was there when the flush began: something written meanwhile need not be durable after it.
    let flushed = Flushed::by_path(&open_file(file));
    let result = journal::flush(file, really_flush);
    match flushed {
        Ok(flushed) if result == 0 && disk.store.note_flush(&flushed).is_err() => fail(libc::EIO),
        Err(_) => fail(libc::EIO),
        _ => result,
    }
}

fn fail(code: c_int) -> c_int {
    // SAFETY: the address of this thread's error number.
    let error_number = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *error_number = code };
    -1
}

/// Where an open file is, if it is of interest. PostgreSQL writes in signal handlers, too, so nothing is allocated
/// here.
fn location(file: c_int) -> Option<(&'static Disk, Location)> {
    let disk = DISK.as_ref()?;
    let mut buffer = [0; libc::PATH_MAX as usize];
    let path = path_of(file, &mut buffer)?;
    let directory = disk.directory.as_os_str().as_bytes();
    if path == directory {
        return Some((disk, Location::Itself));
    }
    match path.strip_prefix(directory) {
        Some(relative) if relative.starts_with(b"/") => Some((disk, Location::Inside)),
        _ if Some(path) == disk.directory.parent().map(|parent| parent.as_os_str().as_bytes()) => {
            Some((disk, Location::Parent))
        }
        _ => None,
    }
}

/// A path that leads to an open file, whatever its name is by now.
fn open_file(file: c_int) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{file}"))
}

fn path_of(file: c_int, buffer: &mut [u8]) -> Option<&[u8]> {
    let mut link = [0; 32];
    write!(&mut link[..], "/proc/self/fd/{file}\0").ok()?;
    let link = link.as_ptr().cast::<c_char>();
    // SAFETY: a C string, and a buffer of the length that is given.
    let length = unsafe { libc::readlink(link, buffer.as_mut_ptr().cast(), buffer.len()) };
    buffer.get(..usize::try_from(length).ok()?)
}
