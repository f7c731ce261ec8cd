//! Breaks the guards of the extension one at a time, and shows which test notices. A guard whose loss nobody notices is
//! not tested.
//!
//! Works on a copy of the sources in target/mutants. Each mutant replaces text that must stand in its file exactly once, so
//! that it can't go stale unnoticed. Arguments choose mutants by parts of their names.

mod list;

use list::Against::{self, Core, Loom, Servers};
use list::{MUTANTS, Mutant};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

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
        // That a schedule fails is enough: the least one that does takes minutes to find.
        cargo.env("PROPTEST_MAX_SHRINK_ITERS", "0").env("RUST_BACKTRACE", "0");
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
