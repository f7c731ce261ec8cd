//! Tells what happened in sentences.

use crate::model::served;
use crate::registry::Answer;
use crate::state::{Memory, Request, Server, State};
use crate::step::{Fate, Step, Way};
use crate::world::{Beyond, World};
use model_explorer::Told;

impl Told for World {
    fn tell(&self, state: &State, step: Step) -> String {
        sentence(state, step, self)
    }
}

fn name(server: usize) -> &'static str {
    ["A", "B", "C"][server]
}

fn sentence(state: &State, step: Step, world: &World) -> String {
    match step {
        Step::Tick => format!("The registry's clock shows {}.", state.now + 1),
        Step::Call { server, choice, fate } => {
            let at = &state.servers[server];
            let request = at.request(world).expect("a request");
            let asks = format!("{} {}", name(server), asks(&request));
            let answer = answers(served(state, &request, choice, world));
            match fate {
                Fate::Answered => format!("{asks}: {answer}."),
                Fate::AnswerLost => format!("{asks}: {answer}. The answer is lost."),
                Fate::Late => format!("{asks}. The request will be late; {} goes on without an answer.", name(server)),
            }
        }
        Step::Arrive { late, choice } => {
            let request = state.late[late].expect("a request");
            let answer = answers(served(state, &request, choice, world));
            format!("A late request arrives, which {}: {answer}. Nobody hears it.", asks(&request))
        }
        Step::Issue { server, mark } => {
            let Memory { next, lease, .. } = state.servers[server].memory;
            let worker = lease.map_or(0, |lease| lease.worker);
            format!("{} issues {next} to {} of worker {worker}.", name(server), mark - 1)
        }
        Step::PutImage { server, way } => {
            let way = match way {
                Way::OtherBoot => "as blocks, in another boot",
                Way::Files => "file by file",
                Way::SameBoot => "as blocks, in the same boot",
            };
            format!("The image is put in the place of {}'s disk {way}.", name(server))
        }
        Step::Clone { from, to } => format!("{} is cloned with its memory: the clone is {}.", name(from), name(to)),
        Step::Restore if world.beyond == Beyond::SplitRegistry => {
            "Servers reach the other primary of the registry.".to_owned()
        }
        Step::Backup => "The registry's state is kept.".to_owned(),
        Step::Restore => "The registry comes back in the state that was kept.".to_owned(),
        Step::GoOn { server }
        | Step::Write { server }
        | Step::Stop { server }
        | Step::Kill { server }
        | Step::Boot { server }
        | Step::Image { server } => does(step, server, &state.servers[server]),
    }
}

fn does(step: Step, server: usize, at: &Server) -> String {
    let name = name(server);
    match step {
        Step::GoOn { .. } => {
            let grant = at.disk.file.map_or(0, |file| file.lease.grant);
            format!("{name} starts while the registry is away, and goes on with its grant until {grant}.")
        }
        Step::Write { .. } => format!("{name} writes its files."),
        Step::Stop { .. } => format!("{name} begins a planned stop at {}.", at.memory.next),
        Step::Kill { .. } if at.memory.is_stopping => format!("{name} has stopped."),
        Step::Kill { .. } => format!("{name} is killed."),
        Step::Boot { .. } => format!("The machine of {name} boots."),
        _ => format!("An image is made of {name}'s disk."),
    }
}

fn asks(request: &Request) -> String {
    match request {
        Request::Claim { .. } => "claims a worker".to_owned(),
        Request::Renew { held, .. } => format!("renews worker {}, held until {}", held.worker, held.grant),
        Request::Release { held, lowered, .. } => {
            format!("releases worker {} from {lowered}, held until {}", held.worker, held.grant)
        }
    }
}

fn answers(answer: Answer) -> String {
    match answer {
        Answer::Claimed { worker, begins, granted } => format!("gets worker {worker} from {begins} until {granted}"),
        Answer::Renewed { granted } => format!("until {granted}"),
        Answer::Refused { must_stop: false } => "refused".to_owned(),
        Answer::Refused { must_stop: true } => "refused, since another server was given the worker".to_owned(),
        Answer::Released { counts: true } => "done".to_owned(),
        Answer::Released { counts: false } => "not its holder".to_owned(),
    }
}
