//! A program of somebody else's that runs on a machine of its own, with all that it starts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, PATIENCE, Signal, processes_in, project, send};

/// A running program. Dropping it kills it.
pub struct Program(Child);

impl Program {
    /// Starts it; the log of the machine has what it says.
    pub fn start(machine: &Cluster, command: &mut Command) -> Self {
        let log = machine.host().join("log");
        let log = File::options().create(true).append(true).open(log).expect("own file");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("own file")).stderr(log);
        Self(command.spawn().expect("a program"))
    }

    pub fn send(&self, signal: Signal) {
        send(self.0.id(), signal);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills everything that runs in a directory of a machine, without a word.
pub fn kill_all_in(directory: &Path) {
    // Until nothing is left: a process may be starting others.
    loop {
        let processes: Vec<_> = processes_in(directory).filter(|&process| !is_ended(process)).collect();
        if processes.is_empty() {
            return;
        }
        processes.into_iter().for_each(|process| send(process, Signal::KILL));
        sleep(Duration::from_millis(5));
    }
}

/// Whether only its exit status is left.
fn is_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|state| state.starts_with('Z'))
}

/// What `tools/setup patroni` has installed: a path there.
pub fn installed(path: &str) -> PathBuf {
    project().join("target").join(path)
}

/// Copies what it has installed, a pattern of the shell's, into a directory.
pub fn copy_installed(pattern: &str, to: &Path) {
    let script = format!("cp -r {pattern} '{}'", to.display());
    let output = Command::new("sh").current_dir(installed("")).args(["-c", &script]).output().expect("sh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits for something that must come true.
pub fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "never true: {what}");
        sleep(Duration::from_millis(50));
    }
}
