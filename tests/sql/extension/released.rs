//! What was released stays as it was. A database that has an older version gets exactly what its upgrade scripts say,
//! so a script that changed after its release would make two databases of one version differ.
//!
//! `released` keeps each script of a release, the names and SQLSTATEs that it has frozen, what IDs mean, and checksums
//! of these and of the formats: `make freeze` brings them there.

use super::surface::lines;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{Cluster, Installation, project, test, value, version_of};

const SUMS: &str = "SHA256SUMS";

/// What to do instead of changing what is kept.
const KEPT: &str = "a release has this: change it back, and write an upgrade script, add a name beside the old one, or \
    raise the version of the format and set readable_by if older libraries must refuse it (before the release: make freeze)";

/// The scripts of extensions in a directory, by their names: those with a version.
fn scripts(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let names = entries.map(|name| name.into_string().expect("a name"));
    let mut names: Vec<_> = names.filter(|name| name.starts_with("snowflake_") && name.contains("--")).collect();
    names.sort_unstable();
    names
}

/// What a version 1.x must still have, as the surface lists it.
pub fn frozen_names() -> Vec<(String, String)> {
    kept_lines(".surface")
}

/// The lines of all files that end like this, after their names.
pub fn kept_lines(end: &str) -> Vec<(String, String)> {
    let directory = kept();
    let kept = scripts(&directory).into_iter().filter(|name| name.ends_with(end));
    let lines = |name: String| {
        let text = fs::read_to_string(directory.join(&name)).expect("names");
        text.lines().map(|line| (name.clone(), line.to_owned())).collect::<Vec<_>>()
    };
    kept.flat_map(lines).collect()
}

/// What is wrong with scripts that are kept, and with those of this tree, of which none may differ from one that is
/// kept.
fn wrong(kept: &Path, installed: &Path) -> Vec<String> {
    let sums = fs::read_to_string(kept.join(SUMS)).expect("checksums");
    let listed = sums.lines().filter_map(|line| Some(line.split_once("  ")?.1.to_owned()));
    // Formats stay where they are.
    let mut listed: Vec<_> = listed.filter(|name| !name.contains('/')).collect();
    listed.sort_unstable();
    let mut wrong = Vec::new();
    if scripts(kept) != listed {
        wrong.push(format!("{SUMS} lists {listed:?}, and {:?} are kept", scripts(kept)));
    }
    let check = Command::new("sha256sum").args(["--check", "--strict", "--quiet", SUMS]).current_dir(kept).output();
    let check = check.expect("sha256sum");
    if !sums.is_empty() && !check.status.success() {
        wrong.push(format!("{}{KEPT}", String::from_utf8_lossy(&check.stdout)));
    }
    let present = scripts(installed);
    let whole =
        listed.iter().filter_map(|name| name.strip_suffix(".sql")).filter(|name| name.matches("--").count() == 1);
    for older in whole.filter(|name| !current().contains(&format!("{name}.sql"))) {
        if !present.iter().any(|name| name.starts_with(&format!("{older}--"))) {
            wrong.push(format!("{older} was released, and there is no upgrade script from it"));
        }
    }
    for name in present.iter().filter(|name| listed.contains(name)) {
        if fs::read(kept.join(name)).ok() != fs::read(installed.join(name)).ok() {
            wrong.push(format!("{name} was released, and has changed: raise the version, and write an upgrade script (before the release: make freeze)"));
        }
    }
    wrong
}

/// The scripts of this tree.
fn current() -> [String; 4] {
    ["snowflake_pg", "snowflake_adopt", "snowflake_feed", "snowflake_registry"]
        .map(|name| format!("{name}--{}.sql", version_of(name)))
}

fn kept() -> PathBuf {
    project().join("tests/sql/extension/released")
}

#[test]
fn no_script_of_a_released_version_changes() {
    assert_eq!(wrong(&kept(), Installation::shared().scripts()), [""; 0]);
}

/// `make dated` does it.
#[test]
fn a_version_with_a_date_has_kept_all_of_its_scripts() {
    let changes = fs::read_to_string(project().join("CHANGELOG.md")).expect("changes");
    let sums = fs::read_to_string(kept().join(SUMS)).expect("checksums");
    let is_released = !changes.contains(&format!("## {} (unreleased)", version_of("snowflake_pg")));
    // Below 1.0, scripts can change until they are released.
    let must_be_kept = |name: &&String| is_released || name.contains("--1.");
    let missing: Vec<_> = current().into_iter().filter(|name| must_be_kept(&name) && !sums.contains(name)).collect();
    assert_eq!(missing, [""; 0], "make freeze, and with the release make dated");
}

/// What `make freeze` leaves out, and the list of the surface calls open.
#[test]
fn no_release_keeps_an_sqlstate_that_1_0_leaves_open() {
    let open: Vec<_> =
        lines().filter_map(|(mark, line)| line.strip_prefix("SQLSTATE ").filter(|_| mark == "open")).collect();
    assert!(open.len() > 5, "{open:?}");
    let kept = kept_lines(".errors").into_iter().filter(|(_, line)| open.iter().any(|code| line.starts_with(code)));
    assert_eq!(kept.collect::<Vec<_>>(), [], "is the section of docs/errors.md renamed?");
}

/// Messages that a release had and that are no longer there: what has come in their place, with the same SQLSTATE; ""
/// if that cannot happen any more.
const REWORDED: [(&str, &str); 0] = [];

