//! On what the figures were measured.

use crate::Effort;
use crate::servers::Servers;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::process::Command;

/// The machine, the versions, and the command.
#[derive(Debug, Serialize)]
pub struct Machine {
    processor: String,
    cores: usize,
    memory_gib: u64,
    system: String,
    clocksource: String,
    postgresql: String,
    rust: String,
    commit: String,
    date: String,
    command: &'static str,
}

/// What there is to be known of this machine.
pub fn describe(servers: &Servers, effort: Effort) -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kib: u64 = memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
    Machine {
        processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gib: kib >> 20,
        system: said(&["uname", "-sr"]),
        clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim().to_owned(),
        postgresql: servers.version(),
        rust: said(&["rustc", "--version"]),
        commit: said(&["git", "describe", "--always", "--dirty"]),
        date: said(&["date", "-u", "+%Y-%m-%d"]),
        command: effort.pick("make bench", "make bench QUICK=1"),
    }
}

/// What a command prints; nothing if it can't be run.
fn said(command: &[&str]) -> String {
    let output = Command::new(command[0]).args(&command[1..]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

impl Display for Machine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {}: {} cores ({}), {} GiB of memory, {}, clock source {}, PostgreSQL {}, {}, commit {}.",
            self.command,
            self.date,
            self.cores,
            self.processor,
            self.memory_gib,
            self.system,
            self.clocksource,
            self.postgresql,
            self.rust,
            self.commit,
        )
    }
}
