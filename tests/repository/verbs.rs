//! What `make` can do, and what texts say that it can.

use super::files;
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
