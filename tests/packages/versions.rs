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
