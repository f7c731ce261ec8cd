//! Which versions of PostgreSQL the extension is for. `debian/pgversions` lists them, and what else names them agrees.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{project, test};

fn text(name: &str) -> String {
    fs::read_to_string(project().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The major versions, from the oldest on.
fn versions() -> Vec<u32> {
    let versions: Vec<_> = text("debian/pgversions").lines().map(|line| line.parse().expect("a version")).collect();
    assert!(versions.len() > 1 && versions.is_sorted(), "{versions:?}");
    versions
}

fn oldest_and_newest() -> (u32, u32) {
    let versions = versions();
    (versions[0], versions[versions.len() - 1])
}

/// What strangers read and type. CHANGELOG.md says what was so once.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_text = |name: &str| ["md", "yml", "yaml", "sql", "json"].iter().any(|end| name.ends_with(end));
        match path.file_name().and_then(|name| name.to_str()) {
            Some("target" | ".git" | "node_modules" | "tests" | "CHANGELOG.md") | None => {}
            Some(_) if path.is_dir() => texts(&path, found),
            Some("Makefile" | "Dockerfile") => found.push(path),
            Some(name) if is_text(name) => found.push(path),
            Some(_) => {}
        }
    }
}

/// A number of two digits at the beginning of a text, and what follows.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end == 2).then(|| (text[..end].parse().expect("a number"), &text[end..]))
}

#[test]
fn what_is_built_has_a_feature_for_each_version() {
    let features: Vec<_> = versions().iter().map(|major| format!("pg{major} = [\"pgrx/pg{major}\"]")).collect();
    for name in ["Cargo.toml", "benches/naive_generator/Cargo.toml"] {
        let manifest = text(name);
        let found: Vec<_> = manifest.lines().filter(|line| line.contains("\"pgrx/pg")).collect();
        assert_eq!(found, features, "{name}");
    }
}

#[derive(Deserialize)]
struct Workflow {
    jobs: BTreeMap<String, Job>,
}

#[derive(Deserialize)]
struct Job {
    strategy: Option<Strategy>,
}

#[derive(Deserialize)]
struct Strategy {
    matrix: Matrix,
}

#[derive(Deserialize)]
struct Matrix {
    postgresql: Vec<u32>,
    runner: Vec<String>,
}

#[test]
fn workflows_test_each_version_and_make_packages_for_it_on_both_architectures() {
    for (name, job) in [("test.yml", "test"), ("release.yml", "packages")] {
        let text = text(&format!(".github/workflows/{name}"));
        let workflow: Workflow = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let matrix = &workflow.jobs[job].strategy.as_ref().expect("a matrix").matrix;
        assert_eq!(matrix.postgresql, versions(), "{name}");
        assert_eq!(matrix.runner, ["ubuntu-24.04", "ubuntu-24.04-arm"], "{name}");
    }
}

#[test]
fn the_metadata_for_pgxn_asks_for_the_oldest_version() {
    let meta: serde_json::Value = serde_json::from_str(&text("META.json")).expect("JSON");
    let asked = &meta["prereqs"]["runtime"]["requires"]["PostgreSQL"];
    assert_eq!(*asked, format!("{}.0.0", oldest_and_newest().0));
}

#[test]
fn make_knows_the_versions_from_the_newest_on() {
    let mut make = Command::new("make");
    make.arg("--directory").arg(project()).args(["--silent", "--eval", "shown:; @echo $(versions)", "shown"]);
    // They belong to a make that runs this process.
    let output = make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().expect("make");
    let newest_first: Vec<_> = versions().iter().rev().map(u32::to_string).collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), newest_first.join(" "), "{output:?}");
}

#[test]
fn every_text_that_names_the_first_and_the_last_version_names_those_of_the_list() {
    let mut files = Vec::new();
    texts(&project(), &mut files);
    let mut seen = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("a text");
        for after in text.split("PostgreSQL ").skip(1) {
            let range = number(after).and_then(|(from, rest)| Some((from, number(rest.strip_prefix(" to ")?)?.0)));
            let Some(range) = range else { continue };
            assert_eq!(range, oldest_and_newest(), "{}", file.display());
            seen += usize::from(file.ends_with("README.md"));
        }
    }
    assert_eq!(seen, 1, "README.md names them once");
    // "15 to 19" says so of all between.
    assert!(versions().windows(2).all(|pair| pair[0] + 1 == pair[1]), "{:?}", versions());
}

/// What stands before the version in a command, the name of an image or a setting.
const BEFORE: [&str; 9] = [
    "PG_MAJOR=",
    "VERSIONS=",
    "--features pg",
    "postgresql-",
    "postgres:",
    "pgsql-",
    "-snowflake:",
    "snowflake-extension:",
    "ersion: \"",
];

#[test]
fn every_version_in_a_command_or_an_example_is_one_of_the_list() {
    let (versions, mut files, mut seen) = (versions(), Vec::new(), 0);
    texts(&project(), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("a text");
        for (major, _) in BEFORE.iter().flat_map(|before| text.split(before).skip(1)).filter_map(number) {
            assert!(versions.contains(&major), "{} names PostgreSQL {major}", file.display());
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}
