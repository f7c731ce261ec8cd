//! Every mutant: which check it removes, and which tests should notice. A file for each part of the code.

mod adopt;
mod config;
mod core;
mod durable;
mod fleet;
mod functions;
mod hosted;
mod leases;
mod reading;
mod registry;

/// A check that is removed.
pub struct Mutant {
    /// What is wrong with it.
    pub name: &'static str,
    /// The file, the text in it, and what replaces that text.
    pub edits: &'static [(&'static str, &'static str, &'static str)],
    /// Which tests to run against it.
    pub against: Against,
}

/// Tests that should notice: those of the core, or those of its interleavings or on servers whose names have these words;
/// or both those on servers and the simulated day.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Against {
    Core,
    Loom { tests: &'static str },
    Servers { tests: &'static str },
    ServersAndSimulation { tests: &'static str },
}

/// All of them.
pub fn mutants() -> impl Iterator<Item = &'static Mutant> {
    [
        core::MUTANTS,
        durable::MUTANTS,
        functions::MUTANTS,
        hosted::MUTANTS,
        adopt::MUTANTS,
        fleet::MUTANTS,
        config::MUTANTS,
        leases::MUTANTS,
        registry::MUTANTS,
        reading::MUTANTS,
    ]
    .into_iter()
    .flatten()
}
