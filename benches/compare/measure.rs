//! CPU time, and rounds.

use crate::contenders::Contender;
use crate::servers::Servers;
use crate::settings::Setting;
use std::fs;
use std::io::{self, IsTerminal};
use std::thread::sleep;
use std::time::Duration;
use testbed::postgres::{Client, Statement};
use testbed::value;

/// A session, and the process that serves it.
pub struct Backend {
    pub client: Client,
    process: u32,
}

impl Backend {
    /// A new session of a contender's server.
    pub fn of(servers: &Servers, contender: &Contender) -> Self {
        Self::of_setting(servers, contender.setting)
    }

    /// A new session of the server with a configuration.
    pub fn of_setting(servers: &Servers, setting: Setting) -> Self {
        let mut client = servers.connect(setting);
        let process = value(&mut client, "SELECT pg_backend_pid()").parse().expect("a number");
        Self { client, process }
    }

    /// The number of the process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Nanoseconds of CPU time for one of the rows of a statement, which is run `times` times. The layout `twitter` has
    /// 4,096 IDs a millisecond: statements of fewer, a millisecond apart, never wait for the clock.
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

/// How many bytes of WAL the server has written.
pub fn wal_written(client: &mut Client) -> f64 {
    number(client, "SELECT pg_current_wal_insert_lsn() - '0/0'")
}

/// What a query says.
pub fn number(client: &mut Client, query: &str) -> f64 {
    value(client, query).parse().expect("a number")
}

/// A length of time in nanoseconds.
pub fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Measures each contender once a round, after a round to warm up, and returns all values of each. Every other round
/// goes backwards: what one leaves behind for the next, such as a busy disk, would otherwise always meet the same one.
pub fn rounds<T, V>(rounds: usize, contenders: &mut [T], mut measure: impl FnMut(&mut T) -> V) -> Vec<Vec<V>> {
    let mut values: Vec<_> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        progress(round, rounds);
        for nth in 0..contenders.len() {
            let turn = if round.is_multiple_of(2) { nth } else { contenders.len() - 1 - nth };
            let value = measure(&mut contenders[turn]);
            if round > 0 {
                values[turn].push(value);
            }
        }
    }
    values
}

/// Says how far a measurement has come, in a terminal.
pub fn progress(step: usize, steps: usize) {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K    step {step} of {steps}");
    }
}

/// Takes back what [`progress`] has said.
pub fn end_progress() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
