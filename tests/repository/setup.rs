//! `tools/setup`, on a machine that lacks something. Its apt-get installs nothing, and keeps what it was asked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
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

    fn command(&self, arguments: &[&str]) -> Command {
        let mut setup = Command::new(project().join("tools/setup"));
        setup.args(arguments).env("PATH", self.path("bin")).env("TMPDIR", self.0.path());
        setup
    }

    /// The packages that setup wants.
    fn wants(&self, arguments: &[&str]) -> Vec<String> {
        self.wanted_by(&mut self.command(arguments))
    }

    fn wanted_by(&self, setup: &mut Command) -> Vec<String> {
        let asked = self.path("asked");
        let _ = fs::remove_file(&asked);
        let output = setup.output().expect("tools/setup");
        assert!(output.status.success(), "{output:?}");
        let asked = fs::read_to_string(asked).unwrap_or_default();
        let packages = asked.lines().filter_map(|line| line.split_once("--no-install-recommends "));
        packages.flat_map(|(_, packages)| packages.split(' ')).map(str::to_owned).collect()
    }
}

#[test]
fn building_needs_nothing_that_only_tests_need() {
    let machine = Machine::without(&["valgrind", "perf"]);
    assert_eq!(machine.wants(&[]), [""; 0]);
    assert_eq!(machine.wants(&["servers", "tests"]), ["valgrind"]);
    assert_eq!(machine.wants(&["servers", "tests", "profile"]), ["valgrind", "linux-perf"]);
}

#[test]
fn what_building_needs_is_installed() {
    let machine = Machine::without(&["gcc"]);
    assert_eq!(machine.wants(&[]), ["gcc"]);
}

#[test]
fn what_builds_for_arm64_and_runs_it_is_installed_where_it_is_asked_for() {
    let machine = Machine::without(&["qemu-aarch64", "aarch64-linux-gnu-gcc"]);
    assert_eq!(machine.wants(&[]), [""; 0]);
    assert_eq!(machine.wants(&["arm64"])[..2], ["qemu-user", "gcc-aarch64-linux-gnu"]);
}

/// Also of one that only another repository of packages has.
#[test]
fn the_packages_of_the_version_that_a_path_names_are_installed() {
    let machine = Machine::without(&[]);
    let wants = |pg_config: &str| machine.wanted_by(machine.command(&["servers"]).env("PG_CONFIG", pg_config));
    assert_eq!(wants("/usr/lib/postgresql/99/bin/pg_config"), ["postgresql-server-dev-99", "postgresql-99"]);
    // A path that says nothing of packages.
    assert_eq!(wants("/opt/99/bin/pg_config"), machine.wants(&["servers"]));
}

/// bindgen looks nowhere else then, so that installing one would not help.
#[test]
fn a_libclang_path_without_libclang_is_refused() {
    let machine = Machine::without(&[]);
    let setup = |libclang: &Path| machine.command(&[]).env("LIBCLANG_PATH", libclang).output().expect("tools/setup");
    let (directory, library) = (machine.path("llvm"), machine.path("llvm/libclang.so.1"));
    fs::create_dir(&directory).expect("own directory");
    for wrong in [&directory, &library] {
        let said = format!(
            "==> There is no libclang where LIBCLANG_PATH says: {}. Please correct or unset it\n",
            wrong.display()
        );
        let output = setup(wrong);
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stdout)), (Some(1), said.into()));
    }
    fs::write(&library, "").expect("own file");
    for right in [&directory, &library] {
        assert!(setup(right).status.success(), "{}", right.display());
    }
}

#[test]
fn an_unknown_argument_is_refused() {
    let output = Machine::without(&[]).command(&["client"]).output().expect("tools/setup");
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b"==> Unknown argument: client\n"[..]));
}
