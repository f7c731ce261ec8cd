//! Breaks the guards of the extension one at a time, and shows which test notices. A guard whose loss nobody notices is
//! not tested.
//!
//! Works on a copy of the sources in target/mutants. Each mutant replaces text that must stand in its file exactly once, so
//! that it can't go stale unnoticed. Arguments choose mutants by parts of their names.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// A guard that is taken out.
struct Mutant {
    /// What is wrong with it.
    name: &'static str,
    /// Where, what stands there, and what is put in its place.
    edits: &'static [(&'static str, &'static str, &'static str)],
    /// Which tests to run against it.
    against: Against,
}

/// Tests that should notice: some of a binary of tests on servers, those of the core, or its interleavings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    Core,
    Loom,
    Servers { binary: &'static str, tests: &'static str },
}
use Against::{Core, Loom, Servers};

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "the mark is published before it is on disk",
        edits: &[(
            "src/mark.rs",
            "        persist(&directory, &Record { mark, identity: own }, log_time(mirrored))?;\n        allow(layout, needed, now, mark);",
            "        allow(layout, needed, now, mark);\n        persist(&directory, &Record { mark, identity: own }, log_time(mirrored))?;",
        )],
        against: Servers { binary: "faults", tests: "row_05" },
    },
    Mutant {
        name: "a clock that was set back lowers the mark",
        edits: &[(
            "crates/snowflake_core/src/reservation.rs",
            ".max(needed.saturating_add(LEAST_STEP_MS)).max(mark)",
            ".max(needed.saturating_add(LEAST_STEP_MS)).max(mark & 1)",
        )],
        against: Core,
    },
    Mutant {
        name: "the mark is published although no standby has acknowledged it",
        edits: &[("src/keeper.rs", "            end_if_told();\n            mirrored", "            mirrored")],
        against: Servers { binary: "faults", tests: "row_28" },
    },
    Mutant {
        name: "a want of the mark outlives the call that was cancelled",
        edits: &[(
            "src/wal_mark.rs",
            "let _ = shared().wanted.compare_exchange(wanted, 0, Ordering::Relaxed, Ordering::Relaxed);",
            "let _ = wanted;",
        )],
        against: Servers { binary: "faults", tests: "row_28" },
    },
    Mutant {
        name: "the keeper does not look again at what is wanted when the log has the mark",
        edits: &[(
            "src/mark.rs",
            "(WalMark::Require, Some(mirrored)) => Some(wanted.min(mirrored.mark)),",
            "(WalMark::Require, Some(mirrored)) => Some(mirrored.mark),",
        )],
        against: Servers { binary: "faults", tests: "row_28" },
    },
    Mutant {
        name: "the file is not flushed",
        edits: &[("src/state_file.rs", "file.sync_all().during(\"flush file\", &temporary)?;", "")],
        against: Servers { binary: "faults", tests: "row_05" },
    },
    Mutant {
        name: "the directory is not flushed",
        edits: &[("src/state_file.rs", "self.opened.sync_all().during(\"flush directory\", &self.path)", "Ok(())")],
        against: Servers { binary: "faults", tests: "row_05" },
    },
    Mutant {
        name: "there is no floor after a crash",
        edits: &[(
            "crates/snowflake_core/src/identity.rs",
            "Ok(Beginning { floor: *mark, cause: Cause::Restart })",
            "Ok(Beginning { floor: *mark & 1, cause: Cause::Restart })",
        )],
        against: Servers { binary: "faults", tests: "row_03" },
    },
    Mutant {
        name: "every process that ends lowers the mark",
        edits: &[
            (
                "src/shutdown.rs",
                "    if me != postmaster {\n        return;\n    }\n    if code == 0 {",
                "    let _ = (me, postmaster);\n    if code >= 0 {",
            ),
            (
                "src/issuer.rs",
                "let (layout, series) = identity::configured()?;\n        Ok(",
                "let (layout, series) = identity::configured()?;\n        crate::shutdown::prepare();\n        Ok(",
            ),
        ],
        against: Servers { binary: "faults", tests: "row_03" },
    },
    Mutant {
        name: "a damaged state file counts as a missing one",
        edits: &[(
            "src/state_file.rs",
            "Err(damage) => Err(StateFileError::Damaged { path, damage }),",
            "Err(_) => Ok(None),",
        )],
        against: Servers { binary: "faults", tests: "row_07" },
    },
    Mutant {
        name: "a start without a mark does not wait for its guard",
        edits: &[("src/mark.rs", "    if plan.is_held() {", "    if false {")],
        against: Servers { binary: "faults", tests: "row_07" },
    },
    Mutant {
        name: "the generator starts before its first mark is on disk",
        edits: &[(
            "src/mark.rs",
            "    persist(&directory, &Record { mark, identity: own }, log_time(mirrored))?;\n    shared.directory[0]",
            "    shared.directory[0]",
        )],
        against: Servers { binary: "crashes", tests: "" },
    },
    Mutant {
        name: "every jump of the clock is believed at once",
        edits: &[(
            "crates/snowflake_core/src/anchor.rs",
            ".saturating_add(max_jump)",
            ".saturating_add(max_jump.max(u64::MAX))",
        )],
        against: Servers { binary: "faults", tests: "row_11" },
    },
    Mutant {
        name: "whatever the clock says after a crash of a backend is believed",
        edits: &[(
            "src/anchor.rs",
            "Anchor::new(believed().load(Ordering::Relaxed), 0)",
            "Anchor::new(clock::unix_ms(), clock::since_boot_ms())",
        )],
        against: Servers { binary: "faults", tests: "row_11" },
    },
    Mutant {
        name: "a state directory that was swapped is not noticed",
        edits: &[(
            "src/mark.rs",
            "if found.is(&Directory { inode, born_ns }) {",
            "if found.is(&Directory { inode, born_ns }) || true {",
        )],
        against: Servers { binary: "admin", tests: "a_state_directory_that_is_swapped" },
    },
    Mutant {
        name: "another server's mark is replaced",
        edits: &[(
            "src/mark.rs",
            "Ok(Some(record)) if !record.identity.is(own) =>",
            "Ok(Some(record)) if !record.identity.is(own) && !record.identity.is(&record.identity) =>",
        )],
        against: Servers { binary: "admin", tests: "two_servers_that_share" },
    },
    Mutant {
        name: "a shutdown lowers another server's mark",
        edits: &[(
            "src/shutdown.rs",
            "if lowest < found.mark && found.identity.is(&own) {",
            "if lowest < found.mark && found.identity.is(&found.identity) {",
        )],
        against: Servers { binary: "admin", tests: "a_server_that_stops" },
    },
    Mutant {
        name: "a standby may start the generator",
        edits: &[("src/mark.rs", "if unsafe { pg_sys::RecoveryInProgress() } {", "if false {")],
        against: Servers { binary: "faults", tests: "row_16" },
    },
    Mutant {
        name: "a promoted standby does not look for the mark in the log",
        edits: &[(
            "src/wal_mark.rs",
            "shared().wal_mark.load(Ordering::Relaxed).checked_sub(1)",
            "shared().wal_mark.load(Ordering::Relaxed).checked_sub(1).map(|_| 0)",
        )],
        against: Servers { binary: "faults", tests: "row_17" },
    },
    Mutant {
        name: "a copy of a data directory is not noticed",
        edits: &[(
            "crates/snowflake_core/src/identity.rs",
            "identity.timeline == own.timeline && !same_directory {",
            "identity.timeline == own.timeline && !same_directory && same_directory {",
        )],
        against: Servers { binary: "faults", tests: "row_20" },
    },
    Mutant {
        name: "a server recovered to a point in time begins at its mark",
        edits: &[(
            "crates/snowflake_core/src/identity.rs",
            "    } else if identity.timeline < own.timeline {",
            "    } else if identity.timeline < own.timeline && same_directory && !same_directory {",
        )],
        against: Servers { binary: "faults", tests: "row_22" },
    },
    Mutant {
        name: "a session may set the worker ID",
        edits: &[(
            "src/gucs.rs",
            "        -1,\n        i32::MAX,\n        GucContext::Postmaster,",
            "        -1,\n        i32::MAX,\n        GucContext::Userset,",
        )],
        against: Servers { binary: "faults", tests: "row_29" },
    },
    Mutant {
        name: "a changed layout is not noticed",
        edits: &[("crates/snowflake_core/src/identity.rs", "identity.layout != own.layout;", "false;")],
        against: Servers { binary: "faults", tests: "row_30" },
    },
    Mutant {
        name: "snowflake_nextval() is STABLE",
        edits: &[(
            "sql/snowflake_pg.sql",
            "CREATE FUNCTION snowflake_nextval() RETURNS bigint\n    LANGUAGE c VOLATILE",
            "CREATE FUNCTION snowflake_nextval() RETURNS bigint\n    LANGUAGE c STABLE",
        )],
        against: Servers { binary: "sql_surface", tests: "an_id_that_a_query" },
    },
    Mutant {
        name: "the state is stored without looking whether another caller was faster",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "self.state.compare_exchange(seen, last, Ordering::AcqRel, Ordering::Relaxed).map(",
            "Ok(self.state.swap(last, Ordering::AcqRel)).map(|_| seen).map(",
        )],
        against: Servers { binary: "faults", tests: "row_31" },
    },
    Mutant {
        name: "callers do not look at the limit",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "if opens && first >= self.early.load(Ordering::Acquire) {",
            "if opens && self.early.load(Ordering::Acquire) == 0 {",
        )],
        against: Core,
    },
    Mutant {
        name: "a tick is entered in the history before it is closed",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "        let Ok(run) = self.try_claim(state, first, want) else { return Outcome::Lost };\n        if opens {\n            \
             self.close(state, first, policy);\n        }",
            "        if opens {\n            self.close(state, first, policy);\n        }\n        let Ok(run) = \
             self.try_claim(state, first, want) else { return Outcome::Lost };",
        )],
        against: Loom,
    },
    Mutant {
        name: "the history takes what lies below the floor",
        edits: &[("crates/snowflake_core/src/history.rs", "if tick <= self.floor() {", "if tick == 0 {")],
        against: Loom,
    },
    Mutant {
        name: "the history counts one position too few as used",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "            let used = self.numbered(last);",
            "            let used = self.numbered(last) - 1;",
        )],
        against: Servers { binary: "faults", tests: "row_14" },
    },
    Mutant {
        name: "a clock that has gone back is waited for where the policy is to refuse",
        edits: &[(
            "crates/snowflake_core/src/generator.rs",
            "ClockRegression::Error if regressed => Outcome::Behind(shown),",
            "ClockRegression::Error if regressed => Outcome::Wait(shown),",
        )],
        against: Servers { binary: "status", tests: "refusals" },
    },
    Mutant {
        name: "IDs go on from the last timestamp where the policy is to wait or to refuse",
        edits: &[(
            "crates/snowflake_core/src/policy.rs",
            "(ClockRegression::Wait | ClockRegression::Error, _) if regressed => 0,",
            "(ClockRegression::Wait | ClockRegression::Error, _) if regressed => self.max_borrow,",
        )],
        against: Servers { binary: "faults", tests: "row_14" },
    },
];

