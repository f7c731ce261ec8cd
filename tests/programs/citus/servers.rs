//! Servers with Citus, and clusters of them.

use testbed::postgres::{Client, Error};
use testbed::{Builder, Cluster, value};

/// A server with Citus. All have the same configuration, but for their addresses.
pub fn builder() -> Builder {
    Cluster::builder()
        .worker("citus")
        .set("shared_preload_libraries", "citus, snowflake_pg")
        .set("citus.node_conninfo", "sslmode=disable")
        .set("citus.enable_statistics_collection", "off")
        .set("citus.shard_count", 4)
        // What moves shards without blocking writes needs.
        .set("wal_level", "logical")
}

/// Such a server, which runs.
pub fn node() -> Cluster {
    start(builder())
}

/// A server that runs, in no cluster yet.
pub fn start(builder: Builder) -> Cluster {
    let mut node = builder.create();
    // The directory of its socket serves as a host name, for itself and for the others.
    node.configure("citus.local_hostname", node.host().display());
    node.start();
    node.connect().batch_execute("CREATE EXTENSION citus").expect("Citus");
    node
}

/// Lets Citus know servers, the first of which is the coordinator.
pub fn form_cluster(nodes: &[Cluster]) {
    let mut coordinator = nodes[0].connect();
    execute(&mut coordinator, &format!("SELECT citus_set_coordinator_host({})", address(&nodes[0])));
    for node in &nodes[1..] {
        add(&mut coordinator, node);
    }
}

/// Adds a worker node.
pub fn add(coordinator: &mut Client, node: &Cluster) {
    execute(coordinator, &format!("SELECT citus_add_node({})", address(node)));
}

/// The host and the port of a server, as arguments of Citus's functions.
pub fn address(node: &Cluster) -> String {
    format!("'{}', {}", node.host().display(), value(&mut node.connect(), "SHOW port"))
}

/// Runs a statement that must succeed.
pub fn execute(client: &mut Client, statement: &str) {
    client.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
}

/// What a server says.
pub fn message(error: &Error) -> String {
    error.as_db_error().map_or_else(|| format!("{error:?}"), |error| error.message().to_owned())
}
