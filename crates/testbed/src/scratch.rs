//! Temporary directories that are removed even when the process is interrupted.

use crate::test_run::is_testing;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};
use tempfile::TempDir;

/// A temporary directory. Removed when it is dropped, and when the process is told to end by Ctrl-C, by a terminal
/// that is closed, or by SIGTERM; processes that run in it are killed then.
pub struct Scratch(Option<TempDir>);

/// Whether something else handles Ctrl-C at the moment.
static SHIELDED: AtomicBool = AtomicBool::new(false);

/// Leaves Ctrl-C to the program that runs: psql cancels a query by it.
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

/// A directory of this process, in which all others are. The directories of processes that were killed are removed.
///
/// In memory for tests, unless `TMPDIR` names a directory, or memory has little room. Each server is a thousand files,
/// and a disk's file system takes longer to make them than the server to run: ext4 looks at each inode that was deleted
/// in the last minutes. Benchmarks and examples use a disk, as users do.
static PARENT: LazyLock<PathBuf> = LazyLock::new(|| {
    const PREFIX: &str = "snowflake-tests.";
    let memory = Path::new("/dev/shm");
    let is_fit = is_testing() && std::env::var_os("TMPDIR").is_none() && has_room(memory);
    let parent = if is_fit { memory.to_owned() } else { std::env::temp_dir() };
    for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
        let process = entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    parent.join(format!("{PREFIX}{}", std::process::id()))
});

/// Whether programs can be run there, and there is room for far more servers than a run has at a time.
fn has_room(memory: &Path) -> bool {
    const ENOUGH: u64 = 8 << 30;
    let available = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = available.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    available.and_then(|kib| kib.parse::<u64>().ok()).is_some_and(|kib| kib * 1024 >= ENOUGH)
        && statvfs(memory).is_ok_and(|system| {
            system.f_bavail * system.f_frsize >= ENOUGH && !system.f_flag.contains(StatVfsMountFlags::NOEXEC)
        })
}

impl Scratch {
    /// A new directory whose name begins with this text.
    pub fn new(prefix: &str) -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| ctrlc::set_handler(interrupted).expect("no other handler"));
        let mut live = live();
        fs::create_dir_all(&*PARENT).expect("a temporary directory");
        let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(&*PARENT).expect("a temporary directory");
        live.push(directory.path().to_owned());
        Self(Some(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.as_ref().expect("a directory until it is dropped").path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(directory) = self.0.take() else { return };
        let path = directory.path().to_owned();
        drop(directory);
        let mut live = live();
        live.retain(|other| *other != path);
        // The last one.
        let _ = fs::remove_dir(&*PARENT);
    }
}

/// Processes that run in a directory.
pub fn processes_in(directory: &Path) -> impl Iterator<Item = u32> {
    let inside = move |pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory));
    processes().filter(inside)
}

pub fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Sends a signal to a process. A process that has just ended by itself is fine, too.
pub fn send(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process has a number above 0");
    let _ = kill_process(process, signal);
}

fn interrupted() {
    if !SHIELDED.load(Ordering::Relaxed) {
        end(130);
    }
}

/// Ends everything at once, and the process. Holds the lock until the end, so no new directory appears.
pub(crate) fn end(code: i32) -> ! {
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
    let _ = fs::remove_dir(&*PARENT);
    exit(code);
}
