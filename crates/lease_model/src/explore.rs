//! Explores a world.

use crate::promises::UNIQUENESS;
use crate::story::tell;
use crate::world::World;
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Findings {
    /// How many different states there are.
    pub states: usize,
    pub took: Duration,
    /// What must always hold and does not, with the steps to there.
    pub broken: Vec<(&'static str, Vec<String>)>,
    /// What must be seen and was.
    pub seen: Vec<&'static str>,
    /// What must be seen and was not.
    pub unseen: Vec<&'static str>,
}

/// Explores all states of a world.
pub fn all(world: &World) -> Findings {
    let began = Instant::now();
    let checker = world.checker().spawn_dfs().join();
    let mut findings = Findings {
        states: checker.unique_state_count(),
        took: began.elapsed(),
        broken: vec![],
        seen: vec![],
        unseen: vec![],
    };
    let mut discoveries = checker.discoveries();
    for property in world.properties() {
        let discovery = discoveries.remove(property.name);
        match (property.expectation, discovery) {
            (Expectation::Always, Some(path)) => findings.broken.push((property.name, tell(path.into_vec(), world))),
            (Expectation::Always, None) => {}
            (_, Some(_)) => findings.seen.push(property.name),
            (_, None) => findings.unseen.push(property.name),
        }
    }
    findings
}

/// Looks for the shortest way to a timestamp that is issued twice.
pub fn duplicate(world: &World) -> (usize, Option<Vec<String>>) {
    let until = HasDiscoveries::AllOf([UNIQUENESS].into());
    let checker = world.checker().finish_when(until).spawn_bfs().join();
    let steps = checker.discovery(UNIQUENESS).map(|path| tell(path.into_vec(), world));
    (checker.unique_state_count(), steps)
}
