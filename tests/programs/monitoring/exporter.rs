//! Every metric arrives, from servers in every state.

use super::files::{self, Metric};
use super::prepare;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use testbed::postgres::Client;
use testbed::{Cluster, Exporter, Order, Signal, monitoring_program, test, value};

/// The values of the extension's metrics, by name, as an exporter gives them. A server has one of each.
fn values(exposed: &str) -> BTreeMap<String, (String, f64)> {
    let mut values = BTreeMap::new();
    for line in exposed.lines().filter(|line| line.starts_with("snowflake_pg_")) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').expect("labels");
        let value = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        let before = values.insert(name.to_owned(), (labels.trim_end_matches('}').to_owned(), value));
        assert!(before.is_none(), "twice: {line}");
    }
    values
}

/// What the view says of a metric now; `None` for NULL.
fn asked(client: &mut Client, metric: &Metric) -> Option<f64> {
    let column = metric.name.strip_prefix("snowflake_pg_").expect("a prefix");
    if column == "server_info" {
        return Some(1.0);
    }
    let answer = value(client, &format!("SELECT {column}::float8 FROM snowflake_metrics"));
    (answer != "NULL").then(|| answer.parse().expect("a number"))
}

/// The labels of the metric that has those have the values of the view.
fn assert_labels(cluster: &Cluster, labels: &str) {
    let metrics = files::metrics();
    let info = metrics.iter().find(|metric| metric.name == "snowflake_pg_server_info").expect("the metric");
    for label in &info.labels {
        let asked = format!("SELECT coalesce({label}::text, '') FROM ({}) AS asked", info.query);
        let value = value(&mut cluster.connect(), &asked);
        assert!(labels.contains(&format!("{label}=\"{value}\"")), "{label}: {value}\n{labels}");
    }
}

/// The exporter gives every metric, with a value that the server had before it, after it, or in between.
fn assert_arrive(cluster: &Cluster, exporter: &Exporter) {
    let mut client = cluster.connect();
    let metrics = files::metrics();
    assert!(metrics.len() > 25, "{}", metrics.len());
    for metric in &metrics {
        // A value that goes up and down, as the rest of the mark, may have done both in between.
        let arrived = (0..100).any(|_| {
            let before = asked(&mut client, metric);
            let values = values(&exporter.metrics());
            let (_, value) = values.get(&metric.name).unwrap_or_else(|| panic!("{} is missing", metric.name));
            let after = asked(&mut client, metric);
            let arrived = match (before, after) {
                (Some(before), Some(after)) => {
                    // Of an exporter's text, which has the digits that a number needs.
                    let slack = before.abs() * 1e-12;
                    before.min(after) - slack <= *value && *value <= before.max(after) + slack
                }
                (None, None) => value.is_nan(),
                _ => false,
            };
            if !arrived {
                sleep(Duration::from_millis(50));
            }
            arrived
        });
        assert!(arrived, "{} differs from the view", metric.name);
    }
}

/// Starts an exporter for a server; all metrics arrive, and the state is this.
fn assert_exported(cluster: &Cluster, state: &str) -> String {
    let exporter = Exporter::start(cluster);
    assert_arrive(cluster, &exporter);
    let exposed = exporter.metrics();
    let (labels, _) = &values(&exposed)["snowflake_pg_server_info"];
    assert_labels(cluster, labels);
    assert!(labels.contains(&format!("state=\"{state}\"")), "{labels}");
    let loaded = exposed.lines().filter(|line| line.starts_with("pg_exporter_user_queries_load_error{"));
    assert!(loaded.filter(|line| line.ends_with(" 0")).count() == 1, "{exposed}");
    assert_well_named(&exposed);
    labels.clone()
}

/// Names and units are as Prometheus wants them.
fn assert_well_named(exposed: &str) {
    let ours: String =
        exposed.lines().filter(|line| line.contains("snowflake_")).map(|line| format!("{line}\n")).collect();
    let mut promtool = Command::new(monitoring_program("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("promtool");
    promtool.stdin.take().expect("a pipe").write_all(ours.as_bytes()).expect("promtool reads");
    let output = promtool.wait_with_output().expect("promtool");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn every_metric_arrives_from_a_primary_and_from_its_standby() {
    monitoring_program("prometheus");
    let primary = Cluster::builder().worker(7).own_clock().start();
    prepare(&primary);
    primary.connect().batch_execute("SELECT snowflake_nextvals(10000)").expect("IDs");
    primary.set_clock(-0.5);
    primary.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    let labels = assert_exported(&primary, "ready");
    assert!(labels.contains(r#"worker_id="7""#) && labels.contains(r#"problem_sqlstate="""#), "{labels}");
    let standby = Cluster::builder().worker(8).standby_of(&primary);
    let labels = assert_exported(&standby, "standby");
    assert!(labels.contains(r#"worker_id="8""#), "{labels}");
}

#[test]
fn every_metric_arrives_from_a_server_without_preload() {
    monitoring_program("prometheus");
    let cluster = Cluster::builder().start();
    prepare(&cluster);
    let labels = assert_exported(&cluster, "not preloaded");
    assert!(labels.contains(r#"worker_id="""#), "{labels}");
}

#[test]
fn every_metric_arrives_from_a_server_that_refuses_its_mark() {
    monitoring_program("prometheus");
    let mut cluster = Cluster::builder().worker(7).start();
    prepare(&cluster);
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    fs::write(cluster.mark_file(), "not a mark").expect("own file");
    cluster.start();
    cluster.wait_until("SELECT problem_sqlstate IS NOT NULL FROM snowflake_status");
    let sqlstate = value(&mut cluster.connect(), "SELECT problem_sqlstate FROM snowflake_status");
    let labels = assert_exported(&cluster, "not started");
    assert!(labels.contains(&format!("problem_sqlstate=\"{sqlstate}\"")), "{labels}");
}

#[test]
fn every_metric_arrives_from_a_server_whose_disk_fails() {
    monitoring_program("prometheus");
    let cluster = Cluster::builder().worker(7).faulty_disk().set("snowflake_pg.keep_warm", "1d").start();
    prepare(&cluster);
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    cluster.disk().obey(Order::Full);
    cluster.wait_until("SELECT problem_sqlstate = '53100' FROM snowflake_status");
    let labels = assert_exported(&cluster, "ready");
    assert!(labels.contains(r#"problem_sqlstate="53100""#), "{labels}");
}

#[test]
fn no_column_of_the_view_of_metrics_is_forgotten() {
    let cluster = Cluster::builder().worker(7).start();
    prepare(&cluster);
    let metrics = files::metrics();
    let mut client = cluster.connect();
    let columns = client.prepare("SELECT * FROM snowflake_metrics").expect("the view");
    for column in columns.columns() {
        let name = format!("snowflake_pg_{}", column.name());
        let is_label = metrics[0].labels.iter().any(|label| label == column.name());
        assert!(is_label || metrics.iter().any(|metric| metric.name == name), "{name} is forgotten");
    }
    // And no column of a query, which would arrive as a metric without a description.
    for metric in &metrics {
        let namespace =
            metric.name.strip_prefix("snowflake_pg_server_").map_or("snowflake_pg_", |_| "snowflake_pg_server_");
        for column in client.prepare(&metric.query).expect("a query").columns() {
            let name = format!("{namespace}{}", column.name());
            let is_label = metric.labels.iter().any(|label| label == column.name());
            assert!(is_label || metrics.iter().any(|metric| metric.name == name), "{name}");
        }
    }
}
