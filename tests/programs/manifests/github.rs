//! What validators say of the files that GitHub reads, and of the same with a mistake. They need no network.

use super::validators::assert_judged;
use super::{example, installed};
use std::fs;
use std::path::{Path, PathBuf};
use testbed::{project, test};

/// A file of GitHub's folder.
fn github(name: &str) -> PathBuf {
    project().join(".github").join(name)
}

/// The project's workflows, and the example.
fn workflows() -> Vec<PathBuf> {
    let entries = fs::read_dir(github("workflows")).expect("workflows").map(|entry| entry.expect("an entry").path());
    entries.chain([example("ci/workflow.yml")]).collect()
}

#[test]
fn the_workflows_are_valid_and_would_not_be_with_a_mistake() {
    let [validator, shellcheck] = ["actionlint", "shellcheck"].map(installed);
    let shellcheck = format!("-shellcheck={}", shellcheck.display());
    let judge = |workflow: &Path, mistakes: &[[&str; 3]]| {
        let mistakes = [mistakes, &[["runs-on:", "runs_on:", "\"runs-on\" section is missing"]]].concat();
        assert_judged(&validator, &["-no-color", &shellcheck], workflow, &mistakes);
    };
    for workflow in workflows() {
        judge(&workflow, &[]);
    }
    let tests = [
        ["ubuntu-24.04-arm]", "ubuntu-24.04-arm32]", "label \"ubuntu-24.04-arm32\" is unknown"],
        ["matrix.verb }} on", "matrix.verbs }} on", "property \"verbs\" is not defined"],
        ["make \"$VERB\"", "make $VERB", "SC2086"],
    ];
    judge(&github("workflows/test.yml"), &tests);
    let releases = [
        ["contents: write", "contents: yes", "\"yes\" is invalid as permission"],
        ["needs: [sources", "needs: [source", "needs job \"source\" which does not exist"],
        ["id-token: write", "id_token: write", "unknown permission scope \"id_token\""],
    ];
    judge(&github("workflows/release.yml"), &releases);
    let nights = [["17 1 * * *", "17 25 * * *", "invalid CRON format"]];
    judge(&github("workflows/nightly.yml"), &nights);
    judge(&example("ci/workflow.yml"), &[["command: >-", "cmd: >-", "unexpected key \"cmd\""]]);
}

/// A tag can be moved to another commit.
#[test]
fn the_workflows_name_the_commits_of_actions() {
    for workflow in workflows() {
        let text = fs::read_to_string(&workflow).expect("a workflow");
        let actions: Vec<_> = text.lines().filter_map(|line| line.split_once("uses: ")).collect();
        assert!(!actions.is_empty(), "{}", workflow.display());
        for (_, action) in actions {
            let commit =
                action.split_once('@').and_then(|(_, version)| version.split_once(" # v")).map(|(hash, _)| hash);
            let is_hash = |hash: &str| hash.len() == 40 && hash.chars().all(|c| c.is_ascii_hexdigit());
            assert!(commit.is_some_and(is_hash), "{}: {action}", workflow.display());
        }
    }
}

#[test]
fn the_issue_forms_and_updates_are_valid_and_would_not_be_with_a_mistake() {
    let validator = installed("check-jsonschema");
    let judge = |schema: &str, name: &str, mistakes: &[[&str; 3]]| {
        assert_judged(&validator, &["--builtin-schema", schema], &github(name), mistakes);
    };
    let problem = [
        ["type: dropdown", "type: menu", "'menu' is not one of"],
        ["required: true", "required: 'yes'", "'yes' is not of type 'boolean'"],
    ];
    judge("vendor.github-issue-forms", "ISSUE_TEMPLATE/problem.yml", &problem);
    let proposal = [["description: Something", "about: Something", "'about' was unexpected"]];
    judge("vendor.github-issue-forms", "ISSUE_TEMPLATE/proposal.yml", &proposal);
    let config = [["    about: Please", "    why: Please", "'about' is a required property"]];
    judge("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml", &config);
    let updates = [["interval: weekly", "interval: rarely", "'rarely' is not one of"]];
    judge("vendor.dependabot", "dependabot.yml", &updates);
    let forms = fs::read_dir(github("ISSUE_TEMPLATE")).expect("forms").count();
    assert_eq!(forms, 3, "each form is judged");
}
