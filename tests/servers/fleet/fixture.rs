//! Servers of a fleet, and what the check says of them.

use testbed::postgres::Client;
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
    // The default of connect_timeout is short beside many other tests.
    format!("host={} user=postgres dbname=postgres connect_timeout=60", cluster.host().display())
}

/// The problems of this server and of those that it asks; an empty text is none.
pub fn problems(client: &mut Client, asked: &[String]) -> Vec<String> {
    let query = "SELECT coalesce(problem, '') FROM snowflake_check_fleet($1) ORDER BY server";
    let rows = client.query(query, &[&asked]).expect("a check");
    rows.iter().map(|row| row.get(0)).collect()
}

/// The problems that a server finds when it asks these servers.
pub fn check(by: &Cluster, asked: &[&Cluster]) -> Vec<String> {
    problems(&mut by.connect(), &asked.iter().map(|cluster| conninfo(cluster)).collect::<Vec<_>>())
}

/// How a message names a server by its place.
pub fn named(place: usize, cluster: &Cluster) -> String {
    format!("server {place} ({})", cluster.host().display())
}
