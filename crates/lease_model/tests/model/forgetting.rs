//! What states leave out does not matter: whatever can happen in a world with all its states can happen in the smaller
//! one.

use crate::promise::{CRASHES, EARLY, IMAGES, LATE, LATE_AND_RESTORED, RESTORED, TWO_WORKERS};
use crate::{Bounds, bounds};
use lease_model::model::reduce;
use lease_model::state::State;
use lease_model::world::World;
use libtest_mimic::Trial;
use model_explorer::trial;
use stateright::Model;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

pub fn trials() -> Vec<Trial> {
    vec![trial("what_states_leave_out_does_not_matter", || {
        let short = [
            World { end: 4, longest_grant: 2, ..CRASHES },
            World { end: 2, late: 1, ..LATE },
            World { end: 2, ..RESTORED },
            World { end: 2, ..IMAGES },
            World { end: 2, ..TWO_WORKERS },
        ];
        let large = [World { end: 2, ..LATE_AND_RESTORED }, World { end: 2, ..EARLY }];
        let worlds = short.into_iter().chain(large.into_iter().filter(|_| bounds() == Bounds::Full));
        let counts = worlds.map(|world| compare(&World { is_symmetric: false, ..world }));
        counts.map(|(few, all)| format!("\n  {few} of {all} states")).collect()
    })]
}

fn compare(world: &World) -> (usize, usize) {
    let few = reachable(world, |_| {});
    let all = reachable(&world.plain(), |state| {
        let mut reduced = *state;
        reduce(&mut reduced, world);
        assert!(few.contains(&fingerprint(&reduced)), "{state:?} is not found as {reduced:?}");
    });
    (few.len(), all.len())
}

/// Visits all states, and returns their fingerprints.
fn reachable(world: &World, visit: impl Fn(&State)) -> HashSet<u64> {
    let mut todo = world.init_states();
    let mut fingerprints: HashSet<_> = todo.iter().map(fingerprint).collect();
    let mut steps = Vec::new();
    while let Some(state) = todo.pop() {
        visit(&state);
        world.actions(&state, &mut steps);
        let next = steps.drain(..).filter_map(|step| world.next_state(&state, step));
        todo.extend(next.filter(|next| fingerprints.insert(fingerprint(next))));
    }
    fingerprints
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
