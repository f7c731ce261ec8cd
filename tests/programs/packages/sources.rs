//! The sources with their crates, and the package for Red Hat's distributions that is built from them.

use super::{FIRST, Machine, from_make, major};
use std::path::Path;
use testbed::test;

/// A copy of this machine, whose network is cut off, with a file in its `/packages`, and what is installed of the extension.
fn machine_with(file: &Path) -> Machine {
    let machine = Machine::new(file.parent().expect("a directory"));
    machine.run("rm -rf /etc/postgresql/*/*");
    machine.run(&format!("pg_createcluster {} new", major()));
    assert_eq!(installed(&machine), "", "the extension is installed on this machine");
    machine
}

fn installed(machine: &Machine) -> String {
    machine.run("find \"$(pg_config --pkglibdir)\" \"$(pg_config --sharedir)\" -name 'snowflake_*' | sort")
}

/// The server that was made issues an ID of its worker.
fn issue_first(machine: &Machine) {
    let major = major();
    machine.run(&format!("pg_conftool {major} new set shared_preload_libraries snowflake_pg"));
    machine.run(&format!("pg_conftool {major} new set snowflake_pg.worker_id 7"));
    machine.run(&format!("pg_ctlcluster {major} new start"));
    machine.sql(FIRST);
    let id = machine.sql("INSERT INTO orders (item) VALUES ('tea') RETURNING id");
    assert_eq!(machine.sql(&format!("SELECT worker_id FROM snowflake_decode({id})")), "7");
}

/// Not optimized, which takes a fourth of the time.
#[test(By("make suite NAME=packages"))]
fn the_sources_with_their_crates_build_and_install_without_git_and_network() {
    let archive = from_make("SNOWFLAKE_PG_TARBALL");
    let machine = machine_with(&archive);
    let cargo = String::from_utf8(std::process::Command::new("which").arg("cargo").output().expect("which").stdout);
    let programs = Path::new(cargo.expect("text").trim()).parent().expect("a directory").to_path_buf();
    machine.run("rm -f \"$(command -v git)\"");
    machine.run("mkdir /src && tar -xf /packages/snowflake_pg-*-vendored.tar.xz -C /src --strip-components 1");
    machine.attempt("timeout 10 getent hosts deb.debian.org").expect_err("a network");
    machine.run(&format!(
        "export PATH=\"$PATH:{}\" CARGO_HOME=/tmp/empty RUSTUP_HOME=\"{}\" CARGO_PROFILE_RELEASE_LTO=off \\
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
make -C /src",
        programs.display(),
        std::env::var("RUSTUP_HOME").unwrap_or_else(|_| "/root/.rustup".into()),
    ));
    machine.run("make -C /src install");
    issue_first(&machine);
}

#[test(By("make suite NAME=packages"))]
fn an_rpm_brings_what_make_install_does_runs_no_scripts_and_leaves_no_trace() {
    let package = from_make("SNOWFLAKE_PG_RPM");
    let machine = machine_with(&package);
    let rpm = format!("/packages/{}", package.file_name().expect("a file").display());
    assert_eq!(machine.run(&format!("rpm --query --scripts --triggers --package {rpm}")), "");
    // Debian's PostgreSQL is not in the database of rpm.
    machine.run(&format!("rpm --install --nodeps {rpm}"));
    let files = machine.run(&format!("rpm --query --list --package {rpm} | grep -v -e /doc/ -e /licenses/ | sort"));
    assert_eq!(installed(&machine), files);
    issue_first(&machine);
    let name = format!("snowflake_pg_{}", major());
    machine.run(&format!("rpm --verify --nodeps {name} && rpm --erase {name}"));
    assert_eq!(installed(&machine), "");
    // As `make install` says it, into the same places.
    let sources = testbed::sources();
    let directory = tempfile::tempdir().expect("a temporary directory");
    assert!(testbed::make_install(&sources, directory.path()).output().expect("make").status.success());
    let of_make =
        std::process::Command::new("find").arg(directory.path()).args(["-type", "f", "-printf", "/%P\n"]).output();
    let of_make = String::from_utf8(of_make.expect("find").stdout).expect("text");
    let mut of_make: Vec<_> = of_make.lines().collect();
    of_make.sort_unstable();
    assert_eq!(files.lines().collect::<Vec<_>>(), of_make);
}
