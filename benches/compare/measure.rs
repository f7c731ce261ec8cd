//! CPU time, and rounds.

pub use crate::numbers::median;

use crate::contenders::Contender;
use crate::servers::Servers;
use std::fs;
use std::io::{self, IsTerminal};
use std::thread::sleep;
use std::time::Duration;
use testbed::postgres::{Client, Statement};
use testbed::value;

/// A session, and the process that serves it.
pub struct Backend {
    /// The session.
    pub client: Client,
    process: u32,
}

impl Backend {
    /// A new session of a contender's server.
    pub fn of(servers: &Servers, contender: &Contender) -> Self {
        let mut client = servers.connect(contender.setting);
        let process = value(&mut client, "SELECT pg_backend_pid()").parse().expect("a number");
        Self { client, process }
    }

    /// The number of the process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Nanoseconds of CPU time for one of the rows of a statement, which is run `times` times. The layout `twitter` has 4,096
    /// IDs a millisecond: statements of fewer, a millisecond apart, never wait for the clock.
    pub fn cost(&mut self, statement: &Statement, times: u32, rows: u32) -> f64 {
        let before = cpu_time(self.process);
        for _ in 0..times {
            self.client.execute(statement, &[]).expect("a measurement");
            sleep(Duration::from_millis(1));
        }
        nanoseconds(cpu_time(self.process) - before) / f64::from(times) / f64::from(rows)
    }
}

/// The CPU time that a process has had.
pub fn cpu_time(process: u32) -> Duration {
    let statistics = fs::read_to_string(format!("/proc/{process}/schedstat")).expect("schedstat of a backend");
    let spent = statistics.split_whitespace().next().and_then(|field| field.parse().ok()).expect("a number");
    Duration::from_nanos(spent)
}

/// A length of time in nanoseconds.
pub fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Measures each contender once a round, in turn, after a round to warm up, and returns all values of each.
pub fn rounds<T>(rounds: usize, contenders: &mut [T], mut measure: impl FnMut(&mut T) -> f64) -> Vec<Vec<f64>> {
    let mut values = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        progress(round, rounds);
        for (own, contender) in values.iter_mut().zip(contenders.iter_mut()) {
            let value = measure(contender);
            if round > 0 {
                own.push(value);
            }
        }
    }
    values
}

/// Says how far a measurement has come, in a terminal.
pub fn progress(round: usize, rounds: usize) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K    round {round} of {rounds}");
    }
}

/// Takes back what [`progress`] has said.
pub fn end_progress() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
