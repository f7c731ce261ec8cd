//! What servers do with the settings in the manifests.

use super::{example, installed};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use testbed::postgres::NoTls;
use testbed::{Cluster, Signal, need_hosts, project, test, value};

/// Each manifest, with a host of its fleet, and the worker that the manifest promises to that one.
const PROMISES: [(&str, &str, &str); 8] = [
    ("kubernetes/statefulset.yaml", "pg-2", "2"),
    ("compose/compose.yaml", "pg-2", "2"),
    ("kubernetes/operators/cloudnativepg.yaml", "orders-3", "3"),
    ("kubernetes/operators/cloudnativepg_image_volume.yaml", "orders-3", "3"),
    ("kubernetes/operators/cloudnativepg_catalog.yaml", "orders-3", "3"),
    ("kubernetes/operators/zalando.yaml", "acid-orders-2", "2"),
    ("kubernetes/operators/stackgres.yaml", "orders-2", "2"),
    ("kubernetes/operators/percona.yaml", "orders-set1-x2k4-0", "1"),
];

/// What a manifest sets.
#[derive(Deserialize)]
struct Settings {
    /// The parameters of snowflake_pg.
    parameters: BTreeMap<String, String>,
    /// The variables of each set of instances, by the name of the set.
    sets: BTreeMap<String, BTreeMap<String, String>>,
}

impl Settings {
    /// The variable that the worker comes from, and its value on a host of this name.
    fn variable(&self, host: &str) -> Option<(&str, &str)> {
        let name = self.parameters["snowflake_pg.worker_id"].strip_prefix("env:")?;
        let mut of_host = self.sets.iter().filter(|(set, _)| host.contains(&format!("-{set}-")));
        let (set, variables) = of_host.next().unwrap_or_else(|| panic!("{host} is of no set"));
        assert!(of_host.next().is_none(), "{host} is of more than one set");
        Some((name, variables.get(name).unwrap_or_else(|| panic!("{set} has no {name}"))))
    }
}

/// The settings in a manifest.
fn settings(manifest: &str) -> Settings {
    let mut python = Command::new(installed("python"));
    let output = python.arg(project().join("tests/programs/manifests/settings.py")).arg(example(manifest)).output();
    let output = output.expect("Python");
    assert!(output.status.success(), "{manifest}: {}", String::from_utf8_lossy(&output.stderr));
    let settings: Settings = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(settings.parameters.contains_key("snowflake_pg.worker_id"), "{manifest}: {:?}", settings.parameters);
    settings
}

/// A server with the settings, on a host of this name. It has taken each of them.
fn start(settings: &Settings, host: &str) -> Cluster {
    let builder = Cluster::builder().host_name(host).set("shared_preload_libraries", "snowflake_pg");
    let builder =
        settings.variable(host).into_iter().fold(builder, |builder, (name, value)| builder.environment(name, value));
    let cluster = settings.parameters.iter().fold(builder, |builder, (name, value)| builder.set(name, value)).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    client.batch_execute("CREATE DATABASE app").expect("the database of the application");
    let mut client = cluster.config().dbname("app").connect(NoTls).expect("a session");
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    for (name, setting) in &settings.parameters {
        assert_eq!(value(&mut client, &format!("SHOW {name}")), *setting, "{name}");
    }
    assert!(!cluster.log().contains("invalid"), "{}", cluster.log());
    cluster
}

#[test]
fn servers_with_the_settings_of_the_manifests_get_the_workers_that_they_promise() {
    need_hosts();
    for (manifest, host, worker) in PROMISES {
        let settings = settings(manifest);
        let mut cluster = start(&settings, host);
        // The extension is there now, which `wal_mark` needs.
        cluster.restart(Signal::INT);
        let issued = value(&mut cluster.connect(), "SELECT worker_id FROM snowflake_decode(snowflake_nextval())");
        assert_eq!(issued, worker, "{manifest}");
    }
}

#[test]
fn each_set_of_instances_in_percona_s_manifest_gives_another_worker() {
    let settings = settings("kubernetes/operators/percona.yaml");
    let hosts: Vec<_> = settings.sets.keys().map(|set| format!("orders-{set}-x2k4-0")).collect();
    let workers: BTreeSet<_> = hosts.iter().map(|host| settings.variable(host).expect("a variable")).collect();
    assert!(hosts.len() > 1 && workers.len() == hosts.len(), "{:?}", settings.sets);
}

/// There is no registry here, so that there is no lease either.
#[test]
fn a_server_with_the_settings_of_the_manifest_with_a_registry_asks_for_a_lease() {
    need_hosts();
    let settings = settings("kubernetes/operators/crunchy.yaml");
    let cluster = start(&settings, "orders-instance1-bqdj-0");
    assert_eq!(value(&mut cluster.connect(), "SELECT state FROM snowflake_status"), "no lease");
}
