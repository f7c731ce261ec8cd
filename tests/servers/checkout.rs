//! The tests themselves, in a checkout that was copied.

use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::{project, skip, test};

/// `cp -r` by root makes everything root's, also what servers of another user are copied from.
#[test]
fn servers_of_a_checkout_that_was_copied_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [original, copied] = ["original", "copied"].map(|name| directory.path().join(name));
    let start = |templates: &Path| {
        let mut program = Command::new("/proc/self/exe");
        program.env("SNOWFLAKE_PG_TEMPLATES", templates).args(["--quiet", "extension:: an_older_script"]);
        let output = program.output().expect("tests");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    };
    start(&original);
    assert!(Command::new("cp").arg("-r").args([&original, &copied]).status().expect("cp").success());
    start(&copied);
    // Or somebody has given everybody the right to read it.
    assert!(Command::new("chmod").args(["-R", "a+rX"]).arg(&copied).status().expect("chmod").success());
    start(&copied);
}

/// As for mutants: this program, against a copy of what git knows.
#[test]
fn the_tests_can_be_run_against_a_copy_of_the_sources() {
    let listing = Command::new("git").current_dir(project()).args(["ls-files", "-z"]).output().expect("git");
    if !listing.status.success() {
        skip("this is not a checkout");
    }
    let copy = tempfile::tempdir().expect("a temporary directory");
    for name in String::from_utf8(listing.stdout).expect("names of files").split_terminator('\0') {
        let (from, to) = (project().join(name), copy.path().join(name));
        fs::create_dir_all(to.parent().expect("a directory")).expect("a directory");
        if Path::new(&from).exists() {
            fs::copy(&from, &to).expect("a copy");
        }
    }
    let mut program = Command::new("/proc/self/exe");
    program.env("SNOWFLAKE_PG_SOURCES", copy.path()).args(["--quiet", "extension::|install::|parts::"]);
    let output = program.output().expect("tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
