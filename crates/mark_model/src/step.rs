//! What can happen.

use crate::server::{allowed, extended};
use crate::state::{Image, Memory, Record, Running, SERVERS, Server, State, Time, WORKERS, WalMark};
use crate::world::{Beyond, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The clock advances.
    Tick,
    /// A server that is down looks for its mark, with this clock, and wants this one; `None` is as the world has it.
    Begin {
        server: usize,
        now: Time,
        mark: Option<Time>,
    },
    /// A server writes what comes next.
    Write {
        server: usize,
    },
    /// A server issues the timestamps below this one; `None` is all that its clock and its mark allow.
    Issue {
        server: usize,
        end: Option<Time>,
    },
    /// A server wants a further mark; `None` is as the world has it.
    Extend {
        server: usize,
        mark: Option<Time>,
    },
    /// A server gives up what it was writing.
    Fail {
        server: usize,
    },
    /// A server cannot write to WAL, and goes on without.
    SkipWal {
        server: usize,
    },
    /// A DBA has a running server begin its IDs later than it may issue them.
    Advance {
        server: usize,
    },
    /// A server lowers the mark that it was writing.
    Lower {
        server: usize,
        mark: Time,
    },
    /// A planned stop.
    Stop {
        server: usize,
    },
    /// A server dies.
    Crash {
        server: usize,
    },
    /// A new server from a base backup of a running or a stopped one, which becomes its primary.
    Backup {
        from: usize,
        to: usize,
    },
    /// A new server with the worker of another one. Each begins only while the other is down.
    SetUp {
        server: usize,
    },
    /// A standby receives WAL.
    Receive {
        server: usize,
    },
    /// A standby of a primary that is down is promoted.
    Promote {
        server: usize,
    },
    /// A copy of a server that is down is made a server of its own. The original does not come back.
    Detach {
        server: usize,
    },
    /// A backup of a data directory is made, and later put back, over the files or in their place. If the state
    /// directory is outside, it stays as it is; otherwise WAL does, and is replayed to its end.
    Image {
        server: usize,
    },
    PutBack {
        server: usize,
        is_own: bool,
    },
    /// pg_rewind makes a superseded primary a standby of this server.
    Rewind {
        server: usize,
        to: usize,
    },
    /// The configuration changes while the server is down.
    SetWorker {
        server: usize,
    },
    SetLayout {
        server: usize,
    },
    SetWalMark {
        server: usize,
    },
    SetDirectory {
        server: usize,
    },
}

/// Everything that can happen next.
pub fn steps(state: &State, world: &World, steps: &mut Vec<Step>) {
    if state.now < world.end {
        steps.push(Step::Tick);
    }
    for server in (0..SERVERS).filter(|&server| state.servers[server].timeline > 0) {
        local(state, world, server, steps);
        of_fleet(state, world, server, steps);
    }
}

fn local(state: &State, world: &World, server: usize, steps: &mut Vec<Step>) {
    let at = &state.servers[server];
    let is_locked = (0..SERVERS).any(|other| {
        let other = &state.servers[other];
        other.directory == at.directory && other.memory != Memory::Down
    }) || !has_turn(state, world, server);
    let may_run = at.follows.is_none() && (!at.is_superseded || world.beyond == Beyond::OldPrimary);
    match at.memory {
        Memory::Down if may_run && !is_locked => begin(state, world, server, steps),
        Memory::Waiting(_) if may_run => begin(state, world, server, steps),
        Memory::Down | Memory::Waiting(_) => {}
        Memory::Starting(start) if state.can_write(server, start.write, start.in_wal, world) => {
            steps.push(Step::Write { server });
        }
        Memory::Starting(_) => {}
        Memory::Running(running) => {
            if running.next < allowed(&running, state, world) {
                steps.push(Step::Issue { server, end: None });
            }
            advance(state, world, server, &running, steps);
            match running.extension {
                Some((_, write)) if state.can_write(server, write, running.in_wal, world) => {
                    steps.push(Step::Write { server });
                }
                Some(_) => {}
                None if extended(&running, state, world) > running.covered => {
                    steps.push(Step::Extend { server, mark: None });
                }
                None => {}
            }
            if running.extension.is_none() && state.budget.ends > 0 {
                steps.push(Step::Stop { server });
            }
        }
    }
    if at.memory != Memory::Down && state.budget.ends > 0 {
        steps.push(Step::Crash { server });
    }
    let is_writing = match at.memory {
        Memory::Starting(_) => true,
        Memory::Running(running) => running.extension.is_some(),
        Memory::Down | Memory::Waiting(_) => false,
    };
    if is_writing && state.budget.failures > 0 {
        steps.push(Step::Fail { server });
        // A standby would not know what WAL does not have.
        if at.wal_mark == WalMark::Prefer && state.budget.backups == 0 {
            steps.push(Step::SkipWal { server });
        }
    }
    if at.memory == Memory::Down && at.follows.is_none() && state.budget.changes > 0 {
        if WORKERS > 1 {
            steps.push(Step::SetWorker { server });
        }
        steps.extend([Step::SetLayout { server }, Step::SetWalMark { server }]);
        // Without its record, it would not know what WAL does not have either, and a wrong clock is no help.
        if !(world.wrong_clocks && world.budget.failures > 0) {
            steps.push(Step::SetDirectory { server });
        }
    }
}

