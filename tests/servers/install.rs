//! `make install`, into a directory of its own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use testbed::{
    Cluster, Installation, library, make_install, need_postgresql, pg_config, postgresql, project, test, value,
    version_of,
};

/// A copy of what `make install` reads, and a root directory for what it writes.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().expect("a temporary directory"));
        let read = ["Makefile", "snowflake_pg.control", "tools/names.mk", "tools/packages.mk", "tools/release.mk"];
        for name in read {
            tree.write(name, &fs::read(project().join(name)).expect("a file of the project"));
        }
        tree.write(RELEASED, b"");
        for folder in ["extension", "adopt", "feed", "registry", "hosted"].map(|product| format!("sql/{product}")) {
            for part in fs::read_dir(project().join(&folder)).expect("a product") {
                let part = part.expect("a part").path();
                let name = part.file_name().and_then(|name| name.to_str()).expect("a name");
                tree.write(&format!("{folder}/{name}"), &fs::read(&part).expect("a part"));
            }
        }
        tree.write("target/release/libsnowflake_pg.so", &fs::read(library()).expect("a library that is built"));
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("own directory");
        fs::write(path, content).expect("own file");
    }

    fn install(&self) -> Output {
        make_install(self.0.path(), &self.path("root")).output().expect("make")
    }

    /// What `make install` says when it refuses, for the PostgreSQL of this program. It installs nothing then.
    fn refused(&self, pg_config: &Path) -> String {
        let mut make = make_install(self.0.path(), &self.path("root"));
        let output = make.arg(format!("PG_CONFIG={}", pg_config.display())).output().expect("make");
        assert!(!output.status.success(), "{output:?}");
        assert!(!self.path("root").exists(), "something is installed: {output:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        said.lines().filter_map(|line| line.strip_prefix("==> ")).map(|line| line.to_owned() + "\n").collect()
    }

    /// A pg_config as that of this version would be.
    fn pg_config(&self, version: &str) -> PathBuf {
        let real = std::env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".to_owned());
        let script = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo '{version}' || exec '{real}' \"$@\"\n");
        self.write("pg_config", script.as_bytes());
        let path = self.path("pg_config");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("own file");
        path
    }

    /// The names of what was installed into one of PostgreSQL's directories.
    fn installed(&self, directory: &Path) -> Vec<String> {
        let directory = self.path("root").join(directory.strip_prefix("/").expect("an absolute path"));
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
        names.sort_unstable();
        names
    }
}

/// The extensions, in the order of their files.
const EXTENSIONS: [&str; 4] = ["snowflake_adopt", "snowflake_feed", "snowflake_pg", "snowflake_registry"];

/// The releases.
const RELEASED: &str = "tests/sql/extension/released/SHA256SUMS";

/// What makes them.
fn scripts() -> [String; 4] {
    EXTENSIONS.map(|extension| format!("{extension}--{}.sql", version_of(extension)))
}

#[test]
fn the_library_the_scripts_and_every_upgrade_script_are_installed() {
    let tree = Tree::new();
    let files = |upgrades: &[&str]| {
        let controls = EXTENSIONS.map(|extension| format!("{extension}.control"));
        let mut files: Vec<_> = upgrades.iter().copied().map(str::to_owned).chain(controls).chain(scripts()).collect();
        files.sort_unstable();
        files
    };
    let extension = pg_config("--sharedir").join("extension");
    let output = tree.install();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tree.installed(&pg_config("--pkglibdir")), ["snowflake_pg.so"]);
    assert_eq!(tree.installed(&extension), files(&[]), "where there is no upgrade script");

    let upgrades =
        ["snowflake_pg--0.0.1--0.0.2.sql", "snowflake_pg--0.0.2--0.1.0.sql", "snowflake_feed--0.0.1--0.0.2.sql"];
    for upgrade in upgrades {
        tree.write(&format!("sql/{upgrade}"), b"");
    }
    // Those of the registry and of adopting are written from each release.
    let released = [
        "snowflake_registry--0.0.1",
        "snowflake_registry--0.0.1--0.0.2",
        "snowflake_pg--0.0.1",
        "snowflake_adopt--0.0.1",
    ];
    let released = released.into_iter().map(|name| format!("{name}.sql")).chain(scripts());
    let released: String = released.map(|name| format!("{}  {name}\n", "0".repeat(64))).collect();
    tree.write(RELEASED, released.as_bytes());
    tree.write("sql/adopt/from-0.0.1.psql", b"-- For this version alone.\n");
    let of_registry = concat!("snowflake_registry--0.0.1--", env!("CARGO_PKG_VERSION"), ".sql");
    let of_adopt = format!("snowflake_adopt--0.0.1--{}.sql", version_of("snowflake_adopt"));
    let output = tree.install();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tree.installed(&extension), files(&[&upgrades[..], &[of_registry, &of_adopt]].concat()));
    let update = tree.path("root").join(extension.strip_prefix("/").expect("a path")).join(of_adopt);
    let update = fs::read_to_string(update).expect("a script");
    assert!(update.contains("\n-- For this version alone.\n") && !update.contains("\nCREATE TABLE"), "{update}");
}

