//! The model, as the model checker wants it, and what must hold.

use crate::promises::FIRST;
use crate::registry::{Answer, At, Choice};
use crate::rules::Rule;
use crate::server::FRESH;
use crate::state::{Image, LeaseFile, Mark, Memory, Request, SERVERS, Server, State, Time, Worker};
use crate::step::{Fate, Step, Way, steps};
use crate::tokens::normalize;
use crate::world::{Beyond, World};
use stateright::{Model, Property};

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State { now: FIRST, restores_left: self.restores, images_left: self.images, ..State::default() }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if !state.broken.uniqueness {
            steps(state, self, actions);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = *last;
        state.happen(step, self);
        reduce(&mut state, self);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        crate::promises::all(self)
    }
}

/// Makes one state of all from which the same can follow.
pub fn reduce(state: &mut State, world: &World) {
    normalize(state, world);
    if !world.forgets {
        return;
    }
    loop {
        let last = *state;
        state.forget(world);
        if *state == last {
            return;
        }
        normalize(state, world);
    }
}

/// What the registry would answer.
pub fn served(state: &State, request: &Request, choice: Choice, world: &World) -> Answer {
    At::new(state, world).serve(request, choice)
}

impl State {
    fn happen(&mut self, step: Step, world: &World) {
        match step {
            Step::Tick => self.now += 1,
            Step::Call { server, choice, fate } => self.call(server, choice, fate, world),
            Step::Arrive { late, choice } => {
                let request = self.late[late].take().expect("a request that is late");
                self.serve(&request, choice, world);
            }
            Step::GoOn { server } => self.start(server, |at| at.go_on(world)),
            Step::Issue { server, mark } => self.issue(server, mark, world),
            Step::Write { server } => self.servers[server] = self.servers[server].caught_up(world),
            Step::Stop { server } => self.servers[server].stop(world),
            Step::Kill { server } => self.servers[server].memory = Memory::default(),
            Step::Boot { server } => {
                let disk = self.servers[server].disk.in_other_boot();
                self.servers[server] = Server { disk, memory: Memory::default(), ..self.servers[server] };
            }
            Step::Image { server } => self.make_image(server, world),
            Step::PutImage { server, way } => self.put_image(server, way),
            Step::Clone { from, to } => self.servers[to] = self.servers[from],
            Step::Backup => self.backup = Some(self.registry),
            Step::Restore => self.restore(world),
        }
    }

    fn make_image(&mut self, server: usize, world: &World) {
        let disk = self.servers[server].disk;
        let server = if world.is_symmetric { 0 } else { server };
        self.image = Some(Image { disk, server, is_superseded: false });
        self.images_left -= 1;
    }

    fn put_image(&mut self, server: usize, way: Way) {
        let Image { disk, .. } = self.image.take().expect("an image");
        self.servers[server].disk = match way {
            Way::OtherBoot => disk.in_other_boot(),
            Way::Files => disk.copied(),
            Way::SameBoot => disk,
        };
    }

    fn restore(&mut self, world: &World) {
        let former = self.registry;
        let backup = self.backup.take().expect("a backup");
        self.restores_left -= 1;
        // After the failover, servers reach the one primary or the other. Each sees its own timeline.
        let has_failed_over = former.restored_at.or(backup.restored_at).is_some();
        let is_split = world.beyond == Beyond::SplitRegistry;
        if world.beyond == Beyond::UnnoticedRestore || is_split && has_failed_over {
            self.registry = backup;
        } else {
            let mut at = At::new(self, world);
            at.restore(backup);
            self.registry = at.registry;
        }
        if is_split {
            self.backup = Some(former);
        }
        self.forget_answers();
    }

    fn call(&mut self, server: usize, choice: Choice, fate: Fate, world: &World) {
        let request = self.servers[server].request(world).expect("a server that needs something");
        if fate == Fate::Late {
            self.late_call(server, &request, choice, world);
            return;
        }
        let answer = self.serve(&request, choice, world);
        match fate {
            Fate::Answered => {
                let is_answered = self.registry.restored_at.is_some();
                self.start(server, |at| at.take(&request, answer, is_answered, world));
            }
            _ => self.servers[server].wait_for(&request, world),
        }
    }