/// Where servers take turns: whether all others are down. A server that has begun before also waits for as long as IDs
/// of the others can be ahead of a right clock; a new one begins above that.
fn has_turn(state: &State, world: &World, server: usize) -> bool {
    let rests = if state.servers[server].ended > 0 { world.margin() } else { 0 };
    let is_over =
        |other: &Server| other.memory == Memory::Down && (other.ended == 0 || state.now > other.ended + rests);
    let mut others = (0..SERVERS).filter(|&other| other != server).map(|other| &state.servers[other]);
    world.budget.turns == 0 || others.all(is_over)
}

/// The mark is extended past the time first.
fn advance(state: &State, world: &World, server: usize, running: &Running, steps: &mut Vec<Step>) {
    let past = advanced(state, world);
    if state.budget.advances == 0 || running.extension.is_some() || running.next > past {
        return;
    }
    if running.covered > past {
        steps.push(Step::Advance { server });
    } else {
        steps.push(Step::Extend { server, mark: Some(past + 1) });
    }
}

/// Where IDs begin after an advance: later than they may be issued.
pub fn advanced(state: &State, world: &World) -> Time {
    state.now + world.borrow + 1
}

fn begin(state: &State, world: &World, server: usize, steps: &mut Vec<Step>) {
    // A start takes longer than a step of the mark (50 ms), by which each start could take IDs further ahead.
    if state.servers[server].has_just_ended && !world.wrong_clocks {
        return;
    }
    let clocks = if world.wrong_clocks { 1..=world.end } else { state.now..=state.now };
    steps.extend(clocks.map(|now| Step::Begin { server, now, mark: None }));
}

fn of_fleet(state: &State, world: &World, server: usize, steps: &mut Vec<Step>) {
    let at = &state.servers[server];
    let free = (0..SERVERS).find(|&to| state.servers[to].timeline == 0);
    if state.budget.turns > 0
        && let Some(server) = free
    {
        steps.push(Step::SetUp { server });
    }
    if state.budget.backups > 0
        && let Some(to) = free
    {
        steps.push(Step::Backup { from: server, to });
    }
    if let Some(primary) = at.follows {
        let primary = &state.servers[primary];
        if (primary.page, primary.timeline) != (at.page, at.timeline) && !primary.is_superseded {
            steps.push(Step::Receive { server });
        }
        if state.budget.promotions > 0 && may_be_promoted(state, world, server) {
            steps.push(Step::Promote { server });
        }
    }
    // The registry knows nothing of what such a copy has not received.
    let may_be_detached = at.follows.is_some() && state.budget.promotions > 0 && !world.is_leased;
    if may_be_detached && may_be_promoted(state, world, server) {
        steps.push(Step::Detach { server });
    }
    let has_begun = at.life.is_some() && state.directories[at.directory].record.is_some();
    if at.image.is_none() && state.budget.images > 0 && has_begun {
        steps.push(Step::Image { server });
    }
    if let Some(image) = at.image
        && at.memory == Memory::Down
    {
        let ways = [true, false].into_iter().filter(|_| may_be_put_back(at, &image));
        steps.extend(ways.map(|is_own| Step::PutBack { server, is_own }));
    }
    if at.is_superseded && state.budget.rewinds > 0 {
        let primaries = (0..SERVERS).filter(|&to| {
            let to = &state.servers[to];
            to.timeline > at.timeline && to.follows.is_none() && !to.is_superseded
        });
        steps.extend(primaries.map(|to| Step::Rewind { server, to }));
    }
}

/// Whether something stays by which an old state is known: a state directory outside, or WAL.
fn may_be_put_back(at: &Server, image: &Image) -> bool {
    // Recovery ends on the backup's timeline.
    let is_known = |record: Record| record.logged > 0 && image.timeline == at.timeline;
    image.record.is_none_or(is_known)
}

/// Whether each primary is down, and what it has issued is covered: by WAL, or by the margin if clocks are right.
fn may_be_promoted(state: &State, world: &World, server: usize) -> bool {
    let at = &state.servers[server];
    let Some(primary) = at.follows else { return false };
    let primary = &state.servers[primary];
    let is_covered = at.page == primary.page
        || !world.wrong_clocks
        || primary.wal_mark == WalMark::Require
        || world.beyond == Beyond::LostWithWrongClock;
    let are_down = state.primaries().all(|other| state.servers[other].memory == Memory::Down);
    are_down && is_covered || world.beyond == Beyond::OldPrimary
}

/// The setting after this one.
pub fn next_setting(wal_mark: WalMark) -> WalMark {
    match wal_mark {
        WalMark::Off | WalMark::Require => WalMark::Prefer,
        WalMark::Prefer => WalMark::Off,
    }
}
