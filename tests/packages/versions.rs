//! The version in the files that packagers read.

use std::fs;
use testbed::{project, test};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn text(name: &str) -> String {
    fs::read_to_string(project().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_files_for_pgxn_and_debian_have_the_version_of_the_extension() {
    let meta: serde_json::Value = serde_json::from_str(&text("META.json")).expect("JSON");
    assert_eq!(meta["version"], VERSION);
    assert_eq!(meta["provides"]["snowflake_pg"]["version"], VERSION);
    let changelog = text("debian/changelog");
    assert_eq!(changelog.lines().next(), Some(&*format!("snowflake-pg ({VERSION}) unstable; urgency=medium")));
}

#[test]
fn a_package_is_made_for_each_postgresql_that_the_extension_supports() {
    let cargo = text("Cargo.toml");
    let features = cargo.lines().filter_map(|line| line.strip_prefix("pg")?.split_once(" = [\"pgrx"));
    let supported: Vec<_> = features.map(|(major, _)| major.to_owned()).collect();
    let packaged: Vec<_> = text("debian/pgversions").lines().map(str::to_owned).collect();
    assert_eq!(packaged, supported);
}
