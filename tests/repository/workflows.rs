//! The workflows of GitHub, as far as they go without it, and the place that one command fills in.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;
use testbed::{project, test};

/// Steps that only GitHub's machines can run, or that the same command of the repository runs elsewhere.
const NOT_HERE: [(&str, &str); 12] = [
    ("Add PostgreSQL's own repository", "it changes the machine"),
    ("Install Rust", "it changes the machine"),
    ("Check", "make test and make lint"),
    ("Run it", "tools/nightly, which a test runs"),
    ("Pack the sources", "make suite NAME=packages runs make pack NAME=\"dist sbom\""),
    ("Check what is linked in", "make lint"),
    ("Build an RPM of the sources", "make suite NAME=packages"),
    ("Build the package", "Docker"),
    ("Install it, and issue an ID", "Docker"),
    ("Make the images of it", "its own suite"),
    ("Sign the sums", "Sigstore, and a token of GitHub"),
    ("Make the draft", "GitHub"),
];

#[derive(Deserialize)]
struct Workflow {
    jobs: BTreeMap<String, Job>,
}

#[derive(Deserialize)]
struct Job {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    name: Option<String>,
    run: Option<String>,
}

/// Each step with a script, by its name.
fn steps(workflow: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(project().join(".github/workflows").join(workflow)).expect("a workflow");
    let workflow: Workflow = serde_saphyr::from_str(&text).expect("YAML");
    let steps = workflow.jobs.into_values().flat_map(|job| job.steps);
    steps.filter_map(|step| Some((step.name.unwrap_or_default(), step.run?))).collect()
}

/// A copy of what git has, or would have, so that commands can change it.
fn copy() -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary directory");
    let script = "git ls-files -z --cached --others --exclude-standard | tar --null --files-from - --create \
        | tar --extract --directory \"$0\" && cd \"$0\" && git init --quiet && git add --all";
    let copied = Command::new("sh").args(["-ec", script]).arg(copy.path()).current_dir(project()).status();
    assert!(copied.expect("sh").success());
    copy
}

/// As GitHub does. The variables of a make that runs this process are not its own.
fn run(script: &str, folder: &Path, tag: &str) -> Output {
    let mut bash = Command::new("bash");
    bash.args(["-eo", "pipefail", "-c", script]).current_dir(folder).env("TAG", tag);
    bash.env("GITHUB_STEP_SUMMARY", folder.join("summary"));
    bash.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().expect("bash")
}

/// The script of a step of the release.
fn of_release(name: &str) -> String {
    steps("release.yml").into_iter().find(|step| step.0 == name).unwrap_or_else(|| panic!("no step {name}")).1
}

#[test]
fn every_step_of_a_workflow_runs_in_a_test_or_says_what_it_needs() {
    let here =
        ["Compare the tag with the version", "Refuse a project without a place", "Gather what is published", "Sum up"];
    for (name, script) in ["test.yml", "nightly.yml", "release.yml"].iter().flat_map(|workflow| steps(workflow)) {
        let is_known = here.contains(&&*name) || NOT_HERE.iter().any(|(other, _)| *other == name);
        assert!(is_known, "nothing runs the step {name:?}: {script}");
    }
}

#[test]
fn a_release_refuses_a_tag_of_another_version_and_a_project_without_a_place() {
    let copy = copy();
    let step = of_release("Compare the tag with the version");
    assert!(run(&step, copy.path(), concat!("v", env!("CARGO_PKG_VERSION"))).status.success());
    assert!(!run(&step, copy.path(), "v0.0.9").status.success());
    let step = of_release("Refuse a project without a place");
    assert!(!run(&step, copy.path(), "").status.success());
    let placed =
        run("make publish-as URL=https://github.com/ada/ids MAINTAINER='Ada <ada@host.example>'", copy.path(), "");
    assert!(placed.status.success(), "{placed:?}");
    assert!(run(&step, copy.path(), "").status.success());
}

#[test]
fn the_sums_of_a_release_are_over_every_file_and_show_one_that_was_changed() {
    let copy = copy();
    let made = "mkdir -p target/rpm; touch target/snowflake_pg-1.zip target/snowflake_pg-1-vendored.tar.xz \
        target/snowflake_pg-1.cdx.json target/snowflake_hosted.sql target/snowflake_registry.sql target/rpm/one.src.rpm \
        target/rpm/one.x86_64.rpm";
    // As the other jobs leave it.
    let debug = "mkdir target/release-files/dbgsym; touch target/release-files/dbgsym/one.deb";
    for step in [made, &of_release("Gather what is published"), debug, &of_release("Sum up"), &of_release("Sum up")] {
        let output = run(step, copy.path(), "");
        assert!(output.status.success(), "{step}: {output:?}");
    }
    let check = "cd target/release-files && sha256sum --strict --check SHA256SUMS";
    let output = run(check, copy.path(), "");
    assert!(output.status.success() && output.stdout.iter().filter(|&&c| c == b'\n').count() == 7, "{output:?}");
    assert!(!copy.path().join("target/release-files/dbgsym").exists(), "gh takes no directory");
    let runner = copy.path().join("target/release-files/one.x86_64.rpm");
    assert!(!runner.exists(), "the RPM that a runner builds is for no Red Hat");
    fs::write(copy.path().join("target/release-files/one.src.rpm"), "another").expect("own file");
    assert!(!run(check, copy.path(), "").status.success());
}