fn main() -> ExitCode {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Tree::copy(&project, &project.join("target/mutants/tree"));
    let chosen: Vec<_> =
        MUTANTS.iter().filter(|m| chosen.is_empty() || chosen.iter().any(|part| m.name.contains(part))).collect();
    // Tests that fail on the extension as it is would catch everything.
    let mut controls: Vec<Against> = Vec::new();
    for mutant in &chosen {
        if !controls.contains(&mutant.against) {
            controls.push(mutant.against);
        }
    }
    for against in &controls {
        if let Ok(failed) = tree.run(*against) {
            println!("with nothing broken, this fails already: {failed}");
            return ExitCode::FAILURE;
        }
    }
    println!("with nothing broken, all {} groups of tests pass", controls.len());
    let mut survivors = 0;
    for mutant in &chosen {
        let began = Instant::now();
        let verdict = tree.try_mutant(mutant);
        survivors += usize::from(verdict.is_err());
        let took = began.elapsed().as_secs();
        let verdict = verdict.map_or_else(|why| format!("SURVIVES: {why}"), |tests| format!("caught by {tests}"));
        println!("{:<75} {took:>4} s  {verdict}", mutant.name);
    }
    println!("{} mutants, {} caught, {survivors} survived", chosen.len(), chosen.len() - survivors);
    ExitCode::from(u8::from(survivors > 0 || chosen.is_empty()))
}

