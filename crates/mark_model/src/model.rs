//! The model, as the model checker wants it.

use crate::names::normalize;
use crate::promises;
use crate::state::{Directory, Image, Life, Memory, SERVERS, SHARED, Server, State, Time};
use crate::step::{Step, advanced, next_setting, steps};
use crate::world::World;
use stateright::{Model, Property};

/// What the clock shows first.
pub const FIRST: Time = 1;

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            now: FIRST,
            servers: [Server::default(); SERVERS],
            directories: [Directory::default(); SERVERS + 1],
            issued: Default::default(),
            lives: 0,
            timelines: 1,
            budget: self.budget,
            broken: Default::default(),
        };
        for (inode, directory) in (1..).zip(&mut state.directories) {
            directory.inode = inode;
        }
        let directory = if self.is_shared { SHARED } else { 0 };
        state.servers[0] = Server { timeline: 1, wal_mark: self.wal_mark, directory, ..Server::default() };
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if !state.broken.uniqueness {
            steps(state, self, actions);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = *last;
        state.happen(step, self);
        normalize(&mut state);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::all(self)
    }
}

impl State {
    pub fn happen(&mut self, step: Step, world: &World) {
        if let Step::Stop { server } | Step::Crash { server } = step
            && world.budget.turns > 0
        {
            self.servers[server].ended = self.now;
        }
        match step {
            Step::Tick => {
                self.now += 1;
                self.servers.iter_mut().for_each(|at| at.has_just_ended = false);
            }
            Step::Begin { server, now, mark } => self.begin(server, now, mark, world),
            Step::Write { server } => self.write(server, world),
            Step::Issue { server, end } => self.issue(server, end, world),
            Step::Extend { server, mark } => self.extend(server, mark, world),
            Step::Fail { server } => {
                self.budget.failures -= 1;
                self.fail(server);
            }
            Step::SkipWal { server } => {
                self.budget.failures -= 1;
                self.skip_wal(server);
            }
            Step::Advance { server } => self.advance(server, advanced(self, world)),
            Step::Lower { server, mark } => self.lower(server, mark),
            Step::Stop { server } => self.stop(server),
            Step::Crash { server } => {
                self.budget.ends -= 1;
                self.end(server);
            }
            Step::Backup { from, to } => self.back_up(from, to),
            Step::SetUp { server } => {
                self.budget.turns -= 1;
                let wal_mark = world.wal_mark;
                self.servers[server] =
                    Server { cluster: 1, timeline: 1, wal_mark, directory: server, ..Server::default() };
            }
            Step::Receive { server } => self.receive(server),
            Step::Promote { server } => self.promote(server),
            Step::Detach { server } => {
                self.budget.promotions -= 1;
                self.supersede(server);
            }
            Step::Image { server } => {
                self.budget.images -= 1;
                let at = &mut self.servers[server];
                let record = self.directories[at.directory].record.filter(|_| at.directory == server);
                at.image = Some(Image { timeline: at.timeline, page: at.page, life: at.life, record });
            }
            Step::PutBack { server, is_own } => self.put_back(server, is_own),
            Step::Rewind { server, to } => self.rewind(server, to),
            Step::SetWorker { server } => self.change(server, |at| at.worker = 1 - at.worker),
            Step::SetLayout { server } => self.change(server, |at| at.layout = 1 - at.layout),
            Step::SetWalMark { server } => self.change(server, |at| at.wal_mark = next_setting(at.wal_mark)),
            Step::SetDirectory { server } => {
                self.change(server, |at| at.directory = if at.directory == SHARED { server } else { SHARED });
            }
        }
    }

    /// The process of a server ends.
    pub fn end(&mut self, server: usize) {
        let at = &mut self.servers[server];
        at.memory = Memory::Down;
        (at.is_promoted, at.is_lowered, at.unfinished) = (false, false, None);
        at.has_just_ended = true;
    }

    fn change(&mut self, server: usize, change: impl FnOnce(&mut Server)) {
        self.budget.changes -= 1;
        let at = &mut self.servers[server];
        at.is_disturbed = true;
        change(at);
    }

    fn back_up(&mut self, from: usize, to: usize) {
        self.budget.backups -= 1;
        let source = self.servers[from];
        let life = source.life.map(|life| Life { is_own: false, ..life });
        let directory = if source.directory == from { to } else { source.directory };
        if directory == to {
            self.directories[to].record = self.directories[from].record;
        }
        self.servers[to] = Server {
            life,
            directory,
            follows: Some(source.follows.unwrap_or(from)),
            is_promoted: false,
            is_superseded: false,
            is_disturbed: true,
            memory: Memory::Down,
            unfinished: None,
            image: None,
            ..source
        };
    }

    fn receive(&mut self, server: usize) {
        let Some(primary) = self.servers[server].follows else { return };
        let Server { page, timeline, .. } = self.servers[primary];
        let at = &mut self.servers[server];
        (at.page, at.timeline) = (page, timeline);
    }

    fn promote(&mut self, server: usize) {
        self.budget.promotions -= 1;
        self.timelines += 1;
        let timeline = self.timelines;
        self.supersede(server);
        let at = &mut self.servers[server];
        (at.timeline, at.is_promoted) = (timeline, true);
    }

    /// A server takes the place of all primaries.
    fn supersede(&mut self, server: usize) {
        for primary in self.primaries().collect::<Vec<_>>() {
            self.servers[primary].is_superseded = true;
            self.servers[server].has_just_ended |= self.servers[primary].has_just_ended;
        }
        self.servers[server].follows = None;
    }

    /// Servers that are no standbys, and have not been superseded.
    pub fn primaries(&self) -> impl Iterator<Item = usize> {
        (0..SERVERS).filter(|&server| {
            let at = &self.servers[server];
            at.timeline > 0 && at.follows.is_none() && !at.is_superseded
        })
    }

    fn put_back(&mut self, server: usize, is_own: bool) {
        let at = &mut self.servers[server];
        let Some(Image { timeline, page, life, record }) = at.image.take() else { return };
        at.is_disturbed = true;
        if record.is_some() {
            self.directories[server].record = record;
        } else {
            (at.timeline, at.page) = (timeline, page);
        }
        at.life = life.map(|life| Life { is_own: life.is_own && is_own, ..life });
    }

    fn rewind(&mut self, server: usize, to: usize) {
        self.budget.rewinds -= 1;
        let source = self.servers[to];
        if source.directory == to && self.servers[server].directory == server {
            self.directories[server].record = self.directories[to].record;
        }
        let at = &mut self.servers[server];
        at.life = source.life.map(|life| Life { is_own: false, ..life });
        (at.page, at.timeline) = (source.page, source.timeline);
        (at.follows, at.is_superseded, at.is_disturbed) = (Some(to), false, true);
    }
}
