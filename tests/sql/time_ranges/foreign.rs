//! Tables of other servers.

use testbed::postgres::Client;
use testbed::{Cluster, need_extension, plan, test, value};

/// A server with foreign tables that are its own tables.
fn server() -> (Cluster, Client) {
    need_extension("postgres_fdw");
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client
        .batch_execute(&format!(
            "CREATE EXTENSION snowflake_pg; CREATE EXTENSION postgres_fdw;
             CREATE SERVER same FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{}', dbname 'postgres');
             CREATE USER MAPPING FOR CURRENT_USER SERVER same OPTIONS (user 'postgres');
             CREATE TABLE events (id bigint, n integer);
             INSERT INTO events SELECT snowflake_compose('2026-01-01Z'::timestamptz + n * interval '1 second', NULL, 7, 0), n
                 FROM generate_series(0, 99) n;
             CREATE FOREIGN TABLE far (id bigint, n integer) SERVER same OPTIONS (table_name 'events');
             CREATE VIEW seen AS SELECT *, snowflake_timestamp(id) AS at FROM far;
             CREATE TABLE parts (id bigint, n integer) PARTITION BY LIST (n);
             CREATE TABLE here PARTITION OF parts FOR VALUES IN (100);
             CREATE TABLE there PARTITION OF parts DEFAULT PARTITION BY LIST (n);
             CREATE FOREIGN TABLE there_1 PARTITION OF there DEFAULT SERVER same OPTIONS (table_name 'events');
             CREATE TABLE parent (id bigint, n integer);
             CREATE FOREIGN TABLE child () INHERITS (parent) SERVER same OPTIONS (table_name 'events');
             CREATE TABLE times (at timestamptz); INSERT INTO times VALUES ('2026-01-01 00:00:49.5Z')",
            cluster.host().display()
        ))
        .expect("tables");
    (cluster, client)
}

#[test]
fn a_time_that_a_sub_query_finds_is_compared_with_that_of_a_foreign_table() {
    let (_cluster, mut client) = server();
    let later = "(SELECT max(at) FROM times)";
    for (query, count) in [
        (format!("SELECT count(*) FROM far WHERE snowflake_timestamp(id) > {later}"), "50"),
        (format!("SELECT count(*) FROM far WHERE snowflake_timestamp(id) BETWEEN {later} AND (SELECT now() + '1 year')"), "50"),
        (format!("SELECT count(*) FROM seen WHERE at <= {later}"), "50"),
        (format!("SELECT count(*) FROM parts WHERE snowflake_timestamp(id) < {later}"), "50"),
        (format!("SELECT count(*) FROM parent WHERE {later} <= snowflake_timestamp(id)"), "50"),
        ("SELECT count(*) FROM far WHERE snowflake_timestamp(id) > (SELECT at FROM times WHERE far.n >= 0)".to_owned(), "50"),
        ("WITH t AS (SELECT at FROM times) SELECT count(*) FROM far WHERE snowflake_timestamp(id) > (SELECT at FROM t)".to_owned(), "50"),
        (format!("SELECT count(*) FROM times t LEFT JOIN seen ON seen.at > {later}"), "50"),
        (format!("WITH d AS (DELETE FROM far WHERE snowflake_timestamp(id) > {later} RETURNING n) SELECT count(*) FROM d"), "50"),
    ] {
        assert_eq!(value(&mut client, &query), count, "{query}");
    }
}

/// Wherever it is below the table that a query names.
#[test]
fn a_range_of_time_is_sent_to_a_foreign_table_below_others() {
    let (_cluster, mut client) = server();
    for table in ["far", "parts", "parent"] {
        for time in ["now() - interval '1 hour'", "(SELECT max(at) FROM times)"] {
            let query =
                format!("EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM {table} WHERE snowflake_timestamp(id) > {time}");
            let shown = plan(&mut client, &query);
            assert!(shown.contains("FROM public.events WHERE ((id >= $1::bigint))"), "{query}: {shown}");
        }
    }
}
