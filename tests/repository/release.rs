//! `make release-check`, before it builds anything: in a repository of its own, of the few files that it reads.

use std::fs;
use std::process::{Command, Output};
use tempfile::TempDir;
use testbed::{project, test};

const CHECK: &str = "tools/release_check";
const PLACES: &str = "tools/release.mk";
const RESULTS: &str = "docs/benchmarks/results.md";
const TABLE: &str = "CONTRIBUTING.md";
const MEASURED: &str = "// as it was measured\n";

struct Repository(TempDir);

impl Repository {
    /// Ready for a tag, as far as its files tell.
    fn new() -> Self {
        let repository = Self(tempfile::tempdir().expect("a temporary directory"));
        repository.write("debian/pgversions", "15\n");
        repository.write(CHECK, &fs::read_to_string(project().join(CHECK)).expect("the check"));
        repository.write(PLACES, &fs::read_to_string(project().join(PLACES)).expect("the placeholders"));
        repository.write("snowflake_pg.control", "default_version = '1.0.0'\n");
        repository.write("CHANGELOG.md", "# Changes\n\n## 1.0.0 (2026-12-24)\n");
        repository.write("src/lib.rs", MEASURED);
        repository.git("init --quiet");
        repository.commit();
        let measured = repository.git("rev-parse --short HEAD");
        repository.write(RESULTS, &format!("- commit: {measured}\n"));
        repository.write(TABLE, &format!("`make release-check`, commit {measured}\n"));
        repository.commit();
        repository
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("own folder");
        fs::write(path, text).expect("own file");
    }

    fn git(&self, arguments: &str) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=test", "-c", "user.email=test@localhost"]).args(arguments.split(' '));
        let output = git.current_dir(&self.0).output().expect("git");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    fn commit(&self) {
        self.write(".gitignore", "target\n");
        self.git("add --all");
        self.git("commit --quiet --message change");
    }

    /// What the steps say that need no build.
    fn check(&self) -> (bool, String) {
        self.steps(&["tree", "names", "figures"])
    }

    fn steps(&self, steps: &[&str]) -> (bool, String) {
        let mut check = Command::new("sh");
        let output = check.arg(CHECK).args(steps).current_dir(&self.0).output();
        let Output { status, stdout, .. } = output.expect("the check");
        (status.success(), String::from_utf8(stdout).expect("text"))
    }

    fn refuses(&self, what: &str) {
        let (passed, said) = self.check();
        assert!(!passed && said.contains(what), "{what}: {said}");
    }
}

#[test]
fn a_commit_is_not_ready_for_a_tag_with_changes_empty_fields_or_figures_of_other_code() {
    let repository = Repository::new();
    let (passed, said) = repository.check();
    assert!(passed, "{said}");

    repository.write("new", "");
    repository.refuses("?? new");
    let places = fs::read_to_string(project().join(PLACES)).expect("the placeholders");
    let place = |name: &str| {
        let found = places.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    for (name, text) in [
        ("debian/control.in", &*format!("Homepage: {}", place("place"))),
        ("META.json", &format!("\"maintainer\": \"{}\"", place("address"))),
        ("SECURITY.md", "gh attestation verify --repo OWNER/snowflake_pg"),
        (".github/CODEOWNERS", "* @OWNER"),
        ("README.md", "Version 1.0.0, not released yet."),
        ("contrib/agents/llms.txt", "No version has been released yet."),
    ] {
        repository.write(name, &format!("{text}\n"));
        repository.commit();
        repository.refuses(&format!("{name}:1:{text}"));
        repository.git(&format!("rm --quiet {name}"));
    }
    repository.write("CHANGELOG.md", "# Changes\n\n## 1.0.0 (unreleased)\n");
    repository.commit();
    repository.refuses("CHANGELOG.md gives 1.0.0 no date");
    // Nothing waits for a date but the tag.
    repository.refuses("| names | **failed** |");
    repository.refuses("| figures | passed |");
    repository.write("CHANGELOG.md", "# Changes\n\n## 1.0.0 (2026-12-24)\n");
    repository.write("src/lib.rs", "// faster\n");
    repository.commit();
    repository.refuses("docs/benchmarks/results.md has figures of");
    repository.write("src/lib.rs", MEASURED);
    repository.commit();
    assert!(repository.check().0);
    repository.git("tag v1.0.0");
    // A tag may have come since it passed.
    repository.write("other", "");
    repository.commit();
    repository.refuses("there is a tag v1.0.0");
}

#[test]
fn a_step_that_the_table_says_has_passed_is_done_again_once_what_is_built_changes() {
    let repository = Repository::new();
    let table = fs::read_to_string(repository.0.path().join(TABLE)).expect("a table");
    let row = |name: &str, at: &str| format!("| {name} | passed | 3 | 2026-12-01 | {at} |\n");
    repository.write("tests/one.rs", "");
    repository.commit();
    let head = || repository.git("rev-parse --short HEAD");
    let rows = [row("ci", &head()), row("list", "0123456")].concat();
    repository.write(TABLE, &format!("{table}\n| | result | minutes | on | at |\n|---|---|---|---|---|\n{rows}"));
    repository.commit();
    let (passed, said) = repository.steps(&["ci", "list"]);
    assert!(passed && said.matches(": passed before").count() == 2 && said.contains(&rows), "{said}");
    // Tests of this commit have not run.
    repository.write("tests/one.rs", "// more\n");
    repository.commit();
    let (passed, said) = repository.steps(&["ci", "list"]);
    assert!(!passed && said.contains("| ci | **failed** |") && said.contains("==> list: passed before"), "{said}");
    repository.write("src/lib.rs", "// faster\n");
    repository.commit();
    let (passed, said) = repository.steps(&["list"]);
    assert!(!passed && said.contains("| list | **failed** |") && said.contains(&format!(" | {} |", head())), "{said}");
}
