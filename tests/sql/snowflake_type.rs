//! The type `snowflake`: a string in JSON, and a bigint everywhere else.
//!
//! All of this works without preload; only a column that takes new IDs needs it.

mod as_bigint;
mod json;
mod kept;

use testbed::postgres::Client;
use testbed::{Cluster, Database, value};

/// A database with the extension, on a server that does not preload it.
fn database() -> (Database, Client) {
    let database = Cluster::builder().set("timezone", "UTC").database();
    let mut client = database.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (database, client)
}

/// A column of the type and one of bigint, with the same 20,000 IDs, of a second and a bit, each a primary key.
const TABLES: &str = "CREATE TABLE s (id snowflake PRIMARY KEY, n integer);
    INSERT INTO s SELECT snowflake_min_id('2024-01-01Z') + n * 262147::bigint, n FROM generate_series(1, 20000) n;
    CREATE TABLE b (id bigint PRIMARY KEY, n integer);
    INSERT INTO b SELECT * FROM s;
    ANALYZE s, b";

/// How a query is run.
fn plan(client: &mut Client, query: &str) -> String {
    testbed::plan(client, &format!("EXPLAIN (COSTS OFF) {query}"))
}

/// Each query returns the result beside it.
fn expect(client: &mut Client, cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        assert_eq!(value(client, query), *expected, "{query}");
    }
}
