//! Logical decoding: what change data capture reads of IDs.

use super::{column, need_library};
use testbed::postgres::Client;
use testbed::{Cluster, test, value};

/// A server that writes its mark to WAL, and has a table with both types of IDs.
fn server(plugin: &str) -> (Cluster, Client) {
    let cluster =
        Cluster::builder().worker(0).set("wal_level", "logical").set("snowflake_pg.wal_mark", "prefer").start();
    let mut client = cluster.connect();
    // The newest versions of PostgreSQL want plugins to be named.
    if value(&mut client, "SELECT current_setting('output_plugin_libraries', true) IS NULL") == "f" {
        cluster.configure("output_plugin_libraries", plugin);
        cluster.reload();
    }
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), other snowflake DEFAULT snowflake_nextval())",
        )
        .expect("a table");
    client.batch_execute(&format!("SELECT pg_create_logical_replication_slot('cdc', '{plugin}')")).expect("a slot");
    (cluster, client)
}

#[test]
fn test_decoding_shows_ids_and_nothing_of_marks() {
    let (_cluster, mut client) = server("test_decoding");
    client.batch_execute("INSERT INTO orders DEFAULT VALUES; SELECT pg_sleep(3), snowflake_nextval()").expect("a row");
    client.batch_execute("INSERT INTO orders DEFAULT VALUES").expect("a row after a new mark");
    let expected = column(
        &mut client,
        "SELECT format('table public.orders: INSERT: id[bigint]:%s other[snowflake]:''%s''', id, other) FROM orders ORDER BY id",
    );
    let changes =
        "SELECT data FROM pg_logical_slot_get_changes('cdc', NULL, NULL, 'skip-empty-xacts', '1', 'include-xids', '0')
        WHERE data NOT IN ('BEGIN', 'COMMIT')";
    assert_eq!(column(&mut client, changes), expected);
}

/// A number of JSON loses digits in JavaScript; a string does not.
#[test]
fn wal2json_writes_a_bigint_as_a_number_and_a_snowflake_as_a_string() {
    need_library("wal2json");
    let (_cluster, mut client) = server("wal2json");
    client.batch_execute("INSERT INTO orders DEFAULT VALUES").expect("a row");
    let expected = value(&mut client, r#"SELECT format('[%s,"%s"]', id, other) FROM orders"#);
    let values = "SELECT string_agg(data::jsonb #>> '{change,0,columnvalues}', '') FROM pg_logical_slot_get_changes('cdc', NULL, NULL)";
    assert_eq!(value(&mut client, values).replace(' ', ""), expected);
}
