//! `contrib/chaos`, as an outsider runs it: a fleet on this machine that is broken in the order of a seed, and a judge.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::runner::in_full;
use testbed::{Cluster, project, test};

fn path(name: &str) -> PathBuf {
    project().join("contrib/chaos").join(name)
}

/// The names in a folder, sorted.
fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(path(folder)).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().expect("a name")).collect();
    names.sort();
    names
}

/// What a run has printed.
struct Run {
    status: Option<i32>,
    printed: String,
}

impl Run {
    /// Runs it as a user who has snowflake_pg installed.
    fn of(arguments: &[&str]) -> Self {
        let machine = Cluster::builder().bare();
        // The servers' user can't read this project everywhere.
        let directory = machine.make_directory("chaos");
        let copied = Command::new("cp").arg("-r").arg(path(".")).arg(&directory).status().expect("cp");
        assert!(copied.success());
        let mut run = machine.foreign_command();
        run.arg(format!("PG_CONFIG={}", machine.bindir().join("pg_config").display()));
        run.arg(format!("TMPDIR={}", machine.host().display()));
        let output = run.arg(directory.join("run")).args(arguments).output().expect("a run");
        let printed = String::from_utf8(output.stdout).expect("text");
        println!("{printed}{}", String::from_utf8_lossy(&output.stderr));
        Self { status: output.status.code(), printed }
    }

    /// A line of the report.
    fn reported(&self, name: &str) -> &str {
        let mut lines = self.printed.lines();
        lines.find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}")).trim()
    }

    /// Such a line as "kill 2, freeze 1".
    fn counted(&self, name: &str) -> BTreeMap<&str, u64> {
        let items = self.reported(name).split(", ").filter_map(|item| item.split_once(' '));
        items.map(|(what, count)| (what, count.parse().expect("a number"))).collect()
    }

    fn number(&self, name: &str) -> u64 {
        self.reported(name).parse().expect("a number")
    }
}

fn planned(arguments: &[&str]) -> Vec<String> {
    let output = Command::new(path("plan")).args(arguments).output().expect("a plan");
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).expect("text");
    lines.lines().map(|line| line.rsplit_once(' ').expect("a pause").0.to_owned()).collect()
}

/// Breaks a fleet, and checks the report. `make suite NAME=chaos` has more faults, and a seed of its own or
/// `SNOWFLAKE_PG_SEED`.
fn break_a_fleet(options: &[&str], plan: &[&str], kinds: &[String], servers: &[&str]) {
    let [once, full] = [kinds.len(), 80].map(|faults| faults.to_string());
    let (seed, faults) = if in_full() { (None, full) } else { (Some("7".to_owned()), once) };
    let seed = std::env::var("SNOWFLAKE_PG_SEED").ok().filter(|seed| !seed.is_empty()).or(seed);
    let seed = seed.unwrap_or_else(|| fastrand::u32(1..100_000).to_string());
    let run = Run::of(&[options, &[&seed, &faults]].concat());
    assert_eq!((run.status, run.reported("verdict")), (Some(0), "passed"));
    assert_eq!(["duplicates", "disorder"].map(|line| run.number(line)), [0, 0]);
    assert_eq!((run.reported("seed"), run.reported("unmended")), (&*seed, "none"));
    assert_eq!(run.reported("no effect"), "none");
    assert_eq!(run.counted("IDs").into_keys().collect::<Vec<_>>(), servers);
    let [inflicted, left_out] = ["faults", "left out"].map(|line| run.counted(line));
    assert!(kinds.iter().all(|kind| inflicted.contains_key(&**kind) || left_out.contains_key(&**kind)));
    assert_eq!(inflicted.values().chain(left_out.values()).sum::<u64>().to_string(), faults);
    let in_order: Vec<_> =
        run.printed.lines().filter_map(|line| Some(line.strip_suffix(" s")?.replace(" for", ""))).collect();
    let in_order: Vec<_> = in_order.into_iter().filter(|line| !line.starts_with("silence")).collect();
    assert_eq!(in_order, planned(&[&[&*seed, &*faults], plan].concat()));
}

#[test]
fn whoever_breaks_a_fleet_in_the_order_of_a_seed_sees_no_id_twice() {
    break_a_fleet(&[], &[], &names("faults"), &["a", "b", "c", "d"]);
}

/// Here, nothing but the mark keeps a server from what it has issued.
#[test(By("make suite NAME=chaos"))]
fn whoever_breaks_servers_without_a_registry_sees_no_id_twice() {
    let needs_registry = |name: &String| {
        fs::read_to_string(path("faults").join(name)).expect("a fault").contains("\n# needs: registry\n")
    };
    let kinds: Vec<_> = names("faults").into_iter().filter(|name| !needs_registry(name)).collect();
    assert!(kinds.iter().any(|kind| kind == "clock_back") && kinds.iter().all(|kind| kind != "clone"));
    break_a_fleet(&["--fixed"], &["fixed"], &kinds, &["a", "b", "c"]);
}

