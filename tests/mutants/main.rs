//! Removes checks from the extension one at a time, and shows which test notices. A check whose loss no test notices is
//! not tested.
//!
//! Spoils a copy of the sources in target/mutants, and runs the tests of `make test` against what is built of it.
//! Arguments choose mutants by parts of their names and sentences. `traces` chooses those that traces alone must show,
//! and `3/10` the third tenth of all.

mod edit;
mod list;

use edit::Source;
use list::Against::{self, Core, Loom, Servers, ServersAndSimulation, Traces};
use list::{Mutant, mutants};
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Instant;

fn main() -> ExitCode {
    let began = Instant::now();
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = mutants(&project);
    let chosen: Vec<_> = list::chosen(&all, &chosen);
    let controls = controls(&chosen);
    let tree = Tree::copy(&project, &project.join("target/mutants/tree"));
    for against in &controls {
        if let Ok(failed) = tree.run(against) {
            println!("with nothing broken, this fails already: {failed}");
            return ExitCode::FAILURE;
        }
    }
    let took = began.elapsed().as_secs();
    println!("with nothing broken, all these tests pass ({took} s with building)");
    let (mut survivors, mut by_traces) = (0, 0);
    for mutant in &chosen {
        let began = Instant::now();
        let verdict = tree.try_mutant(mutant);
        survivors += usize::from(verdict.is_err());
        by_traces += usize::from(verdict.is_ok() && mutant.against == Traces);
        let took = began.elapsed().as_secs();
        let verdict = verdict.map_or_else(|why| format!("SURVIVES: {why}"), |tests| format!("caught by {tests}"));
        println!("{:<28} {took:>4} s  {verdict}", mutant.name);
    }
    let (caught, minutes) = (chosen.len() - survivors, began.elapsed().as_secs().div_ceil(60));
    let all = chosen.len();
    println!("{all} mutants, {caught} caught, {by_traces} by traces alone, {survivors} survived, in {minutes} min");
    ExitCode::from(u8::from(survivors > 0 || chosen.is_empty()))
}

/// The tests that should notice these mutants, each once. Tests that fail on the extension as it is would catch
/// everything.
fn controls(chosen: &[&Mutant]) -> Vec<Against> {
    let (mut controls, mut on_servers) = (Vec::new(), BTreeSet::new());
    for mutant in chosen {
        match &mutant.against {
            Servers(tests) => drop(on_servers.insert(tests.as_str())),
            other if !controls.contains(other) => controls.push(other.clone()),
            _ => {}
        }
    }
    // Together: they mostly wait.
    if !on_servers.is_empty() {
        controls.push(Servers(on_servers.into_iter().collect::<Vec<_>>().join("|")));
    }
    controls
}

/// What a replay says of a server that the model does not allow.
const DIFFERS: &str = "does what the model cannot do";

/// What all tests on servers need less than.
const TIMEOUT: &str = "20m";

/// What `timeout` exits with.
const TIMED_OUT: i32 = 124;

/// A copy of the sources that may be spoilt.
struct Tree {
    root: PathBuf,
    target: PathBuf,
    /// The tests on servers, built once: they take nothing of the extension but its library and its scripts. So the
    /// core that they read state files by is never a spoilt one.
    servers: PathBuf,
}

impl Tree {
    /// Copies what git knows of, also where it is changed, and removes what is no longer there. Leaves alone what is
    /// the same, so that cargo builds little.
    fn copy(project: &Path, root: &Path) -> Self {
        let listing = Command::new("git").current_dir(project).args(["ls-files", "-z"]).output().expect("git");
        assert!(listing.status.success(), "git ls-files failed");
        let listing = String::from_utf8(listing.stdout).expect("names of files");
        for name in listing.split_terminator('\0').filter(|name| project.join(name).exists()) {
            put(&root.join(name), &fs::read(project.join(name)).expect("a source"));
        }
        remove_all_but(&listing.split_terminator('\0').map(|name| root.join(name)).collect(), root);
        let root = root.canonicalize().expect("the copy");
        Self { target: root.with_file_name("build"), root, servers: test_program(project) }
    }

    /// Which tests notice a mutant; an error is why none does.
    fn try_mutant(&self, mutant: &Mutant) -> Result<String, String> {
        let sources = Source::all(&self.root);
        let edited = sources.iter().find_map(|source| Some((source, mutant.edit.apply(source, &mutant.name)?)));
        let (source, edited) = edited.unwrap_or_else(|| panic!("{}: the edit changes nothing", mutant.name));
        put(&source.path, edited.as_bytes());
        let verdict = self.run(&mutant.against);
        put(&source.path, source.text.as_bytes());
        verdict
    }

