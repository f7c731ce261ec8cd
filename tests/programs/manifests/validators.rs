//! What validators say of manifests and scripts, and of the same with a mistake. They need no network.

use super::{example, installed};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{project, test};

/// The oldest version of Kubernetes whose schemas are tried, and the newest.
const VERSIONS: [&str; 2] = ["1.31", "1.37"];

/// What a validator says; an error if it refuses.
fn run(program: &Path, arguments: &[&str], manifest: &Path) -> Result<String, String> {
    let output = Command::new(program).args(arguments).arg(manifest).output().expect("a validator");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// The manifest is accepted, and refused with each of the mistakes: what is replaced, by what, and what is said of it.
pub(super) fn assert_judged(program: &Path, arguments: &[&str], manifest: &Path, mistakes: &[[&str; 3]]) {
    let accepted = run(program, arguments, manifest);
    assert!(accepted.is_ok(), "{}: {accepted:?}", manifest.display());
    let right = fs::read_to_string(manifest).expect("a manifest");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let wrong = directory.path().join("wrong.yaml");
    for [text, mistake, said] in mistakes {
        assert!(right.contains(text), "{} has no {text}", manifest.display());
        fs::write(&wrong, right.replacen(text, mistake, 1)).expect("own file");
        let refused = run(program, arguments, &wrong).expect_err(mistake);
        assert!(refused.contains(said), "{mistake}: {refused}");
    }
}

#[test]
fn the_manifests_of_kubernetes_are_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("kubernetes-validate");
    let is_manifest = |path: &Path| path.extension() == Some(OsStr::new("yaml"));
    let entries = fs::read_dir(example("kubernetes")).expect("examples").map(|entry| entry.expect("an entry").path());
    let manifests: Vec<_> = entries.filter(|path| is_manifest(path)).collect();
    assert!(manifests.contains(&example("kubernetes/statefulset.yaml")), "{manifests:?}");
    for version in VERSIONS {
        for manifest in &manifests {
            let accepted = run(&validator, &["--strict", "--kubernetes-version", version], manifest);
            assert!(accepted.is_ok(), "{} in {version}: {accepted:?}", manifest.display());
        }
    }
    let mistakes = [
        ["replicas: 3", "replicas: three", "'three' is not of type"],
        ["clusterIP: None", "clusterip: None", "'clusterip' was unexpected"],
        ["runAsNonRoot: true", "runAsNonRoot: 'true'", "'true' is not of type 'boolean'"],
        ["tcpSocket:", "tcp:", "'tcp' was unexpected"],
    ];
    assert_judged(&validator, &["--strict"], &example("kubernetes/statefulset.yaml"), &mistakes);
}

#[test]
fn the_compose_files_are_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("check-jsonschema");
    let mistakes = [
        ["hostname: pg-0", "host_name: pg-0", "'host_name' was unexpected"],
        ["retries: 30", "retries: []", "[] is not"],
    ];
    let arguments = ["--builtin-schema", "vendor.compose-spec"];
    assert_judged(&validator, &arguments, &example("compose/compose.yaml"), &mistakes);
    let mistakes = [["profiles: [judge]", "profile: [judge]", "'profile' was unexpected"]];
    assert_judged(&validator, &arguments, &project().join("contrib/chaos/compose.yaml"), &mistakes);
}

#[test]
fn the_dockerfile_is_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("hadolint");
    let mistakes =
        [["FROM scratch AS packages", "FROM scratch AS build", "DL3024"], ["COPY . .", "COPY . a b", "DL3021"]];
    assert_judged(&validator, &[], &example("docker/Dockerfile"), &mistakes);
}

/// The programs of `contrib/chaos`.
fn chaos() -> Vec<PathBuf> {
    let folders = ["", "commands", "faults"].map(|folder| project().join("contrib/chaos").join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let files = files.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let programs: Vec<_> = files.filter(|path| path.extension().is_none()).collect();
    assert!(programs.len() > 20, "{programs:?}");
    programs
}

#[test]
fn the_scripts_of_tools_and_contrib_are_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("shellcheck");
    // What is sourced is judged by itself, and a function can be called by a variable.
    let arguments = ["--exclude=SC1091,SC2329"];
    for script in
        ["builds", "newer_debian", "test_versions", "timed", "setup", "arm64", "image", "nightly", "release_check"]
    {
        let accepted = run(&validator, &arguments, &project().join("tools").join(script));
        assert!(accepted.is_ok(), "{script}: {accepted:?}");
    }
    for script in chaos() {
        let accepted = run(&validator, &arguments, &script);
        assert!(accepted.is_ok(), "{}: {accepted:?}", script.display());
    }
    let mistakes = [["mv \"$work/root\" \"$home\"", "mv $work/root \"$home\"", "SC2086"]];
    assert_judged(&validator, &arguments, &project().join("tools/postgresql"), &mistakes);
}
