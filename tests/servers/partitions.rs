//! Partitions by time: what `snowflake_create_partitions()` makes, what it refuses, and whom it disturbs.

mod beside;
mod listed;
mod made;
mod owner;
mod refused;

use testbed::postgres::{Client, SimpleQueryMessage};
use testbed::{Cluster, real_time};

/// Noon on a Wednesday, the day before a leap day: 2024-02-28T12:00:00Z, in Unix seconds.
const NOON: f64 = 1_709_121_600.0;

/// A server that does not preload the extension, where it is that noon.
pub fn server() -> (Cluster, Client) {
    let mut cluster = Cluster::builder().own_clock().set("timezone", "UTC").create();
    cluster.set_clock(NOON - real_time() as f64 / 1000.0);
    cluster.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, client)
}

/// Every row that a query returns, as psql would show it without alignment.
pub fn rows(client: &mut Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// What the function makes of this table: each partition, and its time in UTC.
pub fn create(client: &mut Client, arguments: &str) -> Vec<String> {
    let query = format!(
        "SELECT partition, begins_at AT TIME ZONE 'UTC', ends_at AT TIME ZONE 'UTC'
         FROM snowflake_create_partitions({arguments})"
    );
    rows(client, &query)
}
