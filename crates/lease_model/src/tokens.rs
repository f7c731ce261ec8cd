//! Numbers tokens anew after each step. Only whether two are equal matters, so states that differ in their numbers
//! alone are one; a token that nothing can be compared with any more is none.

use crate::rules::{Off, Rule};
use crate::server::FRESH;
use crate::state::{Lease, Registry, Request, Server, State, Token};
use crate::world::World;

const COUNT: usize = FRESH as usize + 1;

/// What a token is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It is in a row.
    Row,
    /// It is to be written to a row, and compared with the row if it is written already.
    New,
    /// It is presented to be compared with a row.
    Presented,
}

/// Makes one state of all that do the same.
pub fn normalize(state: &mut State, world: &World) {
    if world.is_symmetric {
        state.servers[..world.servers].sort_by_key(without_tokens);
    }
    state.late.sort_by_key(|request| request.map(tokenless));
    let mut counts = [[0_u8; 3]; COUNT];
    each(state, &mut |token, role| counts[usize::from(*token)][role as usize] += 1);
    // Without these rules, a token that is presented may come into a row, or the other way round.
    let needed = [Rule::NewTokenWithRenewal, Rule::NewTokenWithRelease, Rule::LeaseFileBeforeRelease];
    let stays = needed.iter().any(|&rule| !world.off.keeps(rule));
    let can_be_in_row = if world.off == Off::NOTHING { tokens_of_rows(state, world) } else { [true; COUNT] };
    let (mut names, mut last) = ([0; COUNT], 0);
    each(state, &mut |token, _| {
        let at = usize::from(*token);
        let [rows, new, presented] = counts[at];
        let is_compared = stays || rows + new > 0 && presented > 0 || rows + new > 1 && new > 0;
        let is_compared = is_compared && can_be_in_row[at];
        if at > 0 && is_compared && names[at] == 0 {
            last += 1;
            names[at] = last;
        }
        *token = names[at];
    });
}

/// The tokens that are in a row, or can come into one.
fn tokens_of_rows(state: &State, world: &World) -> [bool; COUNT] {
    let mut can_be_in_row = [false; COUNT];
    let registries = [Some(state.registry), state.backup];
    let rows = registries.into_iter().flatten().flat_map(|registry| registry.rows).flatten();
    rows.for_each(|row| can_be_in_row[usize::from(row.token)] = true);
    let by_receipt = state.restores_left > 0 || state.registry.takes_receipts(world);
    // A renewal or a release writes its new token over one that is in the row.
    let mut changes: Vec<(Lease, Token)> = Vec::new();
    for server in &state.servers {
        let leases = [server.memory.lease, server.disk.file.map(|file| file.lease)].into_iter().flatten();
        changes.extend(leases.clone().map(|lease| (lease, lease.tokens[1])));
        match server.memory.lease {
            Some(lease) => changes.push((lease, server.memory.pending)),
            None => can_be_in_row[usize::from(server.memory.pending)] = true,
        }
    }
    changes.extend(state.image.and_then(|image| image.disk.file).map(|file| (file.lease, file.lease.tokens[1])));
    for request in state.late.iter().flatten() {
        match *request {
            Request::Claim { new, .. } => can_be_in_row[usize::from(new)] = true,
            Request::Renew { held, new } | Request::Release { held, new, .. } => changes.push((held, new)),
        }
    }
    can_be_in_row[0] = false;
    loop {
        let last = can_be_in_row;
        for (held, new) in &changes {
            let is_presented = held.tokens.iter().any(|&token| can_be_in_row[usize::from(token)]);
            can_be_in_row[usize::from(*new)] |= *new > 0 && (is_presented || by_receipt && held.has_receipt);
        }
        if can_be_in_row == last {
            return can_be_in_row;
        }
    }
}

fn each(state: &mut State, visit: &mut impl FnMut(&mut Token, Role)) {
    of_registry(&mut state.registry, visit);
    if let Some(backup) = &mut state.backup {
        of_registry(backup, visit);
    }
    for server in &mut state.servers {
        of_server(server, visit);
    }
    if let Some(file) = state.image.as_mut().and_then(|image| image.disk.file.as_mut()) {
        of_lease(&mut file.lease, visit);
    }
    for request in state.late.iter_mut().flatten() {
        of_request(request, visit);
    }
}

fn of_registry(registry: &mut Registry, visit: &mut impl FnMut(&mut Token, Role)) {
    for row in registry.rows.iter_mut().flatten() {
        visit(&mut row.token, Role::Row);
    }
}

fn of_lease(lease: &mut Lease, visit: &mut impl FnMut(&mut Token, Role)) {
    for token in &mut lease.tokens {
        visit(token, Role::Presented);
    }
}

fn of_server(server: &mut Server, visit: &mut impl FnMut(&mut Token, Role)) {
    if let Some(file) = &mut server.disk.file {
        of_lease(&mut file.lease, visit);
    }
    if let Some(lease) = &mut server.memory.lease {
        of_lease(lease, visit);
    }
    visit(&mut server.memory.pending, Role::New);
}

fn of_request(request: &mut Request, visit: &mut impl FnMut(&mut Token, Role)) {
    match request {
        Request::Claim { presented, new } => {
            presented.iter_mut().for_each(|token| visit(token, Role::Presented));
            visit(new, Role::New);
        }
        Request::Renew { held, new } | Request::Release { held, new, .. } => {
            of_lease(held, visit);
            visit(new, Role::New);
        }
    }
}

fn without_tokens(server: &Server) -> Server {
    let mut server = *server;
    of_server(&mut server, &mut |token, _| *token = 0);
    server
}

fn tokenless(mut request: Request) -> Request {
    of_request(&mut request, &mut |token, _| *token = 0);
    request
}
