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

/// The names of a verb, as it lists them if none is given.
fn listed(verb: &str) -> Vec<String> {
    let output = make(&[verb]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let lines = said.lines().filter_map(|line| line.strip_prefix("  "));
    lines.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_command_of_make_that_a_text_names_is_there() {
    let word = |text: &str| {
        text.chars().take_while(|&c| c.is_ascii_lowercase() || "-0123456789".contains(c)).collect::<String>()
    };
    let help = String::from_utf8(make(&["help"]).stdout).expect("text");
    let verbs: Vec<_> = help.lines().filter_map(|line| Some(word(line.strip_prefix("make ")?))).collect();
    let named = ["demo", "suite", "picture", "pack"].map(|verb| (verb, listed(verb)));
    assert!(named.iter().all(|(_, names)| names.len() > 3), "{named:?}");
    let check = fs::read_to_string(project().join("tools/release_check")).expect("the check");
    let suites = check.split_once("for suite in ").and_then(|(_, rest)| rest.split_once(';')).expect("suites").0;
    let unknown: Vec<_> = suites.split(' ').filter(|suite| !named[1].1.iter().any(|name| name == suite)).collect();
    assert_eq!(unknown, [""; 0], "tools/release_check");
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
