//! Servers ask the registry, which is away at times.

use super::{REGISTRY_OUTAGE_EVERY, REGISTRY_STEP_EVERY, Simulation};
use crate::clock::POLL;
use crate::events::Event;
use crate::faults;
use crate::fleet::{Role, Running};
use crate::registry::{Refusal, Registry};
use crate::registry_client::{ClientIo, Failure, Line};
use crate::server::Cause;
use crate::tally::Count;
use crate::time::{HOUR, MINUTE, Micros, SECOND};
use snowflake_core::registry_client::Client;

/// How often the answer to a request is lost.
const LOST_ANSWERS: f64 = 0.01;

/// After how long somebody restarts a server that has lost its worker.
const OPERATOR: Micros = 5 * MINUTE;

/// The largest error to which the registry's clock is set, in microseconds.
const REGISTRY_STEP_US: i64 = 10 * MINUTE.cast_signed();

/// What gets through to the registry.
fn line<'a>(registry: &'a mut Registry, is_cut_off: bool, is_lost: bool) -> Line<'a> {
    if registry.is_away || is_cut_off {
        Line::Down
    } else if is_lost {
        Line::Lossy(registry)
    } else {
        Line::Up(registry)
    }
}

impl Simulation {
    /// A registry client looks whether something is due.
    pub(super) fn look_at_lease(&mut self, node: usize, life: u32) {
        if self.fleet.nodes[node].life == life && !self.fleet.nodes[node].is_frozen {
            self.ask_if_due(node);
        }
    }

    /// Asks the registry if that is due, as for a call that needs a lease. Returns whether there is a new one.
    pub(super) fn ask_if_due(&mut self, node: usize) -> bool {
        let (now, life) = (self.now, self.fleet.nodes[node].life);
        let asked = self.with_client(node, |client, io| {
            if !client.is_due(io) {
                return None;
            }
            let outcome = client.ask(io);
            if let Some(cause) = outcome.err().map_or(Some(Cause::RegistryAway), Failure::cause) {
                io.server.set_trouble(cause);
            }
            Some((outcome, io.has_claimed, client.next()))
        });
        let Some(Some((outcome, has_claimed, next))) = asked else { return false };
        self.note(node, outcome, has_claimed);
        match next {
            Some(next) => self.events.at((next * 1000).max(now + 1), Event::Client(node, life)),
            None => self.events.at(now + OPERATOR, Event::Operator(node, life)),
        }
        outcome.is_ok()
    }

    /// Does something with a node's registry client, if there is one.
    fn with_client<T>(&mut self, node: usize, work: impl FnOnce(&mut Client, &mut ClientIo) -> T) -> Option<T> {
        let (is_lost, is_cut_off) = (self.chance.happens(LOST_ANSWERS), self.fleet.nodes[node].is_cut_off);
        let wish = self.fleet.wish(node);
        let (mut host, running) = self.fleet.host(node, self.now, &mut self.chance, &self.settings);
        let Running { server: Some(server), client: Some(client) } = running else { return None };
        let (host, line) = (&mut host, line(&mut self.registry, is_cut_off, is_lost));
        Some(work(client, &mut ClientIo { host, server, wish, line, has_claimed: false }))
    }

    fn note(&mut self, node: usize, outcome: Result<(), Failure>, has_claimed: bool) {
        self.count(node, Count::Requests);
        let waits_since = &mut self.fleet.nodes[node].waits_since;
        match outcome {
            Ok(()) if has_claimed => {
                let waited = waits_since.take().map(|since| self.now - since);
                waited.into_iter().for_each(|time| self.tally(node).worker_waits.add(time));
                self.count(node, Count::Claims);
                self.crowd_around(node);
            }
            Ok(()) => self.count(node, Count::Renewals),
            Err(Failure::Away | Failure::Unheard) => self.count(node, Count::Unanswered),
            Err(Failure::Refused(Refusal::NoneFree)) => {
                waits_since.get_or_insert(self.now);
            }
            Err(Failure::Refused(_)) => {}
        }
    }

    /// A server that is stopped as planned gives its lease back.
    pub(super) fn release_lease(&mut self, node: usize) {
        if self.with_client(node, |client, io| client.release(io)).is_some() {
            self.count(node, Count::Requests);
        }
    }

    /// Somebody restarts a server that has lost its worker.
    pub(super) fn restart_superseded(&mut self, node: usize, life: u32) {
        let node_state = &self.fleet.nodes[node];
        if node_state.life == life
            && node_state.role == Role::Primary
            && !self.fleet.clusters[node_state.cluster].is_failing_over
        {
            self.settle(self.fleet.nodes[node].cluster);
            self.count(node, Count::Superseded);
            self.stop(node);
            self.start_in(node, 2 * SECOND);
        }
    }

    pub(super) fn registry_down(&mut self) {
        let time = faults::registry_outage(&mut self.chance);
        self.registry.is_away = true;
        self.registry_outages.0 += 1;
        self.registry_outages.1 += time;
        self.events.at(self.now + time, Event::RegistryUp);
        let next = self.now + time + self.chance.until_next(REGISTRY_OUTAGE_EVERY);
        self.events.at(next, Event::RegistryDown);
    }

    pub(super) fn step_registry(&mut self) {
        let by = self.chance.within(REGISTRY_STEP_US);
        self.registry.clock.set_wrong(self.now, by);
        let time = self.chance.log_time(MINUTE, 2 * HOUR);
        self.events.at(self.now + time, Event::RegistryRepair);
        let next = self.now + time + self.chance.until_next(REGISTRY_STEP_EVERY);
        self.events.at(next, Event::RegistryStep);
    }

    pub(super) fn discipline_registry(&mut self) {
        self.registry.clock.discipline(self.now, &mut self.chance);
        self.events.at(self.now + POLL, Event::RegistryDiscipline);
    }
}