    fn late_call(&mut self, server: usize, request: &Request, choice: Choice, world: &World) {
        let at = &mut self.servers[server];
        at.wait_for(request, world);
        if let Some(lease) = &mut at.memory.lease
            && !world.off.keeps(Rule::LimitAfterAnswer)
        {
            lease.grant = lease.grant.max(choice.until);
        }
        if self.late_count() < world.late
            && let Some(room) = self.late.iter_mut().find(|late| late.is_none())
        {
            *room = Some(request.without_beginning());
        }
    }

    /// Lets the registry serve a request. Checks of a new lease that it begins above what others can still issue.
    fn serve(&mut self, request: &Request, choice: Choice, world: &World) -> Answer {
        let mut at = At::new(self, world);
        let answer = at.serve(request, choice);
        if at.registry == self.registry {
            return answer;
        }
        self.registry = at.registry;
        match answer {
            Answer::Claimed { worker, begins, granted } => {
                self.broken.i3 |= begins < self.can_be_issued(worker, world);
                self.commit(worker, granted, request);
            }
            Answer::Renewed { granted } => self.commit(choice.worker, granted, request),
            Answer::Refused { .. } | Answer::Released { .. } => {}
        }
        answer
    }

    fn commit(&mut self, worker: Worker, granted: Time, request: &Request) {
        let committed = &mut self.committed[usize::from(worker)];
        *committed = granted.max(*committed);
        let (Request::Claim { new, .. } | Request::Renew { new, .. } | Request::Release { new, .. }) = request;
        if let Some(image) = &mut self.image {
            let is_other = |file: LeaseFile| file.lease.worker == worker && !file.lease.tokens.contains(new);
            image.is_superseded |= image.disk.file.is_some_and(is_other);
        }
    }

    /// The end of all timestamps of a worker that were issued, or can be without asking the registry.
    fn can_be_issued(&self, worker: Worker, world: &World) -> Time {
        let issued = u16::BITS - self.issued[usize::from(worker)].leading_zeros();
        let at_start = |at: &Server| at.usable_lease(world).filter(|_| world.alone);
        let held = self.servers.iter().flat_map(|at| [at.memory.lease, at_start(at)]).flatten();
        let held = held.filter(|lease| lease.worker == worker).map(|lease| lease.grant);
        held.fold(Time::try_from(issued).expect("few bits"), Time::max)
    }

    /// Lets a server do what may put a lease in force, and checks where it begins.
    fn start(&mut self, server: usize, act: impl FnOnce(&mut Server)) {
        let at = &mut self.servers[server];
        let (was_in_force, read) = (at.memory.lease.is_some(), at.disk);
        act(at);
        if let Some(lease) = at.memory.lease.filter(|_| !was_in_force) {
            self.broken.i2 |= read.mark_of(lease.worker).is_some_and(|mark| at.memory.next < mark);
        }
    }

    fn issue(&mut self, server: usize, mark: Time, world: &World) {
        let at = &mut self.servers[server];
        let Memory { lease: Some(lease), next, .. } = at.memory else { return };
        if world.off.keeps(Rule::MarkBeforeIds) {
            at.disk.mark = Some(Mark { worker: lease.worker, until: mark });
        }
        at.memory.next = mark;
        self.broken.i4 |= at.is_told;
        let worker = usize::from(lease.worker);
        let new = (1_u16 << mark) - (1_u16 << next);
        self.broken.uniqueness |= self.issued[worker] & new != 0;
        self.broken.i1 |= at.disk.mark_of(lease.worker).is_none_or(|durable| mark > durable);
        self.broken.i3 |= mark > self.committed[worker];
        self.issued[worker] |= new;
    }
}

impl Request {
    /// As the registry sees it.
    fn without_beginning(mut self) -> Self {
        if let Self::Renew { held, .. } | Self::Release { held, .. } = &mut self {
            held.begins = 0;
        }
        self
    }
}

const _: () = assert!(FRESH > 27 && SERVERS == 3, "room for all tokens of a state");
