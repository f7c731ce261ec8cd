//! The sources with their crates, and the package for Red Hat's distributions that is built from them.

use super::machine::Machine;
use super::{FIRST, SOONER, from_make};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use testbed::{make_install, pg_config, postgresql, sources, test};

/// A machine like this one, with a server that has never run, and a file in its `/packages`.
fn machine_with(file: &Path, transcript: &str) -> Machine {
    let machine = Machine::like_this(file.parent().expect("a directory"), transcript);
    assert_eq!(installed(&machine), Files::new(), "the extension is installed on this machine");
    machine.run("rm -rf /etc/postgresql/*/*");
    machine.run(&format!("pg_createcluster {} new", postgresql()));
    machine
}

type Files = BTreeSet<String>;

fn lines(text: &str) -> Files {
    text.lines().map(str::to_owned).collect()
}

/// What is there of the extension.
fn installed(machine: &Machine) -> Files {
    let [library, scripts] = ["--pkglibdir", "--sharedir"].map(|of| pg_config(of).display().to_string());
    lines(&machine.run(&format!("find {library} {scripts} -name 'snowflake_*'")))
}

/// What `make install` writes here.
fn of_make_install() -> Files {
    let root = tempfile::tempdir().expect("a temporary directory");
    assert!(make_install(&sources(), root.path()).output().expect("make").status.success());
    let found = Command::new("find").arg(root.path()).args(["-type", "f", "-printf", "/%P\n"]).output();
    lines(&String::from_utf8(found.expect("find").stdout).expect("text"))
}

/// The server that was made issues an ID of its worker.
fn issue_first(machine: &Machine) {
    let major = postgresql();
    machine.run(&format!("pg_conftool {major} new set shared_preload_libraries snowflake_pg"));
    machine.run(&format!("pg_conftool {major} new set snowflake_pg.worker_id 7"));
    machine.run(&format!("pg_ctlcluster {major} new start"));
    machine.sql(FIRST);
    let id = machine.sql("INSERT INTO orders (item) VALUES ('tea') RETURNING id");
    assert_eq!(machine.sql(&format!("SELECT worker_id FROM snowflake_decode({id})")), "7");
    machine.run(&format!("pg_ctlcluster {major} new stop"));
}

#[test(By("make suite NAME=packages"))]
fn the_sources_with_their_crates_build_and_install_without_git_and_network() {
    let archive = from_make("SNOWFLAKE_PG_TARBALL");
    let machine = machine_with(&archive, "tarball.txt");
    let cargo = String::from_utf8(Command::new("which").arg("cargo").output().expect("which").stdout).expect("text");
    let programs = Path::new(cargo.trim()).parent().expect("a directory").display();
    let toolchains = std::env::var("RUSTUP_HOME").unwrap_or_else(|_| "/root/.rustup".into());
    machine.run("rm -f \"$(command -v git)\" && ! command -v git");
    machine.run("mkdir /src && tar -xf /packages/snowflake_pg-*-vendored.tar.xz -C /src --strip-components 1");
    assert_eq!(machine.run("tail -n +2 /proc/net/route"), "", "a way to a network");
    let config = pg_config("--bindir").join("pg_config");
    machine.run(&format!(
        "export PATH=\"$PATH:{programs}\" CARGO_HOME=/tmp/empty RUSTUP_HOME={toolchains}
export {}
make -C /src PG_CONFIG={}",
        SOONER.join(" "),
        config.display()
    ));
    machine.run(&format!("make -C /src install PG_CONFIG={}", config.display()));
    issue_first(&machine);
}

#[test(By("make suite NAME=packages"))]
fn an_rpm_brings_what_make_install_does_runs_no_scripts_and_leaves_no_trace() {
    let package = from_make("SNOWFLAKE_PG_RPM");
    let machine = machine_with(&package, "rpm.txt");
    let rpm = format!("/packages/{}", package.file_name().expect("a file").display());
    assert_eq!(machine.run(&format!("rpm --query --scripts --triggers --package {rpm}")), "");
    let before = machine.changes();
    // Debian's PostgreSQL is not in the database of rpm.
    machine.run(&format!("rpm --install --nodeps {rpm}"));
    let files = lines(&machine.run(&format!("rpm --query --list --package {rpm} | grep -v -e /doc/ -e /licenses/")));
    assert_eq!(installed(&machine), files);
    assert_eq!(files, of_make_install());
    let name = format!("snowflake_pg_{}", postgresql());
    let debug = package.with_file_name(
        package.file_name().expect("a file").to_string_lossy().replace(&name, &format!("{name}-debuginfo")),
    );
    assert!(debug.exists(), "no names and lines: {}", debug.display());
    machine.follow_links("/usr/share/doc/snowflake_pg*");
    issue_first(&machine);
    machine.run(&format!("rpm --verify --nodeps {name} && rpm --erase {name}"));
    assert_eq!(machine.changes(), before);
}
