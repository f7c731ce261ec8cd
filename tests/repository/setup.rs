//! `tools/setup`, on a machine that lacks something. Its apt-get installs nothing, and keeps what it was asked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use testbed::{project, test};

/// The programs of this machine but for some, in a directory that is to be the whole PATH.
struct Machine(TempDir);

impl Machine {
    fn without(missing: &[&str]) -> Self {
        let machine = Self(tempfile::tempdir().expect("a temporary directory"));
        fs::create_dir(machine.path("bin")).expect("own directory");
        // As root, setup would change the machine by these.
        for program in ["mkdir", "tee", "rm"] {
            machine.add(program, "");
        }
        machine.add("sudo", "exec \"$@\"");
        machine.add("apt-get", &format!("echo \"$@\" >>{}", machine.path("asked").display()));
        let path = std::env::var_os("PATH").expect("a PATH");
        for directory in std::env::split_paths(&path) {
            for program in fs::read_dir(directory).into_iter().flatten().map(|entry| entry.expect("an entry")) {
                if missing.iter().all(|missing| *missing != program.file_name()) {
                    // The first in the PATH counts.
                    let _ = symlink(program.path(), machine.path("bin").join(program.file_name()));
                }
            }
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Adds a program of this shell script.
    fn add(&self, program: &str, script: &str) {
        let path = self.path("bin").join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("own file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("own file");
    }

    /// The packages that setup wants.
    fn wants(&self, arguments: &[&str]) -> Vec<String> {
        let asked = self.path("asked");
        let _ = fs::remove_file(&asked);
        let mut setup = Command::new(project().join("tools/setup"));
        setup.args(arguments).env("PATH", self.path("bin")).env("TMPDIR", self.0.path());
        let output = setup.output().expect("tools/setup");
        assert!(output.status.success(), "{output:?}");
        let asked = fs::read_to_string(asked).unwrap_or_default();
        let packages = asked.lines().filter_map(|line| line.split_once("--no-install-recommends "));
        packages.flat_map(|(_, packages)| packages.split(' ')).map(str::to_owned).collect()
    }
}

#[test]
fn setup_installs_what_building_needs_and_nothing_that_only_tests_need() {
    assert_eq!(Machine::without(&["gcc"]).wants(&[]), ["gcc"]);
    let machine = Machine::without(&["valgrind", "perf"]);
    assert_eq!(machine.wants(&[]), [""; 0]);
    assert_eq!(machine.wants(&["servers", "tests"]), ["valgrind"]);
    assert_eq!(machine.wants(&["servers", "tests", "profile"]), ["valgrind", "linux-perf"]);
}
