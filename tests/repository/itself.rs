//! The tests themselves: none is left out, and each mutant has some that could notice it.

#[path = "../mutants/edit.rs"]
mod edit;
#[path = "../mutants/list.rs"]
mod list;

use super::files;
use crate::{faults, stops};
use edit::Source;
use list::{Against, Mutant, mutants};
use std::collections::BTreeSet;
use std::fs;
use testbed::{project, runner, test};

/// Those of this program.
fn names() -> Vec<String> {
    let rows = faults::cases().into_iter().chain(stops::cases()).map(|case| case.name().to_owned());
    rows.chain(runner::names()).collect()
}

/// A file that lacks `use testbed::test` has tests of Rust's own, which nothing runs; and so has one without its `mod`.
#[test]
fn every_test_of_a_file_is_one_of_its_program() {
    let (root, names, mut seen) = (project().join("tests"), names(), 0);
    for path in files(&root).iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let folder = path.parent().expect("a folder");
        let module = path.strip_prefix(&root).expect("a file of tests").with_extension("");
        let module = module.to_str().expect("a name").replace('/', "::");
        // Neither mutants nor the clients with a manifest of their own are tests.
        if module.starts_with("mutants::") || folder.join("Cargo.toml").exists() {
            continue;
        }
        let last = module.rsplit("::").next().unwrap_or_default();
        let above = [folder.with_extension("rs"), folder.join("main.rs")].into_iter().find(|file| file.exists());
        let above = fs::read_to_string(above.expect("a file of the folder above")).expect("a file");
        assert!(last == "main" || above.contains(&format!("\nmod {last};\n")), "no program has {}", path.display());
        // The other program alone knows its tests.
        if module.starts_with("programs::") {
            continue;
        }
        for after in fs::read_to_string(path).expect("a file").split("\n#[test").skip(1) {
            let name = after.split("fn ").nth(1).and_then(|text| text.split('(').next()).expect("a function");
            let is_run = names.contains(&format!("{module}::{name}"));
            assert!(is_run, "{} has no test {name} that is run", path.display());
            seen += 1;
        }
    }
    assert!(seen > 400, "{seen}");
}

/// So that none goes stale unnoticed, and no marker stands for nothing.
#[test]
fn every_mutant_has_one_marker_in_the_sources_and_changes_what_is_below_it() {
    let (mutants, sources) = (mutants(&project()), Source::all(&project()));
    let markers = sources.iter().flat_map(|source| source.markers().into_iter().map(move |(name, _)| (name, source)));
    let markers: Vec<_> = markers.collect();
    for &(name, source) in &markers {
        let is_known = mutants.iter().any(|mutant| mutant.name == name);
        assert!(is_known, "{}: no mutant is called {name}", source.path.display());
        assert_eq!(markers.iter().filter(|&&(other, _)| other == name).count(), 1, "{name} marks one statement");
    }
    for mutant in &mutants {
        let mut marked = markers.iter().filter(|&&(name, _)| name == mutant.name);
        let is_edited = marked.any(|(_, source)| mutant.edit.apply(source, &mutant.name).is_some());
        assert!(is_edited, "{}: no marker, or its edit does not give: {}", mutant.name, mutant.sentence);
    }
    // Those that traces alone must show can be mutants that tests notice, too.
    for traces in [false, true] {
        let is_here = |mutant: &&Mutant| (mutant.against == Against::Traces) == traces;
        let names: Vec<_> = mutants.iter().filter(is_here).map(|mutant| &mutant.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "two mutants have one name");
    }
}

/// The parts that tools/by_date runs, one after the other.
#[test]
fn parts_of_the_mutants_have_each_mutant_once() {
    let mutants = mutants(&project());
    let part = |part: usize, parts: usize| list::chosen(&mutants, &[format!("{part}/{parts}")]);
    for parts in [1, 10, 30] {
        let each: Vec<_> = (1..=parts).map(|nth| part(nth, parts)).collect();
        assert!(each.iter().all(|part| !part.is_empty()), "{parts}");
        let names: Vec<_> = each.concat().iter().map(|mutant| &mutant.name).collect();
        assert_eq!(names, mutants.iter().map(|mutant| &mutant.name).collect::<Vec<_>>(), "{parts}");
    }
}

#[test]
fn every_mutant_has_tests_that_could_notice_it() {
    let names = names();
    for mutant in mutants(&project()) {
        if let Against::Servers(tests) | Against::ServersAndSimulation(tests) = mutant.against {
            for tests in tests.split('|') {
                let is_there = names.iter().any(|name| tests.split(' ').all(|word| name.contains(word)));
                assert!(is_there, "{}: there is no test {tests:?}", mutant.name);
            }
        }
    }
}
