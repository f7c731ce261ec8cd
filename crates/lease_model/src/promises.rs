//! What must hold in every state, and what must be seen in some, so that it does not hold for nothing.

use crate::state::{Lease, Row, State};
use crate::world::World;
use stateright::Property;

type Condition = fn(&World, &State) -> bool;

pub const UNIQUENESS: &str = "no timestamp of a worker is issued twice";

/// The promise where the registry has lost a lease, and given the worker away before it could notice.
pub const GIVEN_AWAY: &str = "I4: a server that is told that another one has its worker issues nothing more";

const ALWAYS: &[(&str, Condition)] = &[
    (UNIQUENESS, |_, state| !state.broken.uniqueness),
    ("I1: every timestamp is below the durable mark", |_, state| !state.broken.i1),
    ("I2: a server begins at or above the mark that it read", |_, state| !state.broken.i2),
    ("I3: every timestamp is below a grant, and the next holder begins there", |_, state| !state.broken.i3),
    (GIVEN_AWAY, |_, state| !state.broken.i4),
];

const SOMETIMES: &[(&str, Condition)] = &[
    ("two servers believe to have the same worker", |_, state| pairs(state).any(|[a, b]| a.worker == b.worker)),
    ("a worker is taken over above the IDs of another server", |_, state| {
        rows(state)
            .any(|(worker, row)| row.begins > 0 && marks(state, worker).any(|mark| (1..=row.begins).contains(&mark)))
    }),
    ("a superseded server issues what is left of its grant", |_, state| {
        let is_ending = |memory: &crate::state::Memory| memory.lease.is_some_and(|lease| memory.next < lease.grant);
        state.servers.iter().any(|at| at.memory.is_refused && is_ending(&at.memory))
    }),
    // All grants end after the first time.
    ("a released worker is given to another server before its grant would have ended", |_, state| {
        state.now == FIRST && rows(state).any(|(_, row)| row.begins > 0)
    }),
];

const AFTER_RESTORE: &[(&str, Condition)] = &[
    ("a lease is renewed at a restored registry that gives no worker to others yet", |_, state| {
        state.now < state.registry.not_before && rows(state).any(|(_, row)| row.is_current)
    }),
    ("a restored registry gives a worker to another server", |world, state| {
        let ended = state.registry.restored_at.map(|at| at + world.longest_grant);
        rows(state).any(|(_, row)| ended.is_some_and(|ended| row.begins >= ended))
    }),
];

const OF_COPIES: &[(&str, Condition)] =
    &[("a server and one that has an image of a disk both have a lease", |_, state| {
        state.images_left == 0 && state.image.is_none() && pairs(state).next().is_some()
    })];

const OF_TWO_WORKERS: &[(&str, Condition)] =
    &[("two servers have two workers", |_, state| pairs(state).any(|[a, b]| a.worker != b.worker))];

/// What the registry's clock shows first.
pub const FIRST: u8 = 1;

/// The properties of a world.
pub fn all(world: &World) -> Vec<Property<World>> {
    let always = ALWAYS.iter().map(|&(name, condition)| Property::always(name, condition));
    let parts = [
        (SOMETIMES, true),
        (AFTER_RESTORE, world.restores > 0),
        (OF_COPIES, world.images > 0),
        (OF_TWO_WORKERS, world.workers > 1),
    ];
    let sometimes = parts.into_iter().filter(|&(_, is_possible)| is_possible).flat_map(|(part, _)| part);
    always.chain(sometimes.map(|&(name, condition)| Property::sometimes(name, condition))).collect()
}

/// The leases in force, two at a time.
fn pairs(state: &State) -> impl Iterator<Item = [Lease; 2]> {
    let leases = state.servers.map(|at| at.memory.lease);
    let pairs = [(0, 1), (0, 2), (1, 2)];
    pairs.into_iter().filter_map(move |(one, other)| Some([leases[one]?, leases[other]?]))
}

fn rows(state: &State) -> impl Iterator<Item = (u8, &Row)> {
    (0..).zip(&state.registry.rows).filter_map(|(worker, row)| Some((worker, row.as_ref()?)))
}

fn marks(state: &State, worker: u8) -> impl Iterator<Item = u8> {
    state.servers.iter().filter_map(move |at| at.disk.mark_of(worker))
}
