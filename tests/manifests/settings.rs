//! What servers do with the settings in the manifests.

use crate::{example, installed};
use std::collections::BTreeMap;
use std::process::Command;
use testbed::postgres::NoTls;
use testbed::{Cluster, Signal, can_name_hosts, project, value};

/// Each manifest, with a host of its fleet, and the worker that the manifest promises to that one.
const PROMISES: [(&str, &str, &str); 7] = [
    ("kubernetes/statefulset.yaml", "pg-2", "2"),
    ("compose/compose.yaml", "pg-2", "2"),
    ("kubernetes/operators/cloudnativepg.yaml", "orders-3", "3"),
    ("kubernetes/operators/cloudnativepg_image_volume.yaml", "orders-3", "3"),
    ("kubernetes/operators/zalando.yaml", "acid-orders-2", "2"),
    ("kubernetes/operators/stackgres.yaml", "orders-2", "2"),
    ("kubernetes/operators/percona.yaml", "orders-set1-x2k4-0", "1"),
];

/// The settings of snowflake_pg in a manifest; none where Python is missing.
fn settings(manifest: &str) -> Option<BTreeMap<String, String>> {
    let mut python = Command::new(installed("python")?);
    let output = python.arg(project().join("tests/manifests/settings.py")).arg(example(manifest)).output();
    let output = output.expect("Python");
    assert!(output.status.success(), "{manifest}: {}", String::from_utf8_lossy(&output.stderr));
    let settings: BTreeMap<_, _> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(settings.contains_key("snowflake_pg.worker_id"), "{manifest}: {settings:?}");
    Some(settings)
}

/// A server with the settings, on a host of this name. It has taken each of them.
fn start(settings: &BTreeMap<String, String>, host: &str) -> Cluster {
    let builder = Cluster::builder().host_name(host).environment("SNOWFLAKE_WORKER", "1");
    let builder = builder.set("shared_preload_libraries", "snowflake_pg");
    let cluster = settings.iter().fold(builder, |builder, (name, value)| builder.set(name, value)).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    client.batch_execute("CREATE DATABASE app").expect("the database of the application");
    let mut client = cluster.config().dbname("app").connect(NoTls).expect("a session");
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    for (name, setting) in settings {
        assert_eq!(value(&mut client, &format!("SHOW {name}")), *setting, "{name}");
    }
    assert!(!cluster.log().contains("invalid"), "{}", cluster.log());
    cluster
}

#[test]
fn servers_with_the_settings_of_the_manifests_get_the_workers_that_they_promise() {
    if !can_name_hosts() {
        println!("left out: only root can give hosts names");
        return;
    }
    for (manifest, host, worker) in PROMISES {
        let Some(settings) = settings(manifest) else { return };
        let mut cluster = start(&settings, host);
        // The extension is there now, which `wal_mark` needs.
        cluster.restart(Signal::INT);
        let issued = value(&mut cluster.connect(), "SELECT worker_id FROM snowflake_decode(snowflake_nextval())");
        assert_eq!(issued, worker, "{manifest}");
    }
}

/// There is no registry here, so that there is no lease either.
#[test]
fn a_server_with_the_settings_of_the_manifest_with_a_registry_asks_for_a_lease() {
    if !can_name_hosts() {
        println!("left out: only root can give hosts names");
        return;
    }
    let Some(settings) = settings("kubernetes/operators/crunchy.yaml") else { return };
    let cluster = start(&settings, "orders-instance1-bqdj-0");
    assert_eq!(value(&mut cluster.connect(), "SELECT state FROM snowflake_status"), "no lease");
}
