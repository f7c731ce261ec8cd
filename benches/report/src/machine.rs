//! On what the figures were measured, since they are worth nothing without.

use serde::{Serialize, Serializer};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::process::Command;

/// What there is to be known, each with its name. What can't be read is left out.
#[derive(Debug, Default)]
pub struct Machine(Vec<(&'static str, String)>);

impl Machine {
    /// This machine, before anything runs on it, and the command that is to measure.
    pub fn new(command: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let processors = read("/proc/cpuinfo");
        let hypervisor = field(&processors, "flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor"));
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib: Option<f64> = memory.and_then(|memory| memory.split(' ').next()?.parse().ok());
        let mut machine = Self::default();
        machine.add("command", command);
        machine.add("date", said(&["date", "-u", "+%Y-%m-%d %H:%M UTC"]));
        machine.add("commit", said(&["git", "describe", "--always", "--dirty"]));
        machine.add("processor", field(&processors, "model name").unwrap_or_default());
        machine.add("cores", std::thread::available_parallelism().map_or_else(|_| String::new(), |n| n.to_string()));
        machine.add("virtual", if hypervisor { "yes, by the processor's flags" } else { "" });
        machine.add("memory", kib.map_or_else(String::new, |kib| format!("{:.1} GiB", kib / 1024.0 / 1024.0)));
        machine.add("system", said(&["uname", "-srm"]));
        machine.add("clock source", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
        let temporary = std::env::temp_dir();
        machine.add("file system", said(&["findmnt", "-no", "FSTYPE", "--target", &temporary.to_string_lossy()]));
        machine.add("load before", read("/proc/loadavg").split(' ').next().unwrap_or_default());
        machine.add("rust", said(&["rustc", "--version"]));
        machine
    }

    /// Whether everything is measured, and at full length.
    pub fn is_of_all(&self) -> bool {
        self.0.contains(&("command", "make bench".to_owned()))
    }

    /// One more thing that is known, unless the text is empty.
    pub fn add(&mut self, name: &'static str, text: impl AsRef<str>) {
        let text = text.as_ref().trim();
        if !text.is_empty() {
            self.0.push((name, text.to_owned()));
        }
    }
}

/// What a command prints; nothing if it can't be run.
fn said(command: &[&str]) -> String {
    let output = Command::new(command[0]).args(&command[1..]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

impl Serialize for Machine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, text)| (name, text)))
    }
}

impl Display for Machine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, text)| writeln!(f, "- {name}: {text}"))
    }
}
