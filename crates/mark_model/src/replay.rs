//! Holds servers to the model: each event that a server has recorded must be a step that the model can take.
//!
//! What happens between events is not recorded: a process that ends before or after what it was writing, a write that
//! fails, files that are copied or put back. So a replay keeps all states in which the server can be, and drops those
//! that an event rules out. If none is left, the server has done what the model cannot do.

mod grants;
mod look;
mod numbers;
mod server;
mod steps;
mod traces;

#[cfg(test)]
mod tests;

use crate::world::World;
use numbers::{Outside, Written};
use server::Replay;
use std::collections::BTreeMap;
use std::fmt::Write;
pub use traces::{Trace, collect};

/// What somebody may have done to the files of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touch {
    /// Nothing: each start finds what the server has left.
    Nothing,
    /// They can have been removed, or replaced by files of other servers or of earlier times.
    Files,
    /// WAL, too, can have a mark that no server has written.
    Anything,
}

/// What was seen in the replays.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub servers: u64,
    /// Of them, those that nobody had touched.
    pub untouched: u64,
    pub events: u64,
    /// Marks that were held to a grant of a registry.
    pub granted: u64,
    /// How often each row of the start table was found, by its number.
    pub rows: BTreeMap<u64, u64>,
    /// What was not as the server had left it, and how often.
    pub explained: BTreeMap<&'static str, u64>,
    /// Servers that do what the model does not have, and what.
    pub outside: BTreeMap<&'static str, u64>,
    /// The most states in which a server could be.
    pub most_states: usize,
}

impl Findings {
    /// Adds what others have seen.
    pub fn add(&mut self, other: &Self) {
        self.servers += other.servers;
        self.untouched += other.untouched;
        self.events += other.events;
        self.granted += other.granted;
        self.most_states = self.most_states.max(other.most_states);
        other.rows.iter().for_each(|(row, count)| *self.rows.entry(*row).or_default() += count);
        other.explained.iter().for_each(|(what, count)| *self.explained.entry(what).or_default() += count);
        other.outside.iter().for_each(|(what, count)| *self.outside.entry(what).or_default() += count);
    }
}

/// Replays the events of these servers, whose files somebody may have touched. An error if they
/// have done what the model cannot do.
pub fn replay(traces: &[Trace], touch: Touch, world: World) -> Result<Findings, String> {
    let written = Written::new(traces);
    let mut findings = Findings::default();
    for trace in traces {
        findings.servers += 1;
        if let Some(position) = trace.gap() {
            return Err(deviation(trace, position, "has not recorded all events"));
        }
        // A file that was copied, or has turned, does not show how it began.
        let begins = trace.copy_of == 0 && trace.entries.first().is_some_and(|entry| entry.number == 1);
        findings.untouched += u64::from(begins && touch == Touch::Nothing);
        let mut replay = Replay::new(&written, if begins { touch } else { touch.max(Touch::Files) }, world);
        for (position, entry) in trace.entries.iter().enumerate() {
            findings.events += 1;
            match replay.follow(entry.event) {
                Ok(true) => {}
                Ok(false) => return Err(deviation(trace, position, "does what the model cannot do")),
                Err(Outside(what)) => {
                    *findings.outside.entry(what).or_default() += 1;
                    break;
                }
            }
        }
        let Replay { rows, explained, most, grants, .. } = replay;
        findings.add(&Findings { rows, explained, most_states: most, granted: grants.marks, ..Findings::default() });
    }
    Ok(findings)
}

/// What the server has recorded up to the event that shows this.
fn deviation(trace: &Trace, position: usize, what: &str) -> String {
    const BEFORE: usize = 30;
    let mut text = format!("server {:x} {what}, last:\n", trace.file);
    for entry in &trace.entries[position.saturating_sub(BEFORE)..=position] {
        let _ = writeln!(text, "  {} at {}: {:?}", entry.number, entry.at, entry.event);
    }
    text
}
