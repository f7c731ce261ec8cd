//! What can happen next.

use crate::registry::{At, Choice};
use crate::rules::Rule;
use crate::state::{Memory, Request, Server, State, Time};
use crate::world::{Beyond, World};

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The registry's clock moves on.
    Tick,
    /// A server asks the registry for what it needs next.
    Call { server: usize, choice: Choice, fate: Fate },
    /// A request that was late arrives. Nobody hears the answer.
    Arrive { late: usize, choice: Choice },
    /// A server starts while the registry is away, and continues with the lease in its file.
    GoOn { server: usize },
    /// A server extends its mark, and issues everything below it. Whoever issues less has less to repeat.
    Issue { server: usize, mark: Time },
    /// A server writes late what a rule wants to be written before.
    Write { server: usize },
    /// A planned stop begins.
    Stop { server: usize },
    /// A server comes to an end: by kill -9, or since its planned stop is through.
    Kill { server: usize },
    /// A machine boots.
    Boot { server: usize },
    /// An image is made of a disk.
    Image { server: usize },
    /// The image is put on a machine, whose server is down.
    PutImage { server: usize, way: Way },
    /// A running server is cloned with its memory.
    Clone { from: usize, to: usize },
    /// A state of the registry is kept, as a backup or a standby that is behind.
    Backup,
    /// The registry comes back in that state.
    Restore,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server gets the answer. A request that is lost is one that was not sent.
    Answered,
    /// The answer is lost.
    AnswerLost,
    /// The request arrives later than the server knows; it asks again meanwhile.
    Late,
}

/// How an image is put on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As blocks, in another boot.
    OtherBoot,
    /// File by file, so that they get other inodes.
    Files,
    /// As blocks, in the same boot.
    SameBoot,
}

/// Everything that can happen next.
pub fn steps(state: &State, world: &World, steps: &mut Vec<Step>) {
    if state.now < world.end {
        steps.push(Step::Tick);
    }
    for server in 0..world.servers {
        calls(state, world, server, steps);
        local(&state.servers[server], world, server, steps);
        images(state, world, server, steps);
    }
    for (late, request) in state.late.iter().enumerate() {
        let choices = request.iter().flat_map(|request| At::new(state, world).choices(request));
        steps.extend(choices.map(|choice| Step::Arrive { late, choice }));
    }
    if state.restores_left > 0 {
        steps.push(if state.backup.is_none() { Step::Backup } else { Step::Restore });
    }
}

fn calls(state: &State, world: &World, server: usize, steps: &mut Vec<Step>) {
    let Some(request) = state.servers[server].request(world) else { return };
    let choices = At::new(state, world).choices(&request);
    let call = |fate| move |&choice: &Choice| Step::Call { server, choice, fate };
    steps.extend(choices.iter().map(call(Fate::Answered)));
    if !matches!(request, Request::Release { .. }) {
        steps.extend(choices.iter().map(call(Fate::AnswerLost)));
    }
    let room = state.late_count() < world.late;
    let takes_early = !world.off.keeps(Rule::LimitAfterAnswer);
    if room || takes_early {
        let many = if takes_early { choices.len() } else { 1 };
        let unchosen = [Choice::default()];
        let choices = if choices.is_empty() { &unchosen[..] } else { &choices[..many] };
        steps.extend(choices.iter().map(call(Fate::Late)));
    }
}

fn local(at: &Server, world: &World, server: usize, steps: &mut Vec<Step>) {
    let Memory { lease, is_stopping, .. } = at.memory;
    if world.alone && lease.is_none() && !at.memory.is_refused && at.usable_lease(world).is_some() {
        steps.push(Step::GoOn { server });
    }
    steps.extend(at.marks(world).map(|mark| Step::Issue { server, mark }));
    if lease.is_some() && !is_stopping {
        steps.push(Step::Stop { server });
    }
    if at.memory != Memory::default() {
        steps.push(Step::Kill { server });
    }
    if lease.is_some() && at.caught_up(world) != *at {
        steps.push(Step::Write { server });
    }
}

fn images(state: &State, world: &World, server: usize, steps: &mut Vec<Step>) {
    let at = &state.servers[server];
    let is_down = at.memory == Memory::default();
    if world.images > 0 && at.disk.in_other_boot() != at.disk {
        steps.push(Step::Boot { server });
    }
    if let Some(image) = state.image.filter(|_| is_down) {
        steps.extend([Way::OtherBoot, Way::Files].map(|way| Step::PutImage { server, way }));
        let is_noticed = world.beyond == Beyond::RolledBackPastRenewal && image.is_superseded;
        if image.server == server && (world.beyond == Beyond::RolledBackDisk || is_noticed) {
            steps.push(Step::PutImage { server, way: Way::SameBoot });
        }
    }
    if state.image.is_none() && state.images_left > 0 && at.disk.mark.is_some() {
        steps.push(Step::Image { server });
    }
    if world.beyond == Beyond::ClonedMemory && !is_down {
        let others = (0..world.servers).filter(|&to| state.servers[to] == Server::default());
        steps.extend(others.map(|to| Step::Clone { from: server, to }));
    }
}