#[test]
fn the_report_of_a_broken_fleet_tells_what_had_no_effect_and_who_was_silent_to_the_end() {
    let machine = Cluster::builder().bare();
    let found = machine.make_directory("found");
    for folder in ["ids", "errors"] {
        fs::create_dir(found.join(folder)).expect("a folder");
    }
    let write = |name, text| fs::write(found.join(name), text).expect("a file");
    write("answered", "1000 a b \n2000 a \n3000 a b \n12500 a \n");
    write("inflicted", "kill 0\nclock_back 78\nkill 0\nclock_ahead 77\nclone 1\n");
    write("duplicates", "");
    write("disorder", "");
    let mut report = Command::new(path("report"));
    report.env("CHAOS_DIR", &found).env("PGSERVICEFILE", path("pg_service.conf"));
    let output = report.output().expect("a report");
    let run = Run { status: output.status.code(), printed: String::from_utf8(output.stdout).expect("text") };
    let lines = ["faults", "left out", "no effect", "unmended"].map(|line| run.reported(line));
    assert_eq!(lines, ["kill 2", "clock_ahead 1", "clock_back 1", "clone 1"]);
    assert_eq!(run.reported("silence"), "a 9.5 s, b 9.5 s, c always, d always");
}

/// Else it would not be one.
#[test]
fn the_judge_of_a_broken_fleet_finds_the_ids_of_two_servers_with_one_worker() {
    let run = Run::of(&["--wrong", "7", "2"]);
    assert_eq!(run.status, Some(1));
    assert!(run.number("duplicates") > 0);
    assert!(run.reported("verdict").contains("finally_no_duplicate"), "{}", run.reported("verdict"));
}

#[test]
fn another_seed_breaks_a_fleet_in_another_order() {
    assert_eq!(planned(&["7", "50"]), planned(&["7", "50"]));
    assert_ne!(planned(&["7", "50"]), planned(&["8", "50"]));
    assert_eq!(planned(&["7", "50"])[..9], planned(&["7", "9"]));
}

/// By the prefixes of Antithesis's Test Composer.
#[test]
fn each_command_for_clients_of_a_broken_fleet_says_in_its_name_when_it_runs() {
    let when =
        ["first_", "parallel_driver_", "serial_driver_", "singleton_driver_", "anytime_", "eventually_", "finally_"];
    for name in names("commands") {
        let mode = fs::metadata(path("commands").join(&name)).expect("a file").permissions().mode();
        let is_helper = name.starts_with("helper_");
        assert!(is_helper || when.iter().any(|when| name.starts_with(when)), "{name}");
        assert_eq!(mode & 0o111 != 0, !is_helper, "{name}: {mode:o}");
    }
}

/// The texts below a node.
fn texts<'a>(node: &'a Value, found: &mut Vec<&'a str>) {
    match node {
        Value::String(text) => found.push(text),
        Value::Array(nodes) => nodes.iter().for_each(|node| texts(node, found)),
        Value::Object(nodes) => nodes.values().for_each(|node| texts(node, found)),
        _ => {}
    }
}

#[test]
fn the_compose_file_of_a_fleet_to_break_names_files_and_servers_that_are_there() {
    let text = fs::read_to_string(path("compose.yaml")).expect("a file");
    let compose: Value = serde_saphyr::from_str(&text).expect("YAML");
    let mut found = Vec::new();
    texts(&compose, &mut found);
    let words = found.iter().flat_map(|text| text.split([' ', '=', '\n']));
    let inside: BTreeSet<_> = words.filter_map(|word| word.strip_prefix("/chaos/")).collect();
    assert!(inside.len() > 3, "{inside:?}");
    for name in inside {
        let mode = fs::metadata(path(name)).unwrap_or_else(|error| panic!("{name}: {error}")).permissions().mode();
        assert!(Path::new(name).extension().is_some() || mode & 0o111 != 0, "{name}");
    }
    let mounted = found.iter().filter_map(|text| text.split_once(':')?.0.strip_prefix("./"));
    assert!(mounted.map(|mounted| assert!(path(mounted).exists(), "{mounted}")).count() > 1);
    let services = compose["services"].as_object().expect("services").keys().map(String::as_str);
    let services: BTreeSet<_> = services.filter(|name| !["clients", "judge"].contains(name)).collect();
    let file = fs::read_to_string(path("pg_service.conf")).expect("a file");
    let hosts: BTreeSet<_> = file.lines().filter_map(|line| line.strip_prefix("host=")).collect();
    let named: BTreeSet<_> = file.lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']')).collect();
    assert_eq!((&services, &services), (&hosts, &named));
}
