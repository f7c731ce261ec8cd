//! Steps of the workflow of a release that need no GitHub, and the place that one command fills in.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;
use testbed::{project, test};

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
    let text = fs::read_to_string(project().join(".github/workflows/release.yml")).expect("a workflow");
    let workflow: Workflow = serde_saphyr::from_str(&text).expect("YAML");
    let mut steps = workflow.jobs.into_values().flat_map(|job| job.steps);
    steps
        .find(|step| step.name.as_deref() == Some(name))
        .and_then(|step| step.run)
        .unwrap_or_else(|| panic!("no step {name}"))
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
        target/snowflake_pg-1.cdx.json target/snowflake_hosted.sql target/snowflake_registry.sql target/snowflake_feed.sql \
        target/rpm/one.src.rpm target/rpm/one.x86_64.rpm";
    // As the other jobs leave it.
    let debug = "mkdir target/release-files/dbgsym; touch target/release-files/dbgsym/one.deb";
    for step in [made, &of_release("Gather what is published"), debug, &of_release("Sum up"), &of_release("Sum up")] {
        let output = run(step, copy.path(), "");
        assert!(output.status.success(), "{step}: {output:?}");
    }
    let check = "cd target/release-files && sha256sum --strict --check SHA256SUMS";
    let output = run(check, copy.path(), "");
    assert!(output.status.success() && output.stdout.iter().filter(|&&c| c == b'\n').count() == 8, "{output:?}");
    assert!(!copy.path().join("target/release-files/dbgsym").exists(), "gh takes no directory");
    let runner = copy.path().join("target/release-files/one.x86_64.rpm");
    assert!(!runner.exists(), "the RPM that a runner builds is for no Red Hat");
    fs::write(copy.path().join("target/release-files/one.src.rpm"), "another").expect("own file");
    assert!(!run(check, copy.path(), "").status.success());
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
fn one_command_says_where_the_project_is_and_who_keeps_it_and_dates_and_freezes_a_release() {
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
    assert!(text("contrib/packaging/rpm/snowflake_pg.spec").contains(" Ada L. <ada@host.example> - "));
    assert!(text("README.md").contains("git clone https://github.com/ada/ids && cd ids\n"));
    // The version is released on this day, and its scripts stay.
    let kept = text("tests/sql/extension/released/SHA256SUMS");
    assert!(
        ["_pg", "_registry", "_adopt", "_feed"].iter().all(|of| kept.contains(&format!("  snowflake{of}--"))),
        "{kept}"
    );
    let commit =
        "git add --all && git -c user.name=ada -c user.email=ada@host.example commit --quiet --message released";
    for command in [commit, "tools/release_check tree names"] {
        let output = run(command, copy.path(), "");
        assert!(output.status.success(), "{output:?}");
    }
    assert!(!run("make freeze", copy.path(), "").status.success(), "a released version is frozen again");
}