/// cargo-pgrx has a list of its own, which a new file can be missing from.
#[test]
fn cargo_pgrx_makes_its_script_of_the_files_that_make_install_joins() {
    let folder = project().join("sql/extension");
    let entries = fs::read_dir(&folder).expect("parts").map(|entry| entry.expect("a part").file_name());
    let parts: BTreeSet<_> = entries.map(|name| name.into_string().expect("a name")).collect();
    let library = fs::read_to_string(project().join("src/lib.rs")).expect("a source");
    let named = library.split("extension_sql_file!(\"../sql/extension/").skip(1);
    let named: BTreeSet<_> = named.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect();
    assert_eq!(named, parts);
}

/// The markers are for `tests/mutants`, which reads the sources.
#[test]
fn no_script_that_is_installed_has_a_marker_of_a_mutant() {
    let installation = Installation::shared();
    let others =
        ["snowflake_hosted.sql", "snowflake_registry.sql", "snowflake_feed.sql"].map(|name| installation.script(name));
    for file in scripts().into_iter().map(|name| installation.scripts().join(name)).chain(others) {
        let script = fs::read_to_string(&file).expect("a script");
        assert!(!script.contains("-- mutant:"), "{}", file.display());
    }
}

#[test]
fn a_library_that_was_built_for_another_postgresql_is_not_installed() {
    let tree = Tree::new();
    let (built, other) = (postgresql(), postgresql() + 1);
    let pg_config = tree.pg_config(&format!("PostgreSQL {other}.0"));
    assert_eq!(
        tree.refused(&pg_config),
        format!(
            "target/release/libsnowflake_pg.so was built for PostgreSQL {built}, and {0} is of PostgreSQL {other}.\n\
             To build for that one, type make PG_CONFIG={0}\n",
            pg_config.display()
        )
    );
    // What the linker puts behind the number does not belong to it.
    tree.write("target/release/libsnowflake_pg.so", b"snowflake_pg built for PostgreSQL 14.8");
    assert!(tree.refused(&pg_config).contains("was built for PostgreSQL 14, "));
    tree.write("target/release/libsnowflake_pg.so", b"a library of another time");
    assert_eq!(
        tree.refused(&pg_config),
        format!(
            "target/release/libsnowflake_pg.so does not say which PostgreSQL it was built for.\n\
             To build it, type make PG_CONFIG={}\n",
            pg_config.display()
        )
    );
}

#[test]
fn nothing_is_installed_for_an_unknown_postgresql() {
    let tree = Tree::new();
    let missing = tree.path("missing");
    let said =
        format!("{0} does not say which PostgreSQL it is of.\nAdd PG_CONFIG=/path/to/pg_config\n", missing.display());
    assert_eq!(tree.refused(&missing), said);
}

/// Packages are often stripped.
#[test]
fn a_library_without_symbols_says_what_it_was_built_for() {
    let tree = Tree::new();
    let library = tree.path("target/release/libsnowflake_pg.so");
    let strip = Command::new("strip").arg("--strip-all").arg(&library).status().expect("strip, of binutils");
    assert!(strip.success());
    let output = tree.install();
    assert!(output.status.success(), "{output:?}");
    let pg_config = tree.pg_config("PostgreSQL 99.0");
    fs::remove_dir_all(tree.path("root")).expect("own directory");
    assert!(tree.refused(&pg_config).contains(&format!("was built for PostgreSQL {}, ", postgresql())));
}

#[test]
fn an_extension_outside_the_installation_is_found_by_the_paths_of_postgresql_18() {
    need_postgresql(18);
    let mut cluster = Cluster::builder().worker(1).create();
    let root = cluster.make_directory("elsewhere");
    let output =
        make_install(&project(), &root).arg(format!("library={}", library().display())).output().expect("make");
    assert!(output.status.success(), "{output:?}");
    let inside = |path: PathBuf| root.join(path.strip_prefix("/").expect("a path")).display().to_string();
    let directory = inside(pg_config("--pkglibdir"));
    cluster.configure("extension_control_path", format!("{}:$system", inside(pg_config("--sharedir"))));
    cluster.configure("dynamic_library_path", format!("{directory}:$libdir"));
    cluster.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    let location = "SELECT location FROM pg_available_extensions WHERE name = 'snowflake_pg'";
    if postgresql() > 18 {
        assert!(value(&mut client, location).starts_with(&root.display().to_string()));
    }
    // The postmaster, this session, and the keeper.
    let pids = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
        WHERE pid = pg_backend_pid() OR backend_type LIKE 'snowflake%'";
    let pids = value(&mut client, pids);
    assert_eq!(pids.split(' ').count(), 2, "{pids}");
    for pid in pids.split(' ') {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process");
        let library = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .filter(|file| file.ends_with("/snowflake_pg.so"));
        let library: BTreeSet<_> = library.collect();
        assert_eq!(library, BTreeSet::from([&*format!("{directory}/snowflake_pg.so")]), "{pid}");
    }
}
