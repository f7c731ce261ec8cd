//! Clients that repeat a statement, by PostgreSQL's own pgbench: so that nothing of ours counts, and anybody can repeat
//! it.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use testbed::Cluster;

/// Microseconds at the beginning that are not counted: clients prepare their statements then, and fill their caches.
const WARM_UP: u64 = 200_000;

/// Clients of one server, all with the same statement, which each of them prepares once.
#[derive(Clone, Copy)]
pub struct Clients<'a> {
    pub cluster: &'a Cluster,
    pub count: u32,
    pub statement: &'a str,
    pub until: Until,
}

/// When clients stop.
#[derive(Clone, Copy)]
pub enum Until {
    Seconds(u32),
    /// So many statements, of all clients together.
    Statements(u32),
}

impl Clients<'_> {
    /// Statements of all of them a second, without the time to connect.
    pub fn rate(&self) -> f64 {
        let printed = self.run("", &[]);
        let rate = printed.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        rate.unwrap_or_else(|| panic!("pgbench printed no rate:\n{printed}"))
    }

    /// How long each statement took in microseconds, the shortest first, while all clients together ask so many times a
    /// second. It counts from when it was to begin, so that one that begins late because another took long is late,
    /// too.
    pub fn latencies(&self, rate: u32) -> Vec<u64> {
        // With the server's files, so that it is removed with them whatever happens.
        let directory = tempfile::tempdir_in(self.cluster.host()).expect("a temporary directory");
        // pgbench looks at the clock once before it asks and again only if it had to wait: an answer that was there at
        // once would have taken no time. After a pause, however short, it looks again.
        let prefix = directory.path().join("log");
        let options = [format!("--rate={rate}"), "--log".to_owned(), format!("--log-prefix={}", prefix.display())];
        self.run("\\sleep 1 us", &options);
        let mut answers = Vec::new();
        for log in fs::read_dir(&directory).expect("pgbench's logs") {
            let log = fs::read_to_string(log.expect("a file").path()).expect("pgbench's log");
            for line in log.lines() {
                let fields: Vec<u64> = line.split(' ').map(|field| field.parse().expect("a number")).collect();
                let &[_, _, latency, _, seconds, microseconds, ..] = &*fields else { panic!("no answer: {line}") };
                answers.push((seconds * 1_000_000 + microseconds, latency));
            }
        }
        let began = answers.iter().map(|(answered, latency)| answered - latency).min().expect("an answer");
        answers.retain(|(answered, _)| *answered > began + WARM_UP);
        let mut latencies: Vec<_> = answers.iter().map(|(_, latency)| *latency).collect();
        assert!(!latencies.is_empty(), "pgbench logged nothing");
        latencies.sort_unstable();
        latencies
    }

    /// Runs pgbench with one more command after the statement, and more options, and returns what it printed.
    fn run(&self, command: &str, options: &[String]) -> String {
        let until = match self.until {
            Until::Seconds(seconds) => format!("--time={seconds}"),
            Until::Statements(statements) => format!("--transactions={}", statements / self.count),
        };
        let mut child = Command::new(self.cluster.bindir().join("pgbench"))
            // Two threads keep 64 clients busy; more would take the cores from the server.
            .args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--file=-"])
            .args([format!("--client={}", self.count), until])
            .args(options)
            .envs(self.cluster.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pgbench");
        let mut script = child.stdin.take().expect("a pipe");
        // An error only says that pgbench has ended; why, it says itself.
        let _ = writeln!(script, "{};\n{command}", self.statement);
        drop(script);
        let output = child.wait_with_output().expect("pgbench");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pgbench with \"{}\", {}:\n{errors}", self.statement, output.status);
        String::from_utf8(output.stdout).expect("text")
    }
}
