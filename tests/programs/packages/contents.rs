//! What is linked into the library of a package, as the library says and as the list of a release says.

use super::from_make;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{project, test};

/// Names and versions, as `aes 0.9.4`.
type Crates = BTreeSet<String>;

fn listed(packages: &Value) -> impl Iterator<Item = (&Value, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    packages
        .as_array()
        .expect("a list")
        .iter()
        .map(move |one| (one, format!("{} {}", text(&one["name"]), text(&one["version"]))))
}

/// The crates that the library of a package says are linked into it.
fn inside(package: &Path) -> Crates {
    let root = tempfile::tempdir().expect("a temporary directory");
    assert!(Command::new("dpkg-deb").arg("-x").args([package, root.path()]).status().expect("dpkg-deb").success());
    let library = fs::read_dir(root.path().join("usr/lib/postgresql")).expect("a version").next().expect("one");
    let library = library.expect("an entry").path().join("lib/snowflake_pg.so");
    let output = Command::new(project().join("target/auditable/bin/rust-audit-info")).arg(&library).output();
    let output = output.expect("rust-audit-info");
    assert!(output.status.success(), "{}: {}", package.display(), String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let is_linked = |one: &Value| one["kind"].as_str().is_none_or(|kind| kind == "runtime");
    listed(&found["packages"]).filter(|(one, _)| is_linked(one)).map(|(_, name)| name).collect()
}

#[test(By("make suite NAME=packages"))]
fn the_library_of_a_package_names_every_crate_of_the_list_that_a_release_brings() {
    let text = fs::read_to_string(from_make("SNOWFLAKE_PG_SBOM")).expect("a list");
    let list: Value = serde_json::from_str(&text).expect("JSON");
    let crates: Crates = listed(&list["components"]).map(|(_, name)| name).collect();
    assert!(crates.len() > 40 && crates.contains(concat!("snowflake_core ", env!("CARGO_PKG_VERSION"))), "{crates:?}");
    for (one, name) in listed(&list["components"]) {
        assert!(!one["licenses"].as_array().is_none_or(Vec::is_empty), "{name} has no license");
    }
    assert!(!text.contains(project().to_str().expect("a path")) && !text.contains("/tmp"), "a path of this machine");
    let files =
        fs::read_dir(from_make("SNOWFLAKE_PG_DEBS")).expect("packages").map(|entry| entry.expect("an entry").path());
    let packages: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    assert!(!packages.is_empty());
    for package in packages {
        let inside = inside(&package);
        let missing: Vec<_> = crates.difference(&inside).collect();
        assert!(missing.is_empty(), "{} lacks {missing:?}", package.display());
        // cargo counts optional crates of crates as if they were chosen.
        let more: Vec<_> = inside.difference(&crates).filter(|name| !name.starts_with("snowflake_pg ")).collect();
        assert!(more.len() <= 3, "{} has {more:?}", package.display());
    }
}
