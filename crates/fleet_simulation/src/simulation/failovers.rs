//! Standbys take over, former primaries continue, and nodes come back.

use super::Simulation;
use crate::events::Event;
use crate::faults;
use crate::fleet::{Former, Role};
use crate::settings::{RESERVE_AHEAD_MS, Way};
use crate::tally::Count;
use crate::time::{MINUTE, Micros, SECOND};

/// How long a former primary is used after it has gone on.
const AFTER_THAW: Micros = MINUTE;

impl Simulation {
    /// A standby is about to take over.
    fn fail_over(&mut self, cluster: usize, within: Micros) {
        self.fleet.clusters[cluster].is_failing_over = true;
        self.events.at(self.now + within, Event::Promote(cluster));
    }

    /// The machine of a primary loses its power; another one takes over, if there is one.
    pub(super) fn lose_power(&mut self, cluster: usize) {
        let node = self.fleet.clusters[cluster].primary();
        self.kill(node);
        self.fleet.nodes[node].machine.boot = self.chance.token();
        if self.has_standby(cluster) {
            self.fleet.nodes[node].role = Role::Away;
            let (failover, away) = (faults::failover_time(&mut self.chance), faults::away_time(&mut self.chance));
            self.fail_over(cluster, failover);
            self.events.at(self.now + away, Event::Rejoin(node));
        } else {
            let pause = faults::boot_time(&mut self.chance);
            self.start_in(node, pause);
        }
    }

    /// A primary is stopped as planned, and another one takes over, if there is one.
    pub(super) fn switch_over(&mut self, cluster: usize) {
        let node = self.fleet.clusters[cluster].primary();
        self.stop(node);
        let pause = self.chance.between(SECOND, 5 * SECOND);
        if self.has_standby(cluster) {
            self.fleet.nodes[node].role = Role::Away;
            self.fail_over(cluster, pause);
            self.events.at(self.now + pause + 10 * SECOND, Event::Rejoin(node));
        } else {
            self.start_in(node, pause);
        }
    }

    /// A primary continues beside the standby that takes over. Returns whether that can be.
    pub(super) fn split(&mut self, cluster: usize) -> bool {
        let node = self.fleet.clusters[cluster].primary();
        if !self.has_standby(cluster) {
            return false;
        }
        // The network, and not only the process that would have stopped the primary.
        if self.chance.happens(0.5) {
            self.fleet.clusters[cluster].replication.cut();
            self.fleet.nodes[node].is_cut_off = self.chance.happens(0.5);
            self.end_outage(node);
            self.fleet.nodes[node].former = Some(self.former(node));
            self.crowd_around(node);
        }
        let (failover, time) = (faults::failover_time(&mut self.chance), faults::split_time(&mut self.chance));
        self.fail_over(cluster, failover);
        self.events.at(self.now + time, Event::Fence(node, self.fleet.nodes[node].life));
        true
    }

    /// A primary's machine stands still while a standby takes over. Returns whether that can be.
    pub(super) fn freeze(&mut self, cluster: usize) -> bool {
        let node = self.fleet.clusters[cluster].primary();
        if !self.has_standby(cluster) {
            return false;
        }
        self.fleet.nodes[node].is_frozen = true;
        let failover = faults::failover_time(&mut self.chance);
        let time = self.chance.log_time(MINUTE, 120 * MINUTE);
        self.fail_over(cluster, failover);
        self.events.at(self.now + time, Event::Thaw(node, self.fleet.nodes[node].life));
        true
    }

    /// What a node is from now on that is not the primary any more.
    fn former(&self, node: usize) -> Former {
        let mark = self.fleet.nodes[node].machine.record.map_or(0, |record| record.mark);
        let is_near = mark <= self.now / 1000 + 2 * RESERVE_AHEAD_MS;
        Former { since: self.now, is_near, last_id: None, is_refused: false }
    }

    pub(super) fn has_standby(&self, cluster: usize) -> bool {
        self.fleet.clusters[cluster].replication.a_standby().is_some()
    }