/// Messages can change, and a program looks at the SQLSTATE.
#[test]
fn no_error_that_a_release_had_gets_another_sqlstate() {
    let errors = fs::read_to_string(project().join("docs/errors.md")).expect("errors");
    let row = |line: &str| {
        let (codes, rest) = line.trim_start_matches("| ").split_once(" | ")?;
        let messages = rest.split(" |").next()?.split("<br>").map(str::to_owned).collect::<Vec<_>>();
        Some((codes.split(", ").map(str::to_owned).collect::<Vec<_>>(), messages))
    };
    let frozen = errors.split("\n## ").filter(|section| !section.starts_with("What 1.0 leaves open\n"));
    let now: Vec<_> = frozen.flat_map(str::lines).filter_map(row).collect();
    let kept = kept_lines(".errors");
    assert!(kept.len() > 50, "{}", kept.len());
    let mut wrong = Vec::new();
    for (codes, messages) in kept.iter().filter_map(|(_, line)| row(line)) {
        for message in messages {
            let successor = REWORDED.iter().find(|(old, _)| *old == message).map_or(&*message, |(_, new)| new);
            let mut rows = now.iter().filter(|(_, messages)| messages.iter().any(|now| now == successor)).peekable();
            let has_all = |(now, _): &(Vec<String>, _)| codes.iter().all(|code| now.contains(code));
            if !successor.is_empty() && rows.peek().is_none() {
                wrong.push(format!(
                    "\"{successor}\" is not among what docs/errors.md freezes: put its row back, or write \
                     what it is called now into REWORDED"
                ));
            } else if !successor.is_empty() && !rows.any(has_all) {
                wrong.push(format!("\"{message}\" was released with {codes:?}: keep that"));
            }
        }
    }
    assert!(wrong.is_empty(), "(before the release: make freeze) {wrong:#?}");
}

/// As nothing may have been released yet: with the scripts of this tree, which the maintainer's commands release.
#[test]
fn a_released_script_that_is_changed_is_noticed_here_and_where_it_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let [kept, installed] = ["kept", "installed"].map(|name| directory.path().join(name));
    let shared = Installation::shared();
    for copy in [&kept, &installed] {
        fs::create_dir(copy).expect("own directory");
        for name in current() {
            fs::copy(shared.scripts().join(&name), copy.join(&name)).expect("a copy");
        }
    }
    let names = scripts(&kept);
    assert!(names.len() > 1, "{names:?}");
    let freeze = format!("sha256sum {} >>{SUMS}", names.join(" "));
    assert!(Command::new("sh").args(["-c", &freeze]).current_dir(&kept).status().expect("sh").success());
    assert_eq!(wrong(&kept, &installed), [""; 0]);

    for name in &names {
        let script = fs::read_to_string(installed.join(name)).expect("a script");
        let changed = script.replacen("IS", "IS ", 1);
        assert_ne!(script, changed, "{name}");
        fs::write(installed.join(name), &changed).expect("own file");
        let said = wrong(&kept, &installed);
        assert!(said.len() == 1 && said[0].starts_with(&format!("{name} was released, and has changed")), "{said:?}");
        // Nor is it enough to change what is kept.
        fs::write(kept.join(name), &changed).expect("own file");
        let said = wrong(&kept, &installed);
        assert_eq!(said, [format!("{name}: FAILED\n{KEPT}")]);
        for directory in [&kept, &installed] {
            fs::write(directory.join(name), &script).expect("own file");
        }
        // Or to forget it.
        fs::remove_file(kept.join(name)).expect("own file");
        assert!(wrong(&kept, &installed).len() > 1, "{name} is not missed");
        fs::write(kept.join(name), &script).expect("own file");
    }
    assert_eq!(wrong(&kept, &installed), [""; 0]);

    // Of an older version, there is a way to this one.
    fs::write(kept.join("snowflake_pg--0.0.1.sql"), "").expect("own file");
    let freeze = format!("sha256sum snowflake_pg--0.0.1.sql >>{SUMS}");
    assert!(Command::new("sh").args(["-c", &freeze]).current_dir(&kept).status().expect("sh").success());
    let said = wrong(&kept, &installed);
    assert_eq!(said, ["snowflake_pg--0.0.1 was released, and there is no upgrade script from it"]);
    fs::write(installed.join("snowflake_pg--0.0.1--1.0.0.sql"), "").expect("own file");
    assert_eq!(wrong(&kept, &installed), [""; 0]);
}

/// A database keeps its script until ALTER EXTENSION UPDATE, and a dump of it brings the newest. PostgreSQL looks for
/// each symbol that a script names.
#[test]
fn a_database_with_the_script_of_each_release_gets_ids_from_this_library() {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    let kept = kept();
    let versions = scripts(&kept).into_iter().filter_map(|name| {
        Some(name.strip_prefix("snowflake_pg--")?.strip_suffix(".sql")?.to_owned()).filter(|name| !name.contains("--"))
    });
    let mut tried = 0;
    for version in versions {
        let name = format!("snowflake_pg--{version}.sql");
        // Other servers read those that are there.
        if !cluster.extension_scripts().join(&name).exists() {
            fs::copy(kept.join(&name), cluster.extension_scripts().join(&name)).expect("own file");
        }
        let create = format!("CREATE EXTENSION snowflake_pg VERSION '{version}'");
        client.batch_execute(&create).unwrap_or_else(|error| panic!("{version}: {error:?}"));
        assert_eq!(value(&mut client, "SELECT worker_id FROM snowflake_decode(snowflake_nextval())"), "7", "{version}");
        assert_eq!(value(&mut client, "SELECT state FROM snowflake_status, snowflake_metrics"), "ready", "{version}");
        client.batch_execute("ALTER EXTENSION snowflake_pg UPDATE; DROP EXTENSION snowflake_pg").expect("an update");
        tried += 1;
    }
    assert!(tried > 0, "1.0.0 was released");
}
