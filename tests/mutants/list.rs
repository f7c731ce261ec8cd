//! Every mutant: which check it removes, how, and which tests should notice.
//!
//! In `list` there is a file for each part of the code, and three lines for each mutant:
//!
//! ```text
//! name: what is wrong without the check
//!     the edit of the statement below the marker "mutant: name" in the sources
//!     the tests
//! ```

use super::edit::Edit;
use std::fs;
use std::path::Path;

/// A check that is removed.
pub struct Mutant {
    /// As in the marker.
    pub name: String,
    /// What is wrong with it.
    pub sentence: String,
    pub edit: Edit,
    pub against: Against,
}

/// Tests that should notice: those of the core, or those of its interleavings or on servers whose names have these
/// words; or both those on servers and the simulated day. Or no test, and the model alone must notice by what servers
/// record.
#[derive(Clone, PartialEq, Eq)]
pub enum Against {
    Core,
    Loom(String),
    Servers(String),
    ServersAndSimulation(String),
    Traces,
}

impl Against {
    fn parse(text: &str) -> Option<Self> {
        let (kind, tests) = text.split_once(": ").unwrap_or((text, ""));
        let tests = tests.to_owned();
        Some(match kind {
            "core" => Self::Core,
            "traces" => Self::Traces,
            "loom" => Self::Loom(tests),
            "servers" => Self::Servers(tests),
            "servers and simulation" => Self::ServersAndSimulation(tests),
            _ => return None,
        })
    }
}

/// All of them.
pub fn mutants(project: &Path) -> Vec<Mutant> {
    let files = fs::read_dir(project.join("tests/mutants/list")).expect("the list");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).expect("a part")).collect();
    let lines: Vec<_> = texts.iter().flat_map(|text| text.lines()).collect();
    lines.chunks(3).map(|lines| parse(lines).unwrap_or_else(|| panic!("not a mutant: {lines:?}"))).collect()
}

fn parse(lines: &[&str]) -> Option<Mutant> {
    let &[head, edit, tests] = lines else { return None };
    let (name, sentence) = head.split_once(": ")?;
    Some(Mutant {
        name: name.to_owned(),
        sentence: sentence.to_owned(),
        edit: Edit::parse(edit.strip_prefix("    ")?)?,
        against: Against::parse(tests.strip_prefix("    ")?)?,
    })
}

/// Those that any of these arguments chooses; all, if there are none.
pub fn chosen<'a>(mutants: &'a [Mutant], arguments: &[String]) -> Vec<&'a Mutant> {
    let is_chosen = |(nth, mutant): (usize, &Mutant), argument: &String| match part(argument) {
        Some((part, parts)) => nth * parts / mutants.len() + 1 == part,
        None => {
            let is_traced = argument == "traces" && mutant.against == Against::Traces;
            mutant.name.contains(argument) || mutant.sentence.contains(argument) || is_traced
        }
    };
    let numbered = mutants.iter().enumerate();
    let chosen =
        numbered.filter(|&at| arguments.is_empty() || arguments.iter().any(|argument| is_chosen(at, argument)));
    chosen.map(|(_, mutant)| mutant).collect()
}

/// `3/10` is the third of ten parts.
fn part(argument: &str) -> Option<(usize, usize)> {
    let (part, parts) = argument.split_once('/')?;
    Some((part.parse().ok()?, parts.parse().ok()?))
}
