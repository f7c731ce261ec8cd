//! Lets time go by, from one event to the next.

use crate::chance::Chance;
use crate::clock::{Clock, POLL};
use crate::events::{Event, Events};
use crate::fleet::{Fleet, Node, Role};
use crate::ledger::Ledger;
use crate::machine::Host;
use crate::registry::Registry;
use crate::server::{Issued, Server};
use crate::settings::{Settings, layout};
use crate::tally::{Count, Tally};
use crate::time::{BEGIN, DAY, MINUTE, Micros};

mod calls;
mod failovers;
mod leases;
mod servers;
mod trouble;

/// How often the registry goes away, on average.
const REGISTRY_OUTAGE_EVERY: Micros = 3 * DAY;
/// How often its clock is set wrong.
const REGISTRY_STEP_EVERY: Micros = 5 * DAY;
/// How often a data center loses several machines at once.
const RACK_EVERY: Micros = 3 * DAY;

/// What a simulation has shown.
#[derive(Debug)]
pub struct Findings {
    /// What was simulated.
    pub settings: Settings,
    /// The tallies of each way to assign workers.
    pub tallies: [Tally; 3],
    /// How many times the registry went away, and for how long together.
    pub registry_outages: (u64, Micros),
}

impl Findings {
    /// The tally of all ways together.
    pub fn all(&self) -> Tally {
        let mut all = Tally::default();
        self.tallies.iter().for_each(|tally| all.merge(tally));
        all
    }

    /// IDs that were received before.
    pub fn duplicates(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.audit.duplicates).sum()
    }
}

/// A simulation at a moment of true time.
#[derive(Debug)]
pub struct Simulation {
    settings: Settings,
    now: Micros,
    chance: Chance,
    events: Events,
    fleet: Fleet,
    registry: Registry,
    registry_outages: (u64, Micros),
    ledger: Ledger,
    tallies: [Tally; 3],
    /// What one call has got, before it is entered in the ledger.
    issued: Vec<Issued>,
}

impl Simulation {
    /// The fleet at the beginning.
    pub fn new(settings: Settings) -> Self {
        let mut chance = Chance::new(settings.seed);
        let fleet = Fleet::new(&settings, &mut chance);
        let registry = Registry::new(Clock::new(BEGIN, &mut chance), settings);
        let mut simulation = Self {
            settings,
            now: BEGIN,
            chance,
            events: Events::default(),
            fleet,
            registry,
            registry_outages: (0, 0),
            ledger: Ledger::new(layout(), BEGIN / 1000),
            tallies: Default::default(),
            issued: Vec::new(),
        };
        simulation.plan();
        simulation
    }

    /// Enters what comes by itself.
    fn plan(&mut self) {
        for node in 0..self.fleet.nodes.len() {
            let first = self.now + self.chance.between(0, POLL);
            self.events.at(first, Event::Discipline(node));
        }
        for cluster in 0..self.fleet.clusters.len() {
            let (number, first) = (self.fleet.clusters[cluster].primary(), self.now + self.chance.between(0, MINUTE));
            self.events.at(first, Event::Start(number, 0));
            self.plan_fault(cluster);
        }
        for datacenter in 0..self.settings.datacenters.iter().sum() {
            self.plan_after(RACK_EVERY, Event::Rack(datacenter));
        }
        self.plan_after(REGISTRY_OUTAGE_EVERY, Event::RegistryDown);
        self.plan_after(REGISTRY_STEP_EVERY, Event::RegistryStep);
        self.events.at(self.now + POLL, Event::RegistryDiscipline);
    }

    /// Enters an event that comes at random, so often on average.
    fn plan_after(&mut self, mean: Micros, event: Event) {
        let time = self.now + self.chance.until_next(mean);
        self.events.at(time, event);
    }

    /// Lets the whole time go by.
    pub fn run(mut self) -> Findings {
        let end = BEGIN + Micros::from(self.settings.days) * DAY;
        while let Some((now, event)) = self.events.pop()
            && now < end
        {
            self.now = now;
            self.happen(event);
        }
        self.now = end;
        let is_forgotten = |node: &Node| node.role == Role::Former && node.server.is_none();
        assert!(!self.fleet.nodes.iter().any(is_forgotten), "a node never comes back");
        (0..self.fleet.nodes.len()).for_each(|node| self.end_server(node));
        self.audit();
        Findings { settings: self.settings, tallies: self.tallies, registry_outages: self.registry_outages }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call(node, number) => self.call(node, number),
            Event::Client(node, life) => self.look_at_lease(node, life),
            Event::Discipline(node) => self.discipline(node),
            Event::Crowd(cluster) => self.crowd(cluster),
            Event::Fault(cluster) => self.fault(cluster),
            Event::Start(node, life) => self.start(node, life),
            Event::CrashAgain(node, life) => self.crash_again(node, life),
            Event::Promote(cluster) => self.promote(cluster),
            Event::Thaw(node, life) => self.thaw(node, life),
            Event::Fence(node, life) => self.fence(node, life),
            Event::Rejoin(node) => self.rejoin(node),
            Event::Operator(node, life) => self.restart_superseded(node, life),
            Event::Repair(node) => self.repair_clock(node),
            Event::Rack(datacenter) => self.lose_rack(datacenter),
            Event::RegistryDown => self.registry_down(),
            Event::RegistryUp => self.registry.is_away = false,
            Event::RegistryStep => self.step_registry(),
            Event::RegistryRepair => self.registry.clock.repair(self.now, &mut self.chance),
            Event::RegistryDiscipline => self.discipline_registry(),
        }
    }

    /// Does something with a node's server, if it runs.
    fn on_server<T>(&mut self, node: usize, work: impl FnOnce(&mut Host, &mut Server) -> T) -> Option<T> {
        let (mut host, running) = self.fleet.host(node, self.now, &mut self.chance, &self.settings);
        running.server.as_mut().map(|server| work(&mut host, server))
    }

    /// Makes up for the keepers of a cluster, before anything but a call happens to it.
    fn settle(&mut self, cluster: usize) {
        for node in self.fleet.clusters[cluster].nodes() {
            if !self.fleet.nodes[node].is_frozen {
                self.on_server(node, |host, server| server.catch_up_keeper(host));
            }
        }
    }

    fn tally(&mut self, node: usize) -> &mut Tally {
        let way = self.fleet.clusters[self.fleet.nodes[node].cluster].way;
        &mut self.tallies[way as usize]
    }

    fn count(&mut self, node: usize, what: Count) {
        self.tally(node).count(what);
    }

    /// Looks for IDs that came twice.
    fn audit(&mut self) {
        for cluster in &self.fleet.clusters {
            self.tallies[cluster.way as usize].count(Count::Servers);
        }
        let mut datacenter = 0;
        for (tally, count) in self.tallies.iter_mut().zip(self.settings.datacenters) {
            for _ in 0..count {
                let audited = self.ledger.audit(datacenter);
                tally.audit.received += audited.received;
                tally.audit.duplicates += audited.duplicates;
                tally.audit.workers += audited.workers;
                datacenter += 1;
            }
        }
    }
}
