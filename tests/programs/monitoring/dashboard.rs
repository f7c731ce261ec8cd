//! The dashboard: what Grafana reads, and queries of metrics that exist.

use super::files::{metrics, named_in, path, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use testbed::{test, with_all_chosen};

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(path("dashboard.json")).expect("a file")).expect("JSON")
}

fn panels() -> Vec<Value> {
    dashboard()["panels"].as_array().expect("panels").clone()
}

/// The title of each panel with each of its queries, as Grafana asks when all servers are chosen.
pub fn expressions() -> Vec<(String, String)> {
    let mut expressions = Vec::new();
    for panel in panels() {
        for target in panel["targets"].as_array().expect("targets") {
            let expression = with_all_chosen(text(target, "expr"));
            expressions.push((text(&panel, "title").to_owned(), expression));
        }
    }
    expressions
}

#[test]
fn every_panel_asks_for_metrics_that_exist() {
    let known: BTreeSet<_> = metrics().into_iter().map(|metric| metric.name).collect();
    for (panel, expression) in expressions() {
        let named = named_in(&expression);
        assert!(!named.is_empty() && named.is_subset(&known), "{panel}: {expression}");
    }
}

/// As Grafana exports them: each panel with a number and a place of its own, and the data source that the user chooses.
#[test]
fn the_dashboard_has_the_fields_that_grafana_exports() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36) && dashboard["id"].is_null());
    for field in ["title", "uid", "timezone", "refresh"] {
        assert!(!text(&dashboard, field).is_empty());
    }
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let names: Vec<_> = variables.iter().map(|variable| text(variable, "name")).collect();
    assert_eq!(names, ["datasource", "fleet", "datacenter", "worker"]);
    let (mut numbers, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels() {
        let title = text(&panel, "title");
        assert!(numbers.insert(panel["id"].as_u64().expect("a number")), "{title}");
        assert!(!text(&panel, "description").is_empty(), "{title}");
        let known = ["stat", "table", "timeseries", "state-timeline"];
        assert!(known.contains(&text(&panel, "type")), "{title}");
        let place = |field: &str| panel["gridPos"][field].as_u64().expect("a place");
        for (x, y) in (0..place("w")).flat_map(|x| (0..place("h")).map(move |y| (x, y))) {
            let cell = (place("x") + x, place("y") + y);
            assert!(cell.0 < 24 && cells.insert(cell), "{title} is on another panel");
        }
        for target in panel["targets"].as_array().expect("targets") {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}
