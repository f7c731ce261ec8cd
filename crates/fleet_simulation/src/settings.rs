//! What is simulated, and the parameters of its servers.

use crate::time::{Micros, SECOND};
use snowflake_core::id::layout::Layout;
use snowflake_core::issue::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};
use snowflake_core::mark::reservation;
use snowflake_core::mark::{MarkSettings, WalMark};

/// `snowflake_pg.reserve_ahead`, in milliseconds.
pub const RESERVE_AHEAD_MS: u64 = 2000;
/// `snowflake_pg.max_borrow`, in milliseconds.
pub const MAX_BORROW_MS: u64 = 5000;
/// `snowflake_pg.max_wait`, in milliseconds.
pub const MAX_WAIT_MS: u64 = 500;
/// `snowflake_pg.max_forward_jump`, in microseconds.
pub const MAX_FORWARD_JUMP: Micros = 3600 * SECOND;
/// `snowflake_pg.keep_warm`.
pub const KEEP_WARM: Micros = 60 * SECOND;
/// `snowflake_pg.registry_lease`, and the longest lease of the registry, in milliseconds.
pub const LEASE_MS: u64 = 3_600_000;

/// What a call is promised: the defaults of the extension, with ticks of a millisecond.
pub const POLICY: Policy = Policy {
    clock_regression: ClockRegression::Borrow,
    sequence_exhaustion: SequenceExhaustion::Wait,
    sequence_start: SequenceStart::Random,
    max_borrow: MAX_BORROW_MS,
};

/// All that pg_settings shows, as it shows a default: `tests/repository/simulation.rs` compares.
pub fn parameters() -> [(&'static str, String); 10] {
    [
        ("layout", "flat".to_owned()),
        ("reserve_ahead", RESERVE_AHEAD_MS.to_string()),
        ("max_borrow", MAX_BORROW_MS.to_string()),
        ("max_wait", MAX_WAIT_MS.to_string()),
        ("max_forward_jump", (MAX_FORWARD_JUMP / 1000).to_string()),
        ("registry_lease", (LEASE_MS / 1000).to_string()),
        ("clock_regression", POLICY.clock_regression.to_string()),
        ("sequence_exhaustion", POLICY.sequence_exhaustion.to_string()),
        ("sequence_start", POLICY.sequence_start.to_string()),
        ("wal_mark", mark_settings(Way::Own).wal_mark.to_string()),
    ]
}

/// How many workers a data center has for its servers.
pub const WORKERS: u64 = 32;

/// The layout of all IDs: room for 32 data centers.
pub fn layout() -> Layout {
    "flat".parse().expect("a preset")
}

/// What decides about the mark of a server: the defaults of the extension, but where a cluster has one worker.
pub fn mark_settings(way: Way) -> MarkSettings {
    let start_wait_ms = reservation::start_wait_ms(0, RESERVE_AHEAD_MS, layout().tick_ms());
    MarkSettings {
        layout: layout(),
        reserve_ahead_ms: RESERVE_AHEAD_MS,
        max_borrow_ms: MAX_BORROW_MS,
        borrows_ticks: false,
        start_wait_ms,
        first_wait_ms: start_wait_ms.max(MAX_BORROW_MS),
        wal_mark: if way == Way::Shared { WalMark::Require } else { WalMark::Prefer },
    }
}

/// How the nodes of a data center get their workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Each node has a worker of its own.
    Own,
    /// Each cluster has a worker. Its mark goes through WAL, to synchronous standbys.
    Shared,
    /// A primary leases its worker from a registry.
    Leased,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Own, Self::Shared, Self::Leased];

    /// How many clusters a data center has. Leased workers are hardly more than clusters.
    pub const fn clusters(self) -> u32 {
        match self {
            Self::Own => 16,
            Self::Shared => 32,
            Self::Leased => 30,
        }
    }

    /// How many nodes a cluster has. A primary that needs a synchronous standby has two.
    pub const fn nodes(self) -> usize {
        match self {
            Self::Own | Self::Leased => 2,
            Self::Shared => 3,
        }
    }
}

/// A rule that can be broken, to see that duplicates are then found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A server begins at the mark that it finds.
    BeginsAtMark,
    /// A promoted standby begins above the mark in WAL.
    BeginsAboveMarkInWal,
    /// No ID is issued above a mark that no standby has acknowledged.
    MarkIsAcknowledged,
    /// The mark never passes the grant of a lease.
    MarkWithinGrant,
    /// The registry gives a worker away only when its grant has ended by the registry's clock.
    FreeAfterGrant,
    /// The next holder of a worker begins at the former grant, and not where the former holder began.
    NextBeginsAtGrant,
}

/// One simulation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long it lasts, in simulated days.
    pub days: u32,
    /// Decides everything that is random.
    pub seed: u64,
    /// How many data centers there are of each way, 32 together at most.
    pub datacenters: [u32; 3],
    /// How many times a day something goes wrong in each cluster.
    pub faults_per_day: u64,
    /// The rules that are broken.
    pub broken: &'static [Rule],
}

impl Settings {
    /// All 1,024 workers.
    pub fn whole(days: u32, seed: u64) -> Self {
        Self { days, seed, datacenters: [11, 11, 10], faults_per_day: 2, broken: &[] }
    }

    /// Two data centers of each way for a day, in which as much goes wrong as in two weeks.
    pub fn short(seed: u64) -> Self {
        Self { days: 1, seed, datacenters: [2, 2, 2], faults_per_day: 24, broken: &[] }
    }

    /// Whether a rule is not broken.
    pub fn keeps(&self, rule: Rule) -> bool {
        !self.broken.contains(&rule)
    }
}
