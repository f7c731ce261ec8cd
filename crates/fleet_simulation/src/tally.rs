//! What is counted while the simulation runs.

use crate::histogram::Histogram;
use crate::ledger::Audit;
use crate::server::Cause;
use crate::time::Micros;

/// How far IDs are ahead, in milliseconds; those that are behind count as 0.
#[derive(Clone, Debug, Default)]
pub struct Lead {
    /// The lead over true time.
    pub over_truth: Histogram,
    /// The lead over the clock of the node.
    pub over_clock: Histogram,
}

/// Calls that were refused for one cause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outages {
    pub calls: u64,
    /// The times from the first refused call to the next ID, to another cause, or to the end of the server.
    pub times: Times,
}

/// How long something took each time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    pub count: u64,
    /// Together.
    pub total: Micros,
    pub longest: Micros,
}

impl Times {
    pub fn add(&mut self, time: Micros) {
        self.merge(&Self { count: 1, total: time, longest: time });
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }
}

/// Former primaries that continued beside the new one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SplitBrains {
    /// How long they issued IDs while their clocks were right.
    pub clock_right: Times,
    /// How long they issued IDs while their clocks were wrong.
    pub clock_wrong: Times,
    /// How many were refused before they were stopped.
    pub refused: u64,
}

/// Events and requests, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Clusters.
    Servers,
    Calls,
    /// Calls that waited for the next tick, or for a clock a little behind.
    Waited,
    /// Crashes of servers and machines.
    Crashes,
    /// Planned stops.
    Stops,
    /// Promotions of standbys.
    Failovers,
    /// State files lost.
    LostStates,
    /// Clocks that were set wrong, stopped or neglected.
    ClockFaults,
    /// Faults that had no effect, since the cluster was just failing over.
    Skipped,
    /// Requests to the registry, also those that it did not answer.
    Requests,
    /// Those that failed since it was away, out of reach, or the answer was lost.
    Unanswered,
    /// Workers claimed.
    Claims,
    /// Leases renewed.
    Renewals,
    /// Servers that had to be restarted since their worker had been given to another one.
    Superseded,
}

const COUNTS: usize = Count::Superseded as usize + 1;

/// What is counted for one way to give workers, or for all.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: [u64; COUNTS],
    /// IDs received.
    pub audit: Audit,
    /// The lead while nothing was wrong.
    pub quiet: Lead,
    /// The lead from ten seconds before to ten minutes after something went wrong.
    pub troubled: Lead,
    /// The outages by cause, as in [`Cause::ALL`].
    pub outages: [Outages; Cause::ALL.len()],
    pub split_brains: SplitBrains,
    /// How long claims waited for a free worker.
    pub worker_waits: Times,
    /// How long servers ran.
    pub server_time: Micros,
}

impl Tally {
    pub fn count(&mut self, what: Count) {
        self.counts[what as usize] += 1;
    }

    pub fn get(&self, what: Count) -> u64 {
        self.counts[what as usize]
    }

    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.audit.received += other.audit.received;
        self.audit.duplicates += other.audit.duplicates;
        self.audit.workers += other.audit.workers;
        for (mine, theirs) in [(&mut self.quiet, &other.quiet), (&mut self.troubled, &other.troubled)] {
            mine.over_truth.merge(&theirs.over_truth);
            mine.over_clock.merge(&theirs.over_clock);
        }
        for (mine, theirs) in self.outages.iter_mut().zip(&other.outages) {
            mine.calls += theirs.calls;
            mine.times.merge(&theirs.times);
        }
        self.split_brains.clock_right.merge(&other.split_brains.clock_right);
        self.split_brains.clock_wrong.merge(&other.split_brains.clock_wrong);
        self.split_brains.refused += other.split_brains.refused;
        self.worker_waits.merge(&other.worker_waits);
        self.server_time += other.server_time;
    }
}
