//! Data centers, clusters and nodes.

use crate::chance::Chance;
use crate::clock::Clock;
use crate::machine::{Host, Machine};
use crate::replication::Replication;
use crate::server::{Cause, Server};
use crate::settings::{Settings, WORKERS, Way};
use crate::time::{BEGIN, Micros};
use snowflake_core::registry_client::Client;
use snowflake_core::registry_client::io::Wish;
use snowflake_core::server::identity::{Inode, Worker};

/// What a node is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its server issues IDs, or will when it is back.
    Primary,
    /// A former primary, whose server does not know of the new one.
    Former,
    Standby,
    /// Neither, until it is a standby again.
    Away,
}

/// How clients use a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// The number of the call that comes next.
    pub number: u32,
    /// Until when calls come as fast as they can.
    pub crowd_until: Micros,
    /// How many calls of a burst are still to come.
    pub burst: u32,
}

/// A former primary that continues.
#[derive(Clone, Copy, Debug)]
pub struct Former {
    /// Since when it is not the primary any more.
    pub since: Micros,
    /// Whether its mark was near the time then. Else its IDs are ahead of its clock, and it continues when its clock
    /// comes near them.
    pub is_near: bool,
    /// When it issued an ID last, if it did.
    pub last_id: Option<Micros>,
    /// Whether it was refused.
    pub is_refused: bool,
}

/// A machine with its server.
#[derive(Debug)]
pub struct Node {
    /// The number of its cluster.
    pub cluster: usize,
    pub machine: Machine,
    /// The worker that it is configured with.
    pub worker: Option<Worker>,
    /// The server, while it runs as a primary.
    pub server: Option<Server>,
    /// The registry client of a server that leases its worker.
    pub client: Option<Client>,
    pub role: Role,
    /// Counts starts and ends of the server.
    pub life: u32,
    /// When the server was started.
    pub started: Micros,
    /// Whether the machine stands still.
    pub is_frozen: bool,
    /// Whether it cannot reach the registry.
    pub is_cut_off: bool,
    /// The offset that was trusted when shared memory was lost.
    pub kept_offset: Option<u64>,
    /// How clients use it.
    pub calls: Calls,
    /// Until when something wrong has an effect here.
    pub troubled_until: Micros,
    /// Since when its clock has been right.
    pub clock_right_since: Micros,
    /// Since when calls are refused, and why.
    pub outage: Option<(Micros, Cause)>,
    /// Since when the registry has had no worker for it.
    pub waits_since: Option<Micros>,
    /// Its life as a former primary.
    pub former: Option<Former>,
    /// How many times it will crash again.
    pub crashes_left: u32,
}

/// Nodes, one of which is the primary.
#[derive(Debug)]
pub struct Cluster {
    /// How its nodes get their workers.
    pub way: Way,
    pub datacenter: u32,
    /// The number of its first node.
    pub first: usize,
    /// The number of its primary among its nodes.
    pub primary: usize,
    /// PostgreSQL's timeline.
    pub timeline: u32,
    /// WAL.
    pub replication: Replication,
    /// Whether a standby is about to be promoted.
    pub is_failing_over: bool,
}

impl Cluster {
    /// The numbers of its nodes.
    pub fn nodes(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.way.nodes()
    }

    /// The number of its primary.
    pub fn primary(&self) -> usize {
        self.first + self.primary
    }
}

/// All clusters and nodes.
#[derive(Debug, Default)]
pub struct Fleet {
    pub clusters: Vec<Cluster>,
    pub nodes: Vec<Node>,
}

impl Fleet {
    /// The fleet of these settings; no server runs yet.
    pub fn new(settings: &Settings, chance: &mut Chance) -> Self {
        let mut fleet = Self::default();
        let ways = Way::ALL.into_iter().zip(settings.datacenters);
        let ways = ways.flat_map(|(way, count)| std::iter::repeat_n(way, count as usize));
        for (datacenter, way) in (0..).zip(ways) {
            (0..way.clusters()).for_each(|nth| fleet.add(way, datacenter, nth, chance));
        }
        fleet
    }

    /// Adds the nth cluster of a data center.
    fn add(&mut self, way: Way, datacenter: u32, nth: u32, chance: &mut Chance) {
        let (cluster, first) = (self.clusters.len(), self.nodes.len());
        for member in 0..way.nodes() {
            let worker = match way {
                Way::Own => Some(2 * nth + u32::from(member > 0)),
                Way::Shared => Some(nth),
                Way::Leased => None,
            };
            let mut node = node(cluster, member, chance);
            node.worker = worker.map(|worker| u64::from(datacenter) * WORKERS + u64::from(worker));
            self.nodes.push(node);
        }
        let replication = Replication::new(way.nodes());
        let is_failing_over = false;
        self.clusters.push(Cluster { way, datacenter, first, primary: 0, timeline: 1, replication, is_failing_over });
    }

    /// Which workers the servers of a cluster may lease.
    pub fn wish(&self, node: usize) -> Wish {
        let least = u64::from(self.clusters[self.nodes[node].cluster].datacenter) * WORKERS;
        Wish { worker: None, least, greatest: least + WORKERS - 1 }
    }

    /// The surroundings of a node's server, and the node.
    pub fn host<'a>(
        &'a mut self,
        number: usize,
        now: Micros,
        chance: &'a mut Chance,
        settings: &'a Settings,
    ) -> (Host<'a>, Running<'a>) {
        let Node { cluster, machine, server, client, .. } = &mut self.nodes[number];
        let replication = &mut self.clusters[*cluster].replication;
        (Host { now, machine, replication, chance, settings }, Running { server, client })
    }
}

/// What runs on a node.
#[derive(Debug)]
pub struct Running<'a> {
    pub server: &'a mut Option<Server>,
    pub client: &'a mut Option<Client>,
}

fn node(cluster: usize, member: usize, chance: &mut Chance) -> Node {
    let number = chance.between(1, 1 << 40);
    let machine = Machine {
        clock: Clock::new(BEGIN, chance),
        member,
        system_identifier: cluster as u64 + 1,
        timeline: 1,
        directory: Inode { number, born_ns: number },
        boot: chance.token(),
        record: None,
        life: None,
        lease: None,
    };
    Node {
        cluster,
        machine,
        worker: None,
        server: None,
        client: None,
        role: if member == 0 { Role::Primary } else { Role::Standby },
        life: 0,
        started: BEGIN,
        is_frozen: false,
        is_cut_off: false,
        kept_offset: None,
        calls: Calls::default(),
        troubled_until: 0,
        clock_right_since: BEGIN,
        outage: None,
        waits_since: None,
        former: None,
        crashes_left: 0,
    }
}
