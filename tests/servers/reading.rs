//! Readers that follow a table by ID: the horizon, `snowflake_poll()` and `snowflake_writers`.

mod holders;
mod outbox;
mod poll;
mod refusals;
mod standby;
mod waiting;
mod workers;

use testbed::postgres::Client;
use testbed::{Cluster, value};

const TABLE: &str = "CREATE EXTENSION snowflake_pg;
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text);
    INSERT INTO orders (note) VALUES ('one'), ('two'), ('three')";

/// A server with a table of three rows, and a session in it.
fn server() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(7).set("max_prepared_transactions", 10).start();
    let mut client = cluster.connect();
    client.batch_execute(TABLE).expect("a table");
    (cluster, client)
}

/// The horizon; `None` if it is NULL.
fn horizon(client: &mut Client) -> Option<i64> {
    client.query_one("SELECT snowflake_horizon()", &[]).expect("the horizon").get(0)
}

/// Inserts a row, and returns its ID.
fn insert(client: &mut Client) -> i64 {
    value(client, "INSERT INTO orders (note) VALUES ('new') RETURNING id").parse().expect("an ID")
}

/// How many rows a reader gets that begins at the first.
fn polled(client: &mut Client) -> usize {
    client.query("SELECT * FROM snowflake_poll(NULL::orders, 0)", &[]).expect("rows").len()
}
