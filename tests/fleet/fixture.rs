//! Servers of a fleet.

use testbed::{Builder, Cluster};

/// A server with this worker ID.
pub fn member(worker: u32) -> Builder {
    Cluster::builder().worker(worker).set("timezone", "UTC")
}

/// Starts a server, and creates the extension.
pub fn start(builder: Builder) -> Cluster {
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// The connection string of a server.
pub fn conninfo(cluster: &Cluster) -> String {
    format!("host={} user=postgres dbname=postgres", cluster.host().display())
}