/// A copy of the sources that may be spoilt.
struct Tree {
    root: PathBuf,
    target: PathBuf,
}

impl Tree {
    /// Copies what git knows of, also where it is changed. Leaves alone what is the same, so that cargo builds little.
    fn copy(project: &Path, root: &Path) -> Self {
        let listing = Command::new("git").current_dir(project).args(["ls-files", "-z"]).output().expect("git");
        assert!(listing.status.success(), "git ls-files failed");
        let listing = String::from_utf8(listing.stdout).expect("names of files");
        for name in listing.split_terminator('\0').filter(|name| project.join(name).exists()) {
            put(&root.join(name), &fs::read(project.join(name)).expect("a source"));
        }
        let root = root.canonicalize().expect("the copy");
        Self { target: root.with_file_name("build"), root }
    }

    /// Which tests notice a mutant; an error is why none does.
    fn try_mutant(&self, mutant: &Mutant) -> Result<String, String> {
        let mut originals = Vec::new();
        for (file, from, to) in mutant.edits {
            let path = self.root.join(file);
            let text = fs::read_to_string(&path).expect("a source");
            assert_eq!(text.matches(from).count(), 1, "{}: {file} must contain once: {from}", mutant.name);
            put(&path, text.replace(from, to).as_bytes());
            originals.push((path, text));
        }
        let verdict = self.run(mutant.against);
        for (path, text) in originals.into_iter().rev() {
            put(&path, text.as_bytes());
        }
        verdict
    }