/// A runner has another distribution than the container in which it builds the package.
#[test]
fn images_of_a_release_are_for_the_distribution_it_was_built_on_and_that_of_the_documents() {
    let after = |name: &str, before: &str| {
        let text = fs::read_to_string(project().join(name)).expect("a file");
        let rest = text.split_once(before).unwrap_or_else(|| panic!("{name} lacks {before}")).1;
        rest.split(['\n', ';']).next().expect("a line").to_owned()
    };
    let version = env!("CARGO_PKG_VERSION");
    let built_on = after("examples/docker/Dockerfile", "ARG BUILD=postgres:${PG_MAJOR}-");
    let catalogue = after("docs/deployment.md", &format!("reference: registry.example.com/snowflake-pg:{version}-18-"));
    assert_eq!(after("contrib/packaging/publishing.md", &format!("snowflake-pg:{version}-18-")), catalogue);
    assert_eq!(after(".github/workflows/release.yml", "for DISTRIBUTION in "), format!("{built_on} {catalogue}"));
}

#[test]
fn the_page_of_a_night_shows_what_passed_and_what_failed() {
    let copy = copy();
    let output = run("tools/nightly help nonsense", copy.path(), "");
    let page = fs::read_to_string(copy.path().join("summary")).expect("a page");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(page.contains("| `help` | passed | ") && page.contains("| `nonsense` | **failed** | "), "{page}");
    assert!(copy.path().join("target/nightly/nonsense.log").exists());
}

#[test]
fn one_command_tells_every_file_where_the_project_is_and_who_keeps_it() {
    let copy = copy();
    for wrong in ["", "URL=http://github.com/ada/ids", "URL=https://github.com/ada", "URL=https://github.com/ada/ids/"]
    {
        let refused = run(&format!("make publish-as {wrong} MAINTAINER='Ada <ada@host.example>'"), copy.path(), "");
        assert!(!refused.status.success(), "{wrong}");
    }
    let refused = run("make publish-as URL=https://github.com/ada/ids MAINTAINER=Ada", copy.path(), "");
    assert!(!refused.status.success(), "an address is wanted");
    // What was there is read from the files that packagers read, so that no file can have a placeholder of its own.
    let meta = |name: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(copy.path().join(name)).expect("a file")).expect("JSON")
    };
    let before = meta("META.json");
    let url = before["resources"]["homepage"].as_str().expect("a URL").to_owned();
    let keeper = before["maintainer"].as_str().expect("a name").to_owned();
    let command = "make publish-as URL=https://github.com/ada/ids MAINTAINER='Ada L. <ada@host.example>'";
    let output = run(command, copy.path(), "");
    assert!(output.status.success(), "{output:?}");
    for left in [&*url, &keeper, "OWNER/snowflake_pg", "@OWNER", "noreply.a-seed"] {
        let output = run(&format!("git grep --fixed-strings -e '{left}' -- . ':!tools' ':!tests'"), copy.path(), "");
        assert_eq!(output.status.code(), Some(1), "{left}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let after = meta("META.json");
    assert_eq!(after["maintainer"], "Ada L. <ada@host.example>");
    assert_eq!(after["resources"]["repository"]["url"], "https://github.com/ada/ids.git");
    let text = |name: &str| fs::read_to_string(copy.path().join(name)).expect("a file");
    assert!(text("Cargo.toml").contains("repository = \"https://github.com/ada/ids\"\n"));
    assert!(text("debian/control.in").contains("Maintainer: Ada L. <ada@host.example>\n"));
    assert!(text(".github/CODEOWNERS").ends_with("* @ada\n"));
    assert!(text("SECURITY.md").contains("--repo ada/ids"));
}

/// `contrib/packaging/pigsty.csv` has the columns of Pigsty's catalogue, as of commit aa98bca of its command line `pig`.
#[test]
fn the_row_for_pigsty_agrees_with_what_packagers_read() {
    let text = fs::read_to_string(project().join("contrib/packaging/pigsty.csv")).expect("a row");
    let rows: Vec<_> = text.lines().map(cells).collect();
    assert!(rows.len() == 2 && rows[0].len() == 41 && rows[1].len() == 41, "{rows:?}");
    let cell = |name: &str| {
        let at = rows[0].iter().position(|column| column == name).unwrap_or_else(|| panic!("no column {name}"));
        &*rows[1][at]
    };
    let version = env!("CARGO_PKG_VERSION");
    for column in ["version", "rpm_ver", "deb_ver"] {
        assert_eq!(cell(column), version, "{column}");
    }
    assert_eq!(cell("source"), format!("snowflake_pg-{version}.tar.gz"));
    let listed = fs::read_to_string(project().join("debian/pgversions")).expect("versions");
    let listed: Vec<_> = listed.lines().filter(|major| *major != "19").collect();
    for column in ["pg_ver", "rpm_pg", "deb_pg"] {
        let mut majors: Vec<_> = cell(column).trim_matches(['{', '}']).split(',').collect();
        majors.reverse();
        assert_eq!(majors, listed, "{column}");
    }
    let extra: serde_json::Value = serde_json::from_str(cell("extra")).expect("JSON");
    let pgrx = format!("pgrx = {{ version = \"={}\"", extra["pgrx"].as_str().expect("a version"));
    assert!(fs::read_to_string(project().join("Cargo.toml")).expect("a manifest").contains(&pgrx), "{pgrx}");
    assert_eq!((cell("need_load"), cell("license"), cell("lang")), ("t", "MIT", "Rust"));
    let control = fs::read_to_string(project().join("snowflake_pg.control")).expect("a control file");
    for column in ["relocatable", "trusted"] {
        let value = if cell(column) == "t" { "true" } else { "false" };
        assert!(control.contains(&format!("\n{column} = {value}\n")), "{column}");
    }
}

/// The cells of a line of CSV, in which a quote is doubled within quotes.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        let last = cells.last_mut().expect("a cell");
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => last.push(letters.next().expect("a quote")),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => last.push(c),
        }
    }
    cells
}
