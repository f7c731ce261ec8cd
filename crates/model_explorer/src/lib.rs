//! Explores a model: all of its states, or the shortest way to one in which a promise is broken.

#![forbid(unsafe_code)]

use libtest_mimic::Trial;
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// A model that tells in sentences what has happened.
pub trait Told:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq + Send + Sync>
    + Clone
    + Send
    + Sync
    + 'static
{
    /// The sentence of a step that follows a state.
    fn tell(&self, state: &Self::State, step: Self::Action) -> String;
}

/// What was found in all states of a model.
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

/// Explores all states of a model.
pub fn all<M: Told>(model: &M) -> Findings {
    let began = Instant::now();
    let checker = model.clone().checker().spawn_dfs().join();
    let mut findings = Findings {
        states: checker.unique_state_count(),
        took: began.elapsed(),
        broken: vec![],
        seen: vec![],
        unseen: vec![],
    };
    let mut discoveries = checker.discoveries();
    for property in model.properties() {
        let discovery = discoveries.remove(property.name);
        match (property.expectation, discovery) {
            (Expectation::Always, Some(path)) => findings.broken.push((property.name, tell(model, path.into_vec()))),
            (Expectation::Always, None) => {}
            (_, Some(_)) => findings.seen.push(property.name),
            (_, None) => findings.unseen.push(property.name),
        }
    }
    findings
}

/// Looks for the shortest way to where a promise is broken. Returns how many states were looked at, too.
pub fn shortest_way<M: Told>(model: &M, promise: &'static str) -> (usize, Option<Vec<String>>) {
    let until = HasDiscoveries::AllOf([promise].into());
    let checker = model.clone().checker().finish_when(until).spawn_bfs().join();
    let steps = checker.discovery(promise).map(|path| tell(model, path.into_vec()));
    (checker.unique_state_count(), steps)
}

/// The shortest way to where a promise is broken, as a text.
///
/// # Panics
///
/// If there is none.
pub fn show_way<M: Told>(model: &M, promise: &'static str) -> String {
    let began = Instant::now();
    let (states, steps) = shortest_way(model, promise);
    let steps = steps.expect("a broken promise");
    format!("after {states} states in {:.1} s\n  {}", began.elapsed().as_secs_f64(), steps.join("\n  "))
}

/// Explores all states of a model, in which every promise must hold.
///
/// # Panics
///
/// If one does not, after it has shown how.
pub fn hold<M: Told>(model: &M) -> Findings {
    let findings = all(model);
    for (property, steps) in &findings.broken {
        println!("\nNOT TRUE: {property}\n  {}", steps.join("\n  "));
    }
    assert!(findings.broken.is_empty(), "a promise does not hold");
    findings
}

/// A test, which prints what its work returns.
pub fn trial(name: impl Into<String>, work: impl FnOnce() -> String + Send + 'static) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let result = work();
        println!("\n{}: {result}", name.replace('_', " "));
        Ok(())
    })
}

fn tell<M: Told>(model: &M, path: Vec<(M::State, Option<M::Action>)>) -> Vec<String> {
    path.into_iter().filter_map(|(state, step)| step.map(|step| model.tell(&state, step))).collect()
}

/// The name of a rule as words of a test's name.
pub fn words(rule: &impl Debug) -> String {
    let name = format!("{rule:?}");
    let mut words = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
