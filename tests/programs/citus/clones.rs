//! A standby of a node that Citus promotes to a node of its own, beside its original: from version 13.2 on.

use super::servers::builder;
use libtest_mimic::Failed;
use std::fs;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, Load, skip, value};

/// Of the coordinator, the node and the clone. Citus tells standbys by the addresses that they stream from, so that
/// sockets will not do.
const ADDRESSES: [&str; 3] = ["127.0.16.2", "127.0.16.3", "127.0.0.1"];

const IDS: &str = "SELECT snowflake_nextvals(1000)";

const STATE: &str = "SELECT concat_ws(' ', state, worker_id) FROM snowflake_status";

pub fn run() -> Result<(), Failed> {
    let [coordinator, node] = [ADDRESSES[0], ADDRESSES[1]].map(start);
    let mut client = coordinator.connect();
    if value(&mut client, "SELECT to_regproc('citus_add_clone_node') IS NULL") == "t" {
        skip("this version of Citus makes no clones");
    }
    let port = value(&mut client, "SHOW port");
    client.batch_execute(&format!("SELECT citus_set_coordinator_host('{}', {port})", ADDRESSES[0]))?;
    client.batch_execute(&format!("SELECT citus_add_node('{}', {port})", ADDRESSES[1]))?;
    client.batch_execute("CREATE EXTENSION snowflake_pg; CREATE TABLE t (id bigint PRIMARY KEY)")?;
    client.batch_execute("SELECT create_distributed_table('t', 'id')")?;
    let of_node = Load::start(&node, 1, IDS);
    // A clone that is promoted before its original has begun refuses.
    of_node.wait_for_ids();
    let clone = standby(&node, ADDRESSES[1], ADDRESSES[2]);
    let add = format!("SELECT citus_add_clone_node('{}', {port}, '{}', {port})", ADDRESSES[2], ADDRESSES[1]);
    let added = value(&mut client, &add);
    client.batch_execute(&format!("SELECT citus_promote_clone_and_rebalance({added})"))?;
    clone.wait_until("SELECT worker_id = 2 FROM snowflake_status");
    let of_clone = Load::start(&clone, 1, IDS);
    of_clone.wait_for_ids();
    sleep(Duration::from_secs(4));
    let states = [&node, &clone].map(|server| value(&mut server.connect(), STATE));
    let mut report = of_node.finish();
    report.merge(of_clone.finish());
    if states != ["ready 1", "ready 2"] || report.duplicates() > 0 || !report.errors().is_empty() {
        return Err(format!("{states:?}, {} duplicates, {:?}", report.duplicates(), report.errors()).into());
    }
    Ok(())
}

fn listen(node: &Cluster, address: &str) {
    node.configure("listen_addresses", address);
    node.configure("citus.local_hostname", address);
    let all = ["local all", "local replication", "host all", "host replication"];
    let rules = all.map(|what| match what.starts_with("host") {
        true => format!("{what} all 127.0.0.0/8 trust\n"),
        false => format!("{what} all trust\n"),
    });
    fs::write(node.data().join("pg_hba.conf"), rules.concat()).expect("pg_hba.conf");
}

fn start(address: &str) -> Cluster {
    let mut node = builder().create();
    listen(&node, address);
    node.start();
    node.connect().batch_execute("CREATE EXTENSION citus").expect("Citus");
    node
}

/// A standby that streams from the address of a node.
fn standby(node: &Cluster, from: &str, address: &str) -> Cluster {
    let mut standby = builder().backup_of(node);
    listen(&standby, address);
    fs::write(standby.data().join("standby.signal"), "").expect("a file");
    standby.configure("primary_conninfo", format!("host={from} user=postgres"));
    standby.start();
    node.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')");
    standby
}
