//! What goes wrong with a fleet, and what its clients see of it.

use super::fleet::{Fleet, Workers};
use super::program::wait_for;
use std::fs;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Load, Report, Signal, real_time};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All processes of the primary are killed.
    KilledPostgres,
    /// Patroni is killed on the node of the primary, which goes on beside the one that is promoted.
    KilledPatroni,
    /// A planned switchover.
    Switchover,
    /// A standby is made anew from the primary.
    Reinit,
    /// The node of the primary loses its power; when it comes back, it is rewound.
    LostNode,
    /// etcd does not answer until the primary has given up.
    PausedEtcd,
}

/// What clients have seen.
pub struct Seen {
    pub event: Event,
    /// Of clients that ask each node, and of one that asks the primary.
    pub report: Report,
    pub ids: usize,
    /// IDs that had been received before, by any client since the fleet was started.
    pub duplicates: usize,
    /// How often a node was promoted.
    pub promotions: i32,
    /// The longest time without an ID, for a client that asks the primary.
    pub gap: Duration,
    /// The longest time without a number of a sequence of PostgreSQL's, and how many of its numbers came twice.
    pub serial: (Duration, usize),
    /// How long the old primary issued IDs beside the new one.
    pub beside: Option<Duration>,
}

/// Not as fast as possible: Patroni needs the processor, too.
const IDS: &str = "SELECT snowflake_nextval() FROM generate_series(1, 10), pg_sleep(0.01)";
const SERIAL: &str = "SELECT nextval('serial') FROM generate_series(1, 10), pg_sleep(0.01)";

/// How long an old primary is left alone: far longer than a mark reaches ahead of the clock.
const SPLIT: Duration = Duration::from_secs(8);

/// How often PostgreSQL is killed at most. Patroni starts it again if no standby answers in time, as on a busy machine.
const KILLS: u32 = 5;

impl Event {
    pub const ALL: &[Self] =
        &[Self::KilledPostgres, Self::KilledPatroni, Self::Switchover, Self::Reinit, Self::LostNode, Self::PausedEtcd];

    pub fn words(self) -> &'static str {
        match self {
            Self::KilledPostgres => "PostgreSQL is killed on the primary",
            Self::KilledPatroni => "Patroni is killed on the primary: split brain",
            Self::Switchover => "switchover",
            Self::Reinit => "a standby is made anew",
            Self::LostNode => "the primary's node loses its power, and is rewound",
            Self::PausedEtcd => "etcd is paused",
        }
    }

    /// Whether a node must be promoted: another one, or the old primary, which has been a standby meanwhile.
    fn promotes(self) -> bool {
        self != Self::Reinit
    }

    /// Lets it happen to a fleet, whose primary issues IDs for sure or not, and waits until the fleet is whole again.
    pub fn happen(self, fleet: &mut Fleet, issues_for_sure: bool) -> Seen {
        let old = fleet.primary();
        let before = fleet.timeline(old);
        let of_nodes: Vec<_> = fleet.nodes.iter().map(|node| Load::start_at(&node.config(), 1, IDS)).collect();
        let of_primary = Load::start_at(&fleet.config(), 1, IDS);
        let serial = Load::start_at(&fleet.config(), 1, SERIAL);
        serial.wait_for_some(100);
        if issues_for_sure {
            of_primary.wait_for_some(100);
        }
        let promoted = self.go_wrong(fleet, old, issues_for_sure);
        fleet.wait_for_standbys();
        serial.wait_for_some(100);
        if issues_for_sure {
            of_primary.wait_for_some(100);
        }
        let promotions = fleet.timeline(fleet.primary()) - before;
        assert!(promotions > 0 || !self.promotes(), "no node was promoted after {self:?}");
        let of_nodes: Vec<_> = of_nodes.into_iter().map(Load::finish).collect();
        let beside =
            promoted.map(|at| Duration::from_millis(of_nodes[old].last_arrival().unwrap_or(0).saturating_sub(at)));
        if let Some(beside) = beside.filter(|_| issues_for_sure) {
            self.judge(fleet.workers(), beside);
        }
        let (of_primary, serial) = (of_primary.finish(), serial.finish());
        let (gap, serial) = (of_primary.longest_gap(), (serial.longest_gap(), serial.duplicates()));
        let mut report = of_primary;
        of_nodes.into_iter().for_each(|of_node| report.merge(of_node));
        Seen { event: self, ids: report.ids(), duplicates: 0, report, promotions, gap, serial, beside }
    }

    /// An old primary that goes on alone is the reason for all this.
    fn judge(self, workers: Workers, beside: Duration) {
        match workers {
            Workers::Own | Workers::Leased => {
                assert!(beside + Duration::from_secs(1) > SPLIT, "it ended early: {beside:?}")
            }
            Workers::Shared => assert!(beside < SPLIT / 2, "it went on for {beside:?}"),
        }
    }

    /// Returns when another node was promoted while the old primary went on.
    fn go_wrong(self, fleet: &mut Fleet, old: usize, issues_for_sure: bool) -> Option<u64> {
        let other = |nth| nth != old;
        match self {
            Self::KilledPostgres => {
                let is_promoted = (0..KILLS).any(|_| {
                    fleet.wait_for_standbys();
                    fleet.nodes[old].kill_postgres();
                    fleet.primary() != old
                });
                assert!(is_promoted, "no other node was promoted, though the primary was killed {KILLS} times");
            }
            Self::KilledPatroni => {
                fleet.nodes[old].kill_patroni();
                let new = fleet.wait_for_primary(other);
                let promoted = real_time();
                if issues_for_sure {
                    fleet.wait_for_ids_of(new);
                }
                sleep(SPLIT);
                fleet.nodes[old].start();
                return Some(promoted);
            }
            Self::Switchover => {
                let leader = &fleet.nodes[old];
                leader.patronictl(&["switchover", "fleet", "--leader", &leader.name, "--force"]);
                fleet.wait_for_primary(other);
            }
            Self::Reinit => {
                let standby = &fleet.nodes[(old + 1) % fleet.nodes.len()];
                let of_old_data = standby.machine.data().join("of_old_data");
                fs::write(&of_old_data, "").expect("own file");
                standby.patronictl(&["reinit", "fleet", &standby.name, "--force", "--wait"]);
                assert!(!of_old_data.exists(), "the standby has its old data directory");
            }
            Self::LostNode => {
                fleet.nodes[old].kill();
                fleet.wait_for_primary(other);
                fleet.nodes[old].start();
            }
            Self::PausedEtcd => {
                fleet.send_to_etcd(Signal::STOP);
                wait_for("no primary", || !fleet.nodes.iter().any(super::fleet::Node::is_primary));
                fleet.send_to_etcd(Signal::CONT);
                fleet.primary();
            }
        }
        None
    }
}
