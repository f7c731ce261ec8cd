//! Servers start, crash and stop.

use super::Simulation;
use crate::events::Event;
use crate::faults;
use crate::fleet::Role;
use crate::registry_client::{ClientIo, Line};
use crate::server::Server;
use crate::settings::Way;
use crate::tally::Count;
use crate::time::SECOND;
use snowflake_core::issue::forward_jump::ForwardJumpGuard;
use snowflake_core::registry_client::Client;

/// How many writes a start has: WAL, its standbys, the life, the record, and the life again.
const FIRST_WRITES: usize = 5;

impl Simulation {
    /// A server starts, if nothing has happened to its node since that was planned.
    pub(super) fn start(&mut self, node: usize, life: u32) {
        if self.fleet.nodes[node].life == life && self.fleet.nodes[node].role == Role::Primary {
            self.start_server(node, false);
        }
    }

    /// A server starts as a primary, or is promoted.
    pub(super) fn start_server(&mut self, node: usize, was_standby: bool) {
        let way = self.fleet.clusters[self.fleet.nodes[node].cluster].way;
        let wish = self.fleet.wish(node);
        let (offset, worker) = (self.fleet.nodes[node].kept_offset.take(), self.fleet.nodes[node].worker);
        let (mut host, running) = self.fleet.host(node, self.now, &mut self.chance, &self.settings);
        let guard = offset.map_or_else(|| host.new_guard(), |offset| ForwardJumpGuard::new(offset, 0));
        *running.server = Some(Server::new(way, worker, was_standby, guard));
        if way == Way::Leased {
            let server = running.server.as_mut().expect("it has just begun");
            let host = &mut host;
            let mut io = ClientIo { host, server, wish, line: Line::Down, has_claimed: false };
            *running.client = Some(Client::new(&mut io));
        }
        let node_state = &mut self.fleet.nodes[node];
        node_state.life += 1;
        node_state.started = self.now;
        let life = node_state.life;
        if node_state.crashes_left > 0 {
            node_state.crashes_left -= 1;
            let time = self.now + self.chance.log_time(SECOND / 20, 2 * SECOND);
            self.events.at(time, Event::CrashAgain(node, life));
        }
        if way == Way::Leased {
            self.events.at(self.now, Event::Client(node, life));
        }
        self.crowd_around(node);
    }

    /// What is left of a server when it has ended.
    pub(super) fn end_server(&mut self, node: usize) {
        self.end_outage(node);
        let now = self.now;
        let node_state = &mut self.fleet.nodes[node];
        if node_state.server.take().is_none() {
            return;
        }
        node_state.client = None;
        node_state.life += 1;
        node_state.is_frozen = false;
        let (time, waited) = (now - node_state.started, node_state.waits_since.take());
        let tally = self.tally(node);
        tally.server_time += time;
        waited.into_iter().for_each(|since| tally.worker_waits.add(now - since));
    }

    /// A server dies, wherever it is in the extension of its mark.
    pub(super) fn kill(&mut self, node: usize) {
        self.count(node, Count::Crashes);
        let writes = self.chance.happens(0.7).then(|| self.chance.index(FIRST_WRITES));
        self.on_server(node, |host, server| server.die(host, writes));
        self.end_server(node);
    }

    /// A server dies, and is started again.
    pub(super) fn crash(&mut self, node: usize) {
        // Only a backend has crashed: the postmaster lives on.
        if self.chance.happens(0.5) {
            let offset = self.on_server(node, |_, server| server.trusted_offset());
            self.fleet.nodes[node].kept_offset = offset;
        }
        self.kill(node);
        let pause = faults::restart_time(&mut self.chance);
        self.start_in(node, pause);
    }

    /// A server dies again, unless its node is about to be replaced.
    pub(super) fn crash_again(&mut self, node: usize, life: u32) {
        let node_state = &mut self.fleet.nodes[node];
        let cluster = node_state.cluster;
        if node_state.life != life {
            return;
        }
        if node_state.role == Role::Primary && !self.fleet.clusters[cluster].is_failing_over {
            self.settle(cluster);
            self.crash(node);
        } else {
            node_state.crashes_left = 0;
        }
    }

    /// A server is stopped as planned.
    pub(super) fn stop(&mut self, node: usize) {
        self.count(node, Count::Stops);
        self.release_lease(node);
        self.on_server(node, |host, server| server.lower_mark(host));
        self.end_server(node);
    }

    pub(super) fn start_in(&mut self, node: usize, pause: u64) {
        self.events.at(self.now + pause, Event::Start(node, self.fleet.nodes[node].life));
    }
}
