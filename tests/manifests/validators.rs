//! What validators say of the manifests, and of the same with a mistake. They need no network.

use super::{example, installed};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
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
fn assert_judged(program: &Path, arguments: &[&str], manifest: &Path, mistakes: &[[&str; 3]]) {
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
fn the_compose_file_is_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("check-jsonschema");
    let mistakes = [
        ["hostname: pg-0", "host_name: pg-0", "'host_name' was unexpected"],
        ["retries: 30", "retries: []", "[] is not"],
    ];
    let arguments = ["--builtin-schema", "vendor.compose-spec"];
    assert_judged(&validator, &arguments, &example("compose/compose.yaml"), &mistakes);
}

#[test]
fn the_workflow_of_releases_is_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("check-jsonschema");
    let mistakes = [
        ["runs-on:", "runs_on:", "'runs-on' is a required property"],
        ["contents: write", "contents: yes", "'yes' is not one of"],
    ];
    let workflow = project().join(".github/workflows/release.yml");
    assert_judged(&validator, &["--builtin-schema", "vendor.github-workflows"], &workflow, &mistakes);
}

#[test]
fn the_workflow_with_a_service_container_is_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("check-jsonschema");
    let mistakes = [
        ["command: >-", "cmd: >-", "'cmd' was unexpected"],
        ["runs-on:", "runs_on:", "'runs-on' is a required property"],
    ];
    assert_judged(&validator, &["--builtin-schema", "vendor.github-workflows"], &example("ci/workflow.yml"), &mistakes);
}

#[test]
fn the_dockerfile_is_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("hadolint");
    let mistakes =
        [["FROM scratch AS packages", "FROM scratch AS build", "DL3024"], ["COPY . .", "COPY . a b", "DL3021"]];
    assert_judged(&validator, &[], &example("docker/Dockerfile"), &mistakes);
}
