//! What must hold in every state, and what must be seen in some, so that it does not hold for nothing.

use crate::state::{Memory, State};
use crate::world::World;
use stateright::Property;

type Condition = fn(&World, &State) -> bool;

pub const UNIQUENESS: &str = "no timestamp of a worker is issued twice";
pub const I1: &str = "I1: every timestamp is below the durable mark";
pub const I2: &str = "I2: a server begins at or above the mark that it finds";
pub const ALARM: &str = "a server that only crashes, stops and starts is never refused";

const ALWAYS: &[(&str, Condition)] = &[
    (UNIQUENESS, |_, state| !state.broken.uniqueness),
    (I1, |_, state| !state.broken.i1),
    (I2, |_, state| !state.broken.i2),
    (ALARM, |_, state| !state.broken.alarm),
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
