//! Something goes wrong in a cluster.

use super::{RACK_EVERY, Simulation};
use crate::clock::POLL;
use crate::events::Event;
use crate::faults::{self, Fault};
use crate::settings::Way;
use crate::tally::Count;
use crate::time::{DAY, HOUR, MINUTE, Micros, SECOND};

/// How long before something goes wrong clients begin to crowd.
const BEFORE: Micros = 2 * SECOND;

/// How long a clock must have been right for a state file to be lost: then its server is not ahead of it any more.
const RIGHT_FOR: Micros = 2 * HOUR;

/// How far off a right clock may be, in microseconds.
const NEARLY_RIGHT_US: i64 = 20_000;

impl Simulation {
    /// Plans what goes wrong next in a cluster.
    pub(super) fn plan_fault(&mut self, cluster: usize) {
        let time = self.now + BEFORE + self.chance.until_next(DAY / self.settings.faults_per_day);
        self.events.at(time - BEFORE, Event::Crowd(cluster));
        self.events.at(time, Event::Fault(cluster));
    }

    pub(super) fn fault(&mut self, cluster: usize) {
        self.plan_fault(cluster);
        self.settle(cluster);
        let fault = Fault::draw(&mut self.chance);
        let node = self.fleet.clusters[cluster].primary();
        if !self.apply(fault, cluster) {
            self.count(node, Count::Skipped);
        }
    }

    /// Returns whether that was possible.
    fn apply(&mut self, fault: Fault, cluster: usize) -> bool {
        match fault {
            Fault::ClockStep => return self.step_clock(cluster),
            Fault::ClockStop => return self.stop_clock(cluster),
            Fault::ClockNeglect => return self.neglect_clock(cluster),
            _ if !self.is_up(cluster) => return false,
            Fault::Crash => self.crash_primary(cluster, 0),
            Fault::CrashSeries => self.crash_primary(cluster, 5),
            Fault::PlannedStop => self.restart_primary(cluster),
            Fault::Switchover => self.switch_over(cluster),
            Fault::PowerLoss => self.lose_power(cluster),
            Fault::Reboot => self.reboot(cluster),
            Fault::SplitBrain => return self.split(cluster),
            Fault::Freeze => return self.freeze(cluster),
            Fault::StandbyLost => return self.lose_standby(cluster),
            Fault::LostState => return self.lose_state(cluster),
        }
        true
    }

    /// Whether the primary runs, and stays the primary.
    fn is_up(&self, cluster: usize) -> bool {
        let cluster_state = &self.fleet.clusters[cluster];
        self.fleet.nodes[cluster_state.primary()].server.is_some() && !cluster_state.is_failing_over
    }

    fn crash_primary(&mut self, cluster: usize, again: usize) {
        let node = self.fleet.clusters[cluster].primary();
        self.crash(node);
        if again > 0 {
            self.fleet.nodes[node].crashes_left = 1 + u32::try_from(self.chance.index(again)).expect("a few");
        }
        // While the server is down.
        if self.chance.happens(0.25) {
            self.step_clock_of(node);
        }
    }

    fn restart_primary(&mut self, cluster: usize) {
        let node = self.fleet.clusters[cluster].primary();
        self.stop(node);
        let pause = faults::restart_time(&mut self.chance);
        self.start_in(node, pause);
    }

    fn reboot(&mut self, cluster: usize) {
        let node = self.fleet.clusters[cluster].primary();
        self.kill(node);
        self.fleet.nodes[node].machine.boot = self.chance.token();
        let pause = faults::boot_time(&mut self.chance);
        self.start_in(node, pause);
    }

    /// A server loses its state directory. With a worker of its own, it must then rely on its clock, which is right.
    fn lose_state(&mut self, cluster: usize) -> bool {
        let (node, way) = (self.fleet.clusters[cluster].primary(), self.fleet.clusters[cluster].way);
        let node_state = &self.fleet.nodes[node];
        let is_right = node_state.clock_right_since + RIGHT_FOR <= self.now
            && node_state.machine.clock.error(self.now).abs() < NEARLY_RIGHT_US;
        if way == Way::Own && !is_right {
            return false;
        }
        self.count(node, Count::LostStates);
        self.crash(node);
        let machine = &mut self.fleet.nodes[node].machine;
        machine.record = None;
        machine.lease = None;
        true
    }

