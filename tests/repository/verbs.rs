//! What `make` can do, and what texts say that it can.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testbed::{project, test};

/// The verbs with a name.
const NAMED: [&str; 3] = ["demo", "suite", "picture"];

fn make(arguments: &[&str]) -> Output {
    let mut make = Command::new("make");
    make.arg("--directory").arg(project()).arg("--no-print-directory").args(arguments);
    // They belong to a make that runs this process.
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("NAME");
    make.output().expect("make")
}

fn help() -> String {
    String::from_utf8(make(&["help"]).stdout).expect("text")
}

/// The verbs that the help explains, and those that it need not.
fn verbs() -> Vec<String> {
    let help = help();
    let explained = help.lines().filter_map(|line| line.strip_prefix("make ")?.split_whitespace().next());
    explained.chain(["help", "build"]).map(str::to_owned).collect()
}

/// The names of a verb, as it lists them for one that it does not know. It fails with status 2 then.
fn names(verb: &str, arguments: &[&str]) -> Vec<String> {
    let output = make(&[&[verb], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).expect("text");
    let listed = said.lines().filter_map(|line| line.strip_prefix("  "));
    let listed = listed.inspect(|line| assert!(line.ends_with(')') && line.len() < 115, "{line}"));
    listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_help_of_make_fits_on_a_screen_and_has_every_verb() {
    let (help, verbs) = (help(), verbs());
    assert!(help.lines().count() <= 24, "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    let makefile = fs::read_to_string(project().join("Makefile")).expect("a Makefile");
    let phony = makefile.lines().find_map(|line| line.strip_prefix(".PHONY: ")).expect("the verbs");
    let internal = ["all", "setup", "layers"];
    for verb in phony.split(' ').filter(|verb| !internal.contains(verb)) {
        assert!(verbs.iter().any(|known| known == verb), "{verb} is not in the help");
    }
}

#[test]
fn make_lists_the_demos_suites_and_pictures_without_a_name_or_with_a_wrong_one() {
    let makefile = fs::read_to_string(project().join("Makefile")).expect("a Makefile");
    for verb in NAMED {
        let rules = makefile.lines().filter_map(|line| line.strip_prefix(verb)?.strip_prefix('/')?.split_once(':'));
        let rules: Vec<_> = rules.map(|(name, _)| name).filter(|name| !name.contains('%')).collect();
        assert!(rules.len() > 3, "{rules:?}");
        assert_eq!(names(verb, &[]), rules);
        assert_eq!(names(verb, &["NAME=nonsense"]), rules);
    }
}

/// The files of the project that have text of ours.
fn texts(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !["target", ".git", "node_modules"].contains(&name) {
            texts(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

#[test]
fn every_command_of_make_that_a_text_names_is_there() {
    let verbs = verbs();
    let names = NAMED.map(|verb| (verb, names(verb, &[])));
    let mut files = Vec::new();
    texts(&project(), &mut files);
    let mut seen = 0;
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        // A command can go on in the next line of a comment.
        let words: Vec<_> = text.split_whitespace().filter(|word| !["//", "///", "//!", "#"].contains(word)).collect();
        for words in words.windows(3) {
            let quoted = match words[0].trim_start_matches(['(', '|', '[']) {
                "`make" | "\"make" | "By(\"make" => true,
                "make" => false,
                _ => continue,
            };
            let end = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '='));
            let verb = words[1].split(end).next().unwrap_or_default();
            let name = words[2].strip_prefix("NAME=").and_then(|name| name.split(end).next());
            if let (Some((_, known)), Some(name)) = (names.iter().find(|(with, _)| *with == verb), name) {
                let is_there = name.is_empty() || known.iter().any(|known| known == name);
                assert!(is_there, "{}: make {verb} NAME={name}", file.display());
            }
            // Prose has "make" before other words, none of them with a hyphen.
            let is_command = verb.starts_with(|c: char| c.is_ascii_lowercase()) && (quoted || verb.contains('-'));
            if is_command {
                assert!(verbs.iter().any(|known| known == verb), "{}: make {verb}", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "{seen}");
}
