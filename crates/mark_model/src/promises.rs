//! What must hold in every state, and what must happen in some, so that nothing holds only because nothing happens.

use crate::state::{Memory, State};
use crate::world::World;
use stateright::Property;

type Condition = fn(&World, &State) -> bool;

pub const UNIQUENESS: &str = "no timestamp of a worker is issued twice";
pub const I1: &str = "I1: every timestamp is below the durable mark";
pub const I2: &str = "I2: a server begins at or above the mark that it finds";
/// Row S18 applies at its first start, later S1, or S3 after a crash; any other row takes it for another server. Two
/// cases may find another row, but must not be refused either: a server whose first start was killed between the record
/// and the life (S5), and one whose writes failed.
pub const ALARM: &str = "a server that only crashes, stops and starts is never refused or taken for another";
/// After a planned stop it begins at its last timestamp, after a crash at most `reserve_ahead` ahead of a right clock.
/// The same two cases are exempt.
pub const AHEAD: &str = "a server that only crashes, stops and starts begins no further ahead than documented";

/// Of whatever workers. Under wrong clocks, there may be IDs below one that was read, but no horizon until they are
/// above it.
pub const HORIZON: &str = "the horizon of a cluster never falls, and no ID is issued below one that was read";

const ALWAYS: &[(&str, Condition)] = &[
    (UNIQUENESS, |_, state| !state.broken.uniqueness),
    (I1, |_, state| !state.broken.i1),
    (I2, |_, state| !state.broken.i2),
    (ALARM, |_, state| !state.broken.alarm),
    (AHEAD, |_, state| !state.broken.ahead),
    (HORIZON, |_, state| !state.broken.horizon),
];

const SOMETIMES: &[(&str, Condition)] = &[
    ("IDs are issued as long as the clock goes on after the start margin", |world, state| {
        state.issued[0].count() >= world.end - world.wait
    }),
    ("a server starts twice, and issues IDs each time", |_, state| state.lives > 1 && state.issued[0].count() > 2),
];

const OF_PROMOTIONS: &[(&str, Condition)] = &[("a promoted standby issues IDs", |_, state| {
    state.servers.iter().any(|at| at.is_promoted && matches!(at.memory, Memory::Running(running) if running.next > 1))
})];

/// The properties of a world.
pub fn all(world: &World) -> Vec<Property<World>> {
    let always = ALWAYS.iter().map(|&(name, condition)| Property::always(name, condition));
    let parts = [(SOMETIMES, true), (OF_PROMOTIONS, world.budget.promotions > 0)];
    let sometimes = parts.into_iter().filter(|&(_, is_possible)| is_possible).flat_map(|(part, _)| part);
    always.chain(sometimes.map(|&(name, condition)| Property::sometimes(name, condition))).collect()
}
