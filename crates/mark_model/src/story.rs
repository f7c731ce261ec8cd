//! Tells what happened in sentences.

use crate::found::Found;
use crate::server::{allowed, extended};
use crate::state::{Memory, State, Time, WalMark, Write};
use crate::step::{Step, advanced, next_setting};
use crate::world::World;
use model_explorer::Told;

impl Told for World {
    fn tell(&self, state: &State, step: Step) -> String {
        match step {
            Step::Tick => format!("The clock shows {}.", state.now + 1),
            Step::Begin { server, now, .. } => begins(state, server, now, self),
            Step::Write { server } => writes(state, server),
            Step::Issue { server, .. } => issues(state, server, self),
            Step::Extend { server, .. } => {
                let Memory::Running(running) = state.servers[server].memory else { return String::new() };
                format!("{} wants a mark of {}.", name(server), extended(&running, state, self))
            }
            Step::Fail { server } => format!("{} fails to write, and gives up.", name(server)),
            Step::SkipWal { server } => format!("{} cannot write to WAL, and goes on.", name(server)),
            Step::Advance { server } => format!("IDs of {} begin at {} or later.", name(server), advanced(state, self)),
            Step::Lower { server, mark } => format!("{} lowers the mark to {mark}.", name(server)),
            Step::Stop { server } => format!("{} is stopped.", name(server)),
            Step::Crash { server } => format!("{} crashes.", name(server)),
            Step::Backup { from, to } => format!("{} is made from a base backup of {}.", name(to), name(from)),
            Step::SetUp { server } => format!("{} is set up, a server of its own with the same worker.", name(server)),
            Step::Receive { server } => format!("{} receives the WAL of its primary.", name(server)),
            Step::Promote { server } => format!("{} is promoted.", name(server)),
            Step::Detach { server } => format!("{}, a copy, is made a server of its own.", name(server)),
            Step::Image { server } => format!("A backup of the data directory of {} is made.", name(server)),
            Step::PutBack { server, is_own: true } => format!("It is put back over the files of {}.", name(server)),
            Step::PutBack { server, .. } => format!("It is put back in the place of {}'s files.", name(server)),
            Step::Rewind { server, to } => format!("pg_rewind makes {} a standby of {}.", name(server), name(to)),
            Step::SetWorker { server } => {
                format!("The worker of {} becomes {}.", name(server), 1 - state.servers[server].worker)
            }
            Step::SetLayout { server } => format!("The layout of {} is changed.", name(server)),
            Step::SetWalMark { server } => {
                let setting = match next_setting(state.servers[server].wal_mark) {
                    WalMark::Off => "off",
                    WalMark::Prefer => "prefer",
                    WalMark::Require => "require",
                };
                format!("wal_mark of {} becomes {setting}.", name(server))
            }
            Step::SetDirectory { server } => format!("The state_directory of {} is changed.", name(server)),
        }
    }
}

fn name(server: usize) -> &'static str {
    ["A", "B", "C"][server]
}

fn begins(state: &State, server: usize, now: Time, world: &World) -> String {
    let name = name(server);
    match Found::new(state, server, now, world).decide() {
        Ok(point) => format!("{name} starts at {now} and finds {:?}: from {}.", point.reason, point.floor),
        Err(conflict) => format!("{name} starts at {now} and is refused: {conflict:?}."),
    }
}

fn writes(state: &State, server: usize) -> String {
    let name = name(server);
    let (mark, write) = match state.servers[server].memory {
        Memory::Starting(start) => (start.mark, start.write),
        Memory::Running(running) => running.extension.unwrap_or((0, Write::Publish)),
        Memory::Down | Memory::Waiting(_) => return String::new(),
    };
    match write {
        Write::Wal => format!("{name} writes {mark} to WAL."),
        Write::Record => format!("{name} writes {mark} to its record."),
        Write::Life(_) => format!("{name} writes its life."),
        Write::Disown => format!("{name} writes to WAL that it has no marks there."),
        Write::Standby => format!("A standby of {name} has the mark, or need not."),
        Write::Publish => format!("{name} may issue what is below {mark}."),
    }
}

fn issues(state: &State, server: usize, world: &World) -> String {
    let Memory::Running(running) = state.servers[server].memory else { return String::new() };
    let end = allowed(&running, state, world);
    format!("{} issues {} to {} of worker {}.", name(server), running.next, end - 1, state.servers[server].worker)
}
