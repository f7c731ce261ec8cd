//! A machine: its clock, and what its server keeps on its disk.

use crate::chance::Chance;
use crate::clock::Clock;
use crate::replication::Replication;
use crate::settings::Settings;
use crate::time::Micros;
use snowflake_core::UnixMs;
use snowflake_core::issue::forward_jump::{ForwardJumpGuard, Verdict};
use snowflake_core::mark::life::LastLife;
use snowflake_core::mark::record::Record;
use snowflake_core::server::identity::{Identity, Inode, Worker};
use snowflake_core::server::lease::{Lease, Location};

/// A node of a cluster, apart from whether a server runs on it.
#[derive(Debug)]
pub struct Machine {
    pub clock: Clock,
    /// Its number in its cluster.
    pub member: usize,
    /// The system identifier of the cluster.
    pub system_identifier: u64,
    /// PostgreSQL's timeline.
    pub timeline: u32,
    pub directory: Inode,
    /// The boot of the machine: a random number.
    pub boot: u128,
    pub record: Option<Record>,
    /// What the data directory knows of the record that it wrote last.
    pub life: Option<LastLife>,
    pub lease: Option<Lease>,
}

impl Machine {
    /// Where a lease is used.
    pub fn location(&self) -> Location {
        Location { boot: self.boot, device: 1, directory: self.directory.number }
    }

    /// The source of the IDs of a server here.
    pub fn identity(&self, worker: Worker) -> Identity {
        Identity {
            system_identifier: self.system_identifier,
            timeline: self.timeline,
            directory: self.directory,
            worker,
            layout: crate::settings::layout(),
        }
    }
}

/// A server's surroundings at a moment.
#[derive(Debug)]
pub struct Host<'a> {
    /// True time.
    pub now: Micros,
    pub machine: &'a mut Machine,
    pub replication: &'a mut Replication,
    pub chance: &'a mut Chance,
    pub settings: &'a Settings,
}

impl Host<'_> {
    /// The machine's monotonic clock, in microseconds, which is right.
    pub fn monotonic(&self) -> Micros {
        self.now - crate::time::BEGIN + crate::time::DAY
    }

    /// A guard that trusts the present clock.
    pub fn new_guard(&self) -> ForwardJumpGuard {
        ForwardJumpGuard::new(self.machine.clock.read(self.now), self.monotonic())
    }

    /// The clock as far as it is trusted, in microseconds; timestamps up to `issued` may exist.
    pub fn trusted(&self, guard: &ForwardJumpGuard, issued: UnixMs) -> Micros {
        let (real, max_jump) = (self.machine.clock.read(self.now), crate::settings::MAX_FORWARD_JUMP);
        match guard.check(real, self.monotonic(), issued * 1000, max_jump) {
            Verdict::Trusted | Verdict::Confirmed => real,
            Verdict::Jumped { expected } => expected,
        }
    }
}
