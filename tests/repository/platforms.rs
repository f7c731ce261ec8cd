//! Where the library is not built.

use std::process::Command;
use testbed::{project, test};

#[test]
fn the_build_refuses_windows_in_one_sentence_and_no_other_system() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("build");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-o"]).arg(&script).arg(project().join("tools/build.rs"));
    assert!(rustc.status().expect("rustc").success());
    for (system, errors) in [("windows", 1), ("linux", 0), ("macos", 0)] {
        let output = Command::new(&script).env("CARGO_CFG_TARGET_OS", system).output().expect("own program");
        let said = String::from_utf8(output.stdout).expect("text");
        assert_eq!(said.matches("cargo::error=").count(), errors, "{system}: {said}");
    }
}
