//! The alert rules: their unit tests, and the first of them on a real Prometheus.

use super::files::{metrics, named_in, path, text, yaml};
use super::{dashboard, prepare};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Exporter, PATIENCE, Prometheus, monitoring_program, project, test};

fn rules() -> Vec<Value> {
    yaml("alerts.yml")["groups"][0]["rules"].as_array().expect("rules").clone()
}

fn promtool(arguments: [&str; 2], file: &Path) -> Output {
    Command::new(monitoring_program("promtool")).args(arguments).arg(file).output().expect("promtool")
}

#[test]
fn promtool_accepts_the_rules_and_each_alert_fires_on_its_condition_alone() {
    for (arguments, file) in [(["check", "rules"], "alerts.yml"), (["test", "rules"], "alerts_test.yml")] {
        let output = promtool(arguments, &path(file));
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn the_unit_tests_of_the_rules_fail_without_any_one_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let tests = directory.path().join("alerts_test.yml");
    fs::copy(path("alerts_test.yml"), &tests).expect("a copy");
    let whole = fs::read_to_string(path("alerts.yml")).expect("the rules");
    for rule in rules() {
        let expression = text(&rule, "expr");
        assert_eq!(whole.matches(&format!("expr: {expression}\n")).count(), 1, "{expression}");
        let never = whole.replace(&format!("expr: {expression}\n"), "expr: vector(0) == 1\n");
        fs::write(directory.path().join("alerts.yml"), never).expect("own file");
        let output = promtool(["test", "rules"], &tests);
        assert!(!output.status.success(), "{} has no unit test", text(&rule, "alert"));
    }
}

#[test]
fn every_alert_says_what_to_do_by_metrics_that_exist_and_is_documented() {
    let known: BTreeSet<_> = metrics().into_iter().map(|metric| metric.name).collect();
    let document = fs::read_to_string(project().join("docs/monitoring.md")).expect("a document");
    for rule in rules() {
        let (alert, annotations) = (text(&rule, "alert"), &rule["annotations"]);
        assert!(["critical", "warning"].contains(&text(&rule["labels"], "severity")), "{alert}");
        assert!(!text(annotations, "summary").is_empty() && !text(annotations, "description").is_empty(), "{alert}");
        let (file, _) = text(annotations, "docs").split_once('#').unwrap_or((text(annotations, "docs"), ""));
        assert!(project().join(file).exists(), "{alert}: {file}");
        let named = named_in(text(&rule, "expr"));
        assert!(!named.is_empty() && named.is_subset(&known), "{alert}: {named:?}");
        assert!(document.contains(&format!("| `{alert}` |")), "{alert} is not in docs/monitoring.md");
    }
}

/// What the query API answers.
fn query(prometheus: &Prometheus, expression: &str) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&prometheus.api("query", &[("query", expression)])).expect("JSON");
    answer["data"]["result"].as_array().expect("a vector").clone()
}

/// The alerts in a state, or in any.
fn alerts(prometheus: &Prometheus, state: &str) -> BTreeSet<String> {
    let alerts = query(prometheus, &format!("ALERTS{{alertstate=~\"{state}\"}}"));
    alerts.iter().map(|alert| text(&alert["metric"], "alertname").to_owned()).collect()
}

/// The unit tests know no NaN, which most metrics of these servers are: by it, no other alert fires or is about to.
#[test]
fn a_real_prometheus_says_that_two_servers_have_one_worker_and_fills_every_panel() {
    monitoring_program("prometheus");
    let servers = [7, 7].map(|worker| Cluster::builder().worker(worker).with_defaults().start());
    servers.iter().for_each(prepare);
    for server in &servers {
        server.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    }
    let exporters = servers.each_ref().map(Exporter::start);
    let prometheus = Prometheus::start(&exporters);
    let deadline = Instant::now() + PATIENCE;
    while alerts(&prometheus, "firing").is_empty() {
        assert!(Instant::now() < deadline, "no alert: {:?}", query(&prometheus, "ALERTS"));
        sleep(Duration::from_millis(200));
    }
    assert_eq!(alerts(&prometheus, ".*"), BTreeSet::from(["SnowflakeWorkerTwice".to_owned()]));
    for (panel, expression) in dashboard::expressions() {
        let series = query(&prometheus, &expression);
        assert!(!series.is_empty(), "{panel}: {expression}");
    }
}
