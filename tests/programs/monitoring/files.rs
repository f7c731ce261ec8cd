//! The files of `contrib/monitoring`.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use testbed::{project, test};

/// Where a file is.
pub fn path(name: &str) -> PathBuf {
    project().join("contrib/monitoring").join(name)
}

/// The content of a file of YAML.
pub fn yaml(name: &str) -> Value {
    let text = fs::read_to_string(path(name)).expect("a file");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The text of a field.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value}"))
}

/// A metric, as a file for an exporter describes it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric {
    pub name: String,
    pub kind: String,
    pub help: String,
    pub labels: Vec<String>,
    /// What gives its value, a row of which the column has its name without "snowflake_pg_".
    pub query: String,
}

/// The metrics of `postgres_exporter.yml`.
pub fn metrics() -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (namespace, of) in yaml("postgres_exporter.yml").as_object().expect("namespaces") {
        let columns = of["metrics"].as_array().expect("metrics");
        let columns = columns.iter().flat_map(|column| column.as_object().expect("a column"));
        let (labels, values): (Vec<_>, Vec<_>) = columns.partition(|(_, column)| column["usage"] == "LABEL");
        let labels: Vec<_> = labels.into_iter().map(|(name, _)| name.clone()).collect();
        for (column, about) in values {
            metrics.push(Metric {
                name: format!("{namespace}_{column}"),
                kind: text(about, "usage").to_lowercase(),
                help: text(about, "description").to_owned(),
                labels: labels.clone(),
                query: text(of, "query").to_owned(),
            });
        }
    }
    metrics
}

/// The metrics of `sql_exporter.yml`.
pub fn collected() -> Vec<Metric> {
    let collector = yaml("sql_exporter.yml");
    let query = |named: &Value| {
        let queries = collector["queries"].as_array().expect("queries");
        let query = queries.iter().find(|query| query["query_name"] == *named).expect("a query of this name");
        text(query, "query").to_owned()
    };
    let metric = |metric: &Value| {
        let labels = metric["key_labels"].as_array().expect("labels").iter();
        let name = text(metric, "metric_name");
        let value = metric["values"][0].as_str().expect("a column");
        assert!(name == format!("snowflake_pg_{value}") || name == format!("snowflake_pg_server_{value}"), "{name}");
        Metric {
            name: name.to_owned(),
            kind: text(metric, "type").to_owned(),
            help: text(metric, "help").to_owned(),
            labels: labels.map(|label| label.as_str().expect("a label").to_owned()).collect(),
            query: query(&metric["query_ref"]),
        }
    };
    collector["metrics"].as_array().expect("metrics").iter().map(metric).collect()
}

/// The metrics that an expression names.
pub fn named_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("snowflake_")).map(str::to_owned).collect()
}

#[test]
fn both_exporters_give_the_same_metrics_of_the_same_queries() {
    let [mut metrics, mut collected] = [metrics(), collected()];
    metrics.sort();
    collected.sort();
    assert_eq!(metrics, collected);
}

#[test]
fn counters_are_named_as_counters_and_only_they() {
    for metric in metrics() {
        assert_eq!(metric.kind == "counter", metric.name.ends_with("_total"), "{}", metric.name);
    }
}
