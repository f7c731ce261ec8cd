//! What `make` can do, and what texts say that it can.

use super::files;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use testbed::{project, test};

/// Without the variables of a make that runs this process.
fn make(arguments: &[&str]) -> Output {
    let mut make = Command::new("make");
    make.arg("--directory").arg(project()).arg("--no-print-directory").args(arguments);
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("NAME").output().expect("make")
}

fn help() -> String {
    String::from_utf8(make(&["help"]).stdout).expect("text")
}

/// The names of a verb, as it lists them if none is given.
fn listed(verb: &str) -> Vec<String> {
    let output = make(&[verb]);
    assert!(output.status.success(), "{output:?}");
    names_in(&output.stdout)
}

fn names_in(said: &[u8]) -> Vec<String> {
    let said = String::from_utf8_lossy(said);
    let lines = said.lines().filter_map(|line| line.strip_prefix("  "));
    lines.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

/// With a name that is not there, a verb does nothing, and says which of the names it is.
#[test]
fn a_name_that_no_verb_has_is_named_beside_those_that_are_there() {
    for (verb, names) in
        [("demo", "nonsense"), ("suite", "nonsense"), ("picture", "nonsense"), ("pack", "scripts nonsense")]
    {
        let output = make(&[verb, &format!("NAME={names}")]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with(&format!("There is no {verb} \"nonsense\".\n")), "{said}");
        assert_eq!(names_in(&output.stderr), listed(verb));
    }
}

#[test]
fn the_help_of_make_fits_on_a_screen() {
    let help = help();
    assert!(help.lines().count() <= 24 && help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

/// Of what `.ci/run` ends with.
#[test]
fn each_suite_that_takes_minutes_has_its_day_of_the_week_and_each_mutant_its_week() {
    let which = |days: &[usize]| {
        let mut command = Command::new(project().join("tools/by_date"));
        let output = command.arg("--which").args(days.iter().map(usize::to_string)).output().expect("tools/by_date");
        let said = String::from_utf8(output.stdout).expect("text");
        let suites = said.lines().map(|line| line.strip_prefix("NAME=").expect("a name").to_owned());
        suites.collect::<Vec<_>>()
    };
    let suites = which(&(20_000..20_008).collect::<Vec<_>>());
    let week: BTreeSet<_> = suites.iter().filter_map(|suite| suite.split(' ').next()).collect();
    assert!(week.len() >= 7 && week.len() <= 8, "{suites:?}");
    let there = listed("suite");
    assert!(week.iter().all(|name| there.iter().any(|suite| suite == name)), "{suites:?}");
    let nth = suites.iter().position(|suite| suite.starts_with("mutants")).expect("the mutants");
    let (_, parts) = suites[nth].rsplit_once('/').expect("a part");
    let parts = parts.parse().expect("a number");
    let weeks: Vec<_> = (0..parts).map(|number| 20_000 + nth + number * week.len()).collect();
    let expected: BTreeSet<_> = (1..=parts).map(|part| format!("mutants MUTANTS={part}/{parts}")).collect();
    assert_eq!(which(&weeks).into_iter().collect::<BTreeSet<_>>(), expected);
}

#[test]
fn every_command_of_make_that_a_text_names_is_there() {
    let word = |text: &str| {
        text.chars().take_while(|&c| c.is_ascii_lowercase() || "-0123456789".contains(c)).collect::<String>()
    };
    let verbs: Vec<_> = help().lines().filter_map(|line| Some(word(line.strip_prefix("make ")?))).collect();
    let named = ["demo", "suite", "picture", "pack"].map(|verb| (verb, listed(verb)));
    assert!(named.iter().all(|(_, names)| names.len() > 3), "{named:?}");
    for file in files(&project()) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for verb in text.split("`make ").skip(1).map(word) {
            let is_there = verb.is_empty() || ["help", "build"].contains(&&*verb) || verbs.contains(&verb);
            assert!(is_there, "{}: make {verb}", file.display());
        }
        for (verb, names) in &named {
            for name in text.split(&format!("make {verb} NAME=")).skip(1).map(word) {
                assert!(name.is_empty() || names.contains(&name), "{}: make {verb} NAME={name}", file.display());
            }
        }
    }
}