    /// Which of these tests fail; an error is why none does.
    fn run(&self, against: Against) -> Result<String, String> {
        match against {
            Core => self.test(self.cargo(), &["--package", "snowflake_core"]),
            Loom => {
                let mut cargo = self.cargo();
                cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", self.target.with_file_name("loom"));
                self.test(cargo, &["--release", "--package", "snowflake_core", "--test", "loom"])
            }
            Servers { binary, tests } => {
                self.build();
                self.test(self.cargo(), &["--package", "testbed", "--test", binary, "--", tests])
            }
        }
    }

    fn build(&self) {
        let pg_config = std::env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".to_owned());
        let version = Command::new(&pg_config).arg("--version").output().expect("pg_config").stdout;
        let version = String::from_utf8_lossy(&version);
        let major = version.trim_start_matches("PostgreSQL ").split(|c: char| !c.is_ascii_digit()).next();
        let bindir = Command::new(&pg_config).arg("--bindir").output().expect("pg_config").stdout;
        let pg_config = Path::new(String::from_utf8_lossy(&bindir).trim()).join("pg_config");
        let feature = format!("pg{}", major.unwrap_or_default());
        for what in [&["--package", "disk_faults"][..], &["--release", "--features", &feature]] {
            let mut cargo = self.cargo();
            cargo.env("PGRX_PG_CONFIG_PATH", &pg_config).args(["build", "--locked", "--quiet"]).args(what);
            let output = cargo.output().expect("cargo");
            // A mutant that does not compile proves nothing.
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }

    fn test(&self, mut cargo: Command, arguments: &[&str]) -> Result<String, String> {
        let library = self.target.join("release/libsnowflake_pg.so");
        let output = cargo
            .env("SNOWFLAKE_PG_LIBRARY", library)
            .args(["test", "--locked", "--no-fail-fast"])
            .args(arguments)
            .output()
            .expect("cargo");
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = |line: &&str| line.starts_with("test ") && line.ends_with("FAILED");
        let names = text.lines().filter(failed).filter_map(|line| line.split_whitespace().nth(1));
        let names: Vec<_> = names.collect();
        match (names.len(), text.contains("test result:")) {
            (0, true) => Err("no test failed".to_owned()),
            (0, false) => panic!("the tests did not run:\n{}", String::from_utf8_lossy(&output.stderr)),
            _ => Ok(names.join(", ")),
        }
    }

    fn cargo(&self) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }
}

/// Writes a file, unless it is so already.
fn put(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file's directory")).expect("own directory");
    fs::write(path, bytes).expect("own file");
}