    /// A node whose clock goes wrong: the primary half of the time. `None` if that one's is wrong already.
    fn clock_victim(&mut self, cluster: usize) -> Option<usize> {
        let cluster_state = &self.fleet.clusters[cluster];
        let any = cluster_state.first + self.chance.index(cluster_state.way.nodes());
        let node = if self.chance.happens(0.5) { cluster_state.primary() } else { any };
        Some(node).filter(|&node| self.fleet.nodes[node].machine.clock.is_disciplined())
    }

    fn step_clock(&mut self, cluster: usize) -> bool {
        let victim = self.clock_victim(cluster);
        victim.into_iter().for_each(|node| self.step_clock_of(node));
        victim.is_some()
    }

    fn step_clock_of(&mut self, node: usize) {
        if !self.fleet.nodes[node].machine.clock.is_disciplined() {
            return;
        }
        let (by, hold) = (faults::clock_step(&mut self.chance), faults::clock_hold(&mut self.chance));
        self.fleet.nodes[node].machine.clock.set_wrong(self.now, by);
        self.clock_is_wrong(node, hold, by.unsigned_abs());
    }

    fn stop_clock(&mut self, cluster: usize) -> bool {
        let victim = self.clock_victim(cluster);
        if let Some(node) = victim {
            let hold = self.chance.log_time(SECOND, 10 * MINUTE);
            self.fleet.nodes[node].machine.clock.stop(self.now);
            self.clock_is_wrong(node, hold, hold);
        }
        victim.is_some()
    }

    fn neglect_clock(&mut self, cluster: usize) -> bool {
        let victim = self.clock_victim(cluster);
        if let Some(node) = victim {
            let hold = self.chance.log_time(HOUR, DAY);
            self.fleet.nodes[node].machine.clock.neglect(self.now);
            self.clock_is_wrong(node, hold, 10 * SECOND);
        }
        victim.is_some()
    }

    /// A clock is off for this time, by so much at most. Afterwards IDs can be ahead for as long.
    fn clock_is_wrong(&mut self, node: usize, hold: Micros, off: Micros) {
        self.count(node, Count::ClockFaults);
        let right = self.now + hold + off;
        self.fleet.nodes[node].clock_right_since = right;
        self.trouble_until(node, right + 10 * MINUTE);
        self.events.at(self.now + hold, Event::Repair(node));
    }

    /// A clock is right again: clients crowd, since it may go back.
    pub(super) fn repair_clock(&mut self, node: usize) {
        self.settle(self.fleet.nodes[node].cluster);
        self.fleet.nodes[node].machine.clock.repair(self.now, &mut self.chance);
        self.crowd_around(node);
    }

    pub(super) fn discipline(&mut self, node: usize) {
        if self.fleet.nodes[node].server.is_some() && !self.fleet.nodes[node].is_frozen {
            self.on_server(node, |host, server| server.catch_up_keeper(host));
        }
        self.fleet.nodes[node].machine.clock.discipline(self.now, &mut self.chance);
        self.events.at(self.now + POLL, Event::Discipline(node));
    }

    /// Up to eight primaries of a data center lose their power at once.
    pub(super) fn lose_rack(&mut self, datacenter: u32) {
        self.plan_after(RACK_EVERY, Event::Rack(datacenter));
        let count = 2 + self.chance.index(7);
        let here: Vec<_> = (0..self.fleet.clusters.len())
            .filter(|&cluster| self.fleet.clusters[cluster].datacenter == datacenter)
            .collect();
        for _ in 0..count {
            let cluster = here[self.chance.index(here.len())];
            if self.is_up(cluster) {
                self.settle(cluster);
                self.crowd(cluster);
                self.lose_power(cluster);
            }
        }
    }
}
