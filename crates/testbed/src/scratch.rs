//! Temporary directories that are removed even when the process is interrupted.

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use tempfile::TempDir;

/// A temporary directory. Removed when it is dropped, and when the process is told to end by Ctrl-C, by a terminal
/// that is closed, or by SIGTERM; processes that run in it are killed then.
pub struct Scratch(TempDir);

/// Whether something else is to handle Ctrl-C at the moment.
static SHIELDED: AtomicBool = AtomicBool::new(false);

/// Leaves Ctrl-C to what is being run: to psql, which cancels a query by it.
pub fn shield<T>(run: impl FnOnce() -> T) -> T {
    SHIELDED.store(true, Ordering::Relaxed);
    let result = run();
    SHIELDED.store(false, Ordering::Relaxed);
    result
}

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where temporary directories are: in memory, unless `TMPDIR` says where, or little fits there. Each server is a thousand
/// files, and a disk's file system takes longer to make them than the server to run: ext4 looks at each inode that was
/// deleted in the last minutes.
fn parent() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let is_fit = statvfs(memory).is_ok_and(|found| {
        found.f_bavail * found.f_frsize >= ENOUGH && !found.f_flag.contains(StatVfsMountFlags::NOEXEC)
    });
    let is_told = std::env::var_os("TMPDIR").is_some();
    if is_fit && !is_told { memory.to_owned() } else { std::env::temp_dir() }
}

/// Far more than the servers of a run have at a time, in bytes.
const ENOUGH: u64 = 8 << 30;

impl Scratch {
    /// A new directory whose name begins so.
    pub fn new(prefix: &str) -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| ctrlc::set_handler(end).expect("no other handler"));
        let mut live = live();
        let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(parent()).expect("a temporary directory");
        live.push(directory.path().to_owned());
        Self(directory)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        live().retain(|path| path != self.0.path());
    }
}

/// Processes that run in a directory.
pub fn processes_in(directory: &Path) -> impl Iterator<Item = u32> {
    let inside = move |pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory));
    processes().filter(inside)
}

/// All processes.
pub fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Sends a signal to a process. One that has just ended by itself is as good.
pub fn send(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process has a number above 0");
    let _ = kill_process(process, signal);
}

/// Ends everything at once. Holds the lock until the end, so that no new directory appears.
fn end() {
    if SHIELDED.load(Ordering::Relaxed) {
        return;
    }
    let live = live();
    for directory in live.iter() {
        // Until nothing is left: a process may be starting others.
        loop {
            let processes: Vec<_> = processes_in(directory).collect();
            if processes.is_empty() {
                break;
            }
            processes.into_iter().for_each(|process| send(process, Signal::KILL));
        }
        let _ = fs::remove_dir_all(directory);
    }
    exit(130);
}