    /// A standby becomes the primary. The others follow it.
    pub(super) fn promote(&mut self, cluster: usize) {
        self.settle(cluster);
        let old = self.fleet.clusters[cluster].primary();
        let former = self.former(old);
        if self.fleet.nodes[old].role == Role::Primary {
            self.fleet.nodes[old].role = Role::Former;
            self.fleet.nodes[old].former.get_or_insert(former);
            self.end_outage(old);
        }
        let cluster_state = &mut self.fleet.clusters[cluster];
        let is_standby = |&node: &usize| self.fleet.nodes[node].role == Role::Standby;
        let mut standbys = cluster_state.nodes().filter(is_standby);
        let node = standbys.next().expect("a cluster fails over only if it has a standby");
        let others: Vec<_> = standbys.map(|node| node - cluster_state.first).collect();
        cluster_state.primary = node - cluster_state.first;
        cluster_state.timeline += 1;
        cluster_state.is_failing_over = false;
        cluster_state.replication.promote(cluster_state.primary, others);
        self.fleet.nodes[node].machine.timeline = cluster_state.timeline;
        self.fleet.nodes[node].role = Role::Primary;
        self.count(node, Count::Failovers);
        self.crowd(cluster);
        self.start_server(node, true);
    }

    /// A machine continues that had stood still.
    pub(super) fn thaw(&mut self, node: usize, life: u32) {
        if self.fleet.nodes[node].life != life {
            return;
        }
        let former = self.former(node);
        self.fleet.nodes[node].is_frozen = false;
        self.fleet.nodes[node].former = Some(former);
        self.on_server(node, |host, server| server.wake(host.now));
        self.trouble_until(node, self.now + 10 * MINUTE);
        self.crowd_around(node);
        self.events.at(self.now, Event::Client(node, life));
        let time = self.now + self.chance.between(SECOND, AFTER_THAW);
        self.events.at(time, Event::Fence(node, life));
    }

    /// A former primary is stopped, by force.
    pub(super) fn fence(&mut self, node: usize, life: u32) {
        if self.fleet.nodes[node].life != life {
            return;
        }
        self.settle(self.fleet.nodes[node].cluster);
        self.on_server(node, |host, server| server.die(host, None));
        self.end_server(node);
        let node_state = &mut self.fleet.nodes[node];
        node_state.role = Role::Away;
        node_state.is_cut_off = false;
        let clock_right_since = node_state.clock_right_since;
        let is_right = |former: &Former| clock_right_since <= former.since && former.is_near;
        if let Some((former, is_right)) = node_state.former.take().map(|former| (former, is_right(&former))) {
            let went_on = former.last_id.map_or(0, |last| last - former.since);
            let split_brains = &mut self.tally(node).split_brains;
            split_brains.refused += u64::from(former.is_refused);
            let times = if is_right { &mut split_brains.clock_right } else { &mut split_brains.clock_wrong };
            times.add(went_on);
        }
        let time = self.now + self.chance.between(10 * SECOND, 2 * MINUTE);
        self.events.at(time, Event::Rejoin(node));
    }

    /// A standby goes away for a while. Returns whether there is one.
    pub(super) fn lose_standby(&mut self, cluster: usize) -> bool {
        let cluster_state = &mut self.fleet.clusters[cluster];
        let Some(member) = cluster_state.replication.a_standby() else { return false };
        cluster_state.replication.leave(member);
        let (node, time) = (cluster_state.first + member, faults::away_time(&mut self.chance));
        self.fleet.nodes[node].role = Role::Away;
        self.events.at(self.now + time, Event::Rejoin(node));
        true
    }

    /// A node becomes a standby: rewound, or made anew from the primary. A relative state directory comes with the data
    /// directory, and an absolute one stays. The files that name themselves are copies, and say nothing.
    pub(super) fn rejoin(&mut self, node: usize) {
        let cluster = self.fleet.nodes[node].cluster;
        self.settle(cluster);
        let cluster_state = &mut self.fleet.clusters[cluster];
        let primary = &self.fleet.nodes[cluster_state.primary()];
        if primary.server.is_none() || primary.is_frozen || cluster_state.is_failing_over {
            self.events.at(self.now + 10 * SECOND, Event::Rejoin(node));
            return;
        }
        let (record, timeline) = (primary.machine.record, cluster_state.timeline);
        cluster_state.replication.join(node - cluster_state.first);
        let standby = &mut self.fleet.nodes[node];
        standby.role = Role::Standby;
        standby.machine.timeline = timeline;
        standby.machine.life = None;
        standby.machine.lease = None;
        if cluster_state.way != Way::Own {
            standby.machine.record = record;
        }
    }
}