    /// Which of these tests fail; an error is why none does. Of the core's, the schedules only run where the units all
    /// pass.
    fn run(&self, against: &Against) -> Result<String, String> {
        let mut cargo = self.cargo();
        cargo.args(["test", "--locked", "--package"]);
        match against {
            Core => failures(cargo.arg("snowflake_core")),
            Traces => {
                let asserting = self.take_out_assertions();
                // More schedules than `make test` tries: what only a rare one shows must not survive.
                cargo.env("SNOWFLAKE_PG_TESTS", "full");
                let output = cargo.args(["snowflake_core", "--test", "schedules", "the_model_allows"]).output();
                asserting.iter().for_each(|source| put(&source.path, source.text.as_bytes()));
                let output = output.expect("cargo");
                let failed = failed(&output)?;
                let differs = String::from_utf8_lossy(&output.stdout).contains(DIFFERS);
                if differs { Ok("traces alone".to_owned()) } else { Err(format!("{failed}, but not by its trace")) }
            }
            Loom(tests) => {
                cargo.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", self.target.with_file_name("loom"));
                failures(cargo.args(["snowflake_core", "--release", "--test", "loom", "--", tests.as_str()]))
            }
            ServersAndSimulation(tests) => {
                let found = failures(cargo.args(["fleet_simulation", "--test", "promises", "--", "no_id_is_issued"]))
                    .map_err(|why| format!("{why} of the simulation"))?;
                Ok(format!("{}; in the simulation: {found}", self.run(&Servers(tests.clone()))?))
            }
            Servers(tests) => {
                // As with the core's: a mutant can make a test hang. SIGTERM stops the servers, too.
                let mut program = Command::new("timeout");
                program.arg(TIMEOUT).arg(&self.servers);
                program.env("SNOWFLAKE_PG_LIBRARY", self.build()).env("SNOWFLAKE_PG_SOURCES", &self.root);
                failures(program.env("RUST_BACKTRACE", "0").arg(tests))
            }
        }
    }

    /// Takes the assertions out of the mark and of its schedules, so that only what servers record shows what is wrong.
    /// Returns the sources with them.
    fn take_out_assertions(&self) -> Vec<Source> {
        let core = self.root.join("crates/snowflake_core");
        let has_some = |path: &Path| {
            ["src/mark", "src/mark.rs", "tests/schedules/server.rs"]
                .iter()
                .any(|part| path.starts_with(core.join(part)))
        };
        let asserting: Vec<_> = Source::all(&self.root).into_iter().filter(|source| has_some(&source.path)).collect();
        for Source { path, text, .. } in &asserting {
            put(path, text.replace(" assert!(", " assert!(true || ").as_bytes());
        }
        asserting
    }

    /// Builds the extension, and says where the library is.
    fn build(&self) -> PathBuf {
        let pg_config = std::env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".to_owned());
        let version = Command::new(&pg_config).arg("--version").output().expect("pg_config").stdout;
        let version = String::from_utf8_lossy(&version);
        let major = version.trim_start_matches("PostgreSQL ").split(|c: char| !c.is_ascii_digit()).next();
        let bindir = Command::new(&pg_config).arg("--bindir").output().expect("pg_config").stdout;
        let pg_config = Path::new(String::from_utf8_lossy(&bindir).trim()).join("pg_config");
        let feature = format!("pg{}", major.unwrap_or_default());
        let mut cargo = self.cargo();
        cargo.env("PGRX_PG_CONFIG_PATH", &pg_config);
        cargo.args(["build", "--locked", "--quiet", "--release", "--ignore-rust-version", "--features", &feature]);
        let output = cargo.output();
        let output = output.expect("cargo");
        // A mutant that does not compile proves nothing.
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.target.join("release/libsnowflake_pg.so")
    }

    fn cargo(&self) -> Command {
        // A mutant of the core can make a test hang.
        let mut cargo = Command::new("timeout");
        cargo.args([TIMEOUT, "cargo"]);
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        // Optimized as what is installed, but for what makes a build take half a minute instead of a second.
        cargo.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256");
        cargo.env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true").env_remove("CARGO_INCREMENTAL");
        // That a schedule fails is enough: the least one that does takes minutes to find.
        cargo.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("RUST_BACKTRACE", "0");
        cargo
    }
}

/// The tests on servers, as `make test` builds them.
fn test_program(project: &Path) -> PathBuf {
    let build = |arguments: &[&str]| {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(project).args(arguments).args(["--locked", "--message-format=json-render-diagnostics"]);
        let output = cargo.stderr(Stdio::inherit()).output().expect("cargo");
        assert!(output.status.success(), "the tests must compile");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    build(&["build", "--package", "disk_faults"]);
    let messages = build(&["test", "--no-run", "--package", "promises", "--test", "servers"]);
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).expect("cargo's message");
        (message["target"]["name"] == "servers").then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    programs.next_back().expect("a program")
}

/// Which of the tests that a program runs fail; an error is why none does.
fn failures(program: &mut Command) -> Result<String, String> {
    failed(&program.output().expect("tests"))
}

/// Which tests have failed in this output; an error is why none has.
fn failed(Output { status, stdout, stderr }: &Output) -> Result<String, String> {
    if status.success() {
        return Err("no test failed".to_owned());
    }
    // In the list at the end of each program. A line about one test can have another's output in it.
    let text = String::from_utf8_lossy(stdout);
    let lists = text.split("\nfailures:\n").skip(1);
    let names = lists.flat_map(|list| list.lines().map_while(|line| line.strip_prefix("    ")));
    let mut names: Vec<_> = names.filter(|name| !name.contains(' ')).collect();
    names.extend(text.lines().filter_map(|line| line.strip_prefix("still running: ")));
    let hangs = status.code() == Some(TIMED_OUT);
    assert!(hangs || !names.is_empty(), "the tests did not run:\n{}", String::from_utf8_lossy(stderr));
    Ok(if hangs { "a test that hangs".to_owned() } else { names.join(", ") })
}

/// Writes a file, unless it is so already.
fn put(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file's directory")).expect("own directory");
    fs::write(path, bytes).expect("own file");
}

/// Removes the files of a directory, and of those in it, that are not to be kept.
fn remove_all_but(kept: &HashSet<PathBuf>, directory: &Path) {
    for entry in fs::read_dir(directory).expect("the copy") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            remove_all_but(kept, &path);
        } else if !kept.contains(&path) {
            fs::remove_file(&path).expect("a source that is gone");
        }
    }
}
