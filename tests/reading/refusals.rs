//! Where there is no horizon, and queries that would use it in vain.

use crate::{horizon, polled, server};
use testbed::postgres::error::SqlState;
use testbed::{Cluster, Signal, error};

#[test]
fn a_query_that_reads_a_table_beside_the_horizon_is_refused() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE TABLE cursors (last bigint); INSERT INTO cursors VALUES (0)").expect("a table");
    for query in [
        "SELECT * FROM orders WHERE id < snowflake_horizon()",
        "SELECT * FROM orders WHERE id < (SELECT snowflake_horizon())",
        "SELECT max(id), snowflake_horizon() FROM orders",
        "WITH horizon AS MATERIALIZED (SELECT snowflake_horizon() AS at) SELECT * FROM orders, horizon WHERE id < at",
        "SELECT * FROM orders, snowflake_horizon() AS horizon WHERE id < horizon",
        "SELECT * FROM (SELECT snowflake_horizon() AS at OFFSET 0) horizon JOIN orders ON id < at",
        "INSERT INTO cursors SELECT max(id) FROM orders WHERE id < snowflake_horizon()",
        "UPDATE cursors SET last = (SELECT max(id) FROM orders WHERE id < snowflake_horizon())",
    ] {
        let refused = error(&mut client, query);
        assert_eq!(refused.code(), &SqlState::FEATURE_NOT_SUPPORTED, "{query}");
        assert_eq!(refused.message(), "snowflake_horizon() cannot be used in a query that reads a table");
        assert!(refused.hint().is_some_and(|hint| hint.contains("snowflake_poll()")));
    }
    for query in [
        "SELECT snowflake_horizon()",
        "INSERT INTO cursors VALUES (snowflake_horizon())",
        "UPDATE cursors SET last = snowflake_horizon() WHERE last > 0",
        "SELECT snowflake_horizon() FROM pg_stat_activity",
        "SELECT snowflake_horizon() - first_id FROM snowflake_writers",
        "DO 'DECLARE h bigint := snowflake_horizon(); BEGIN PERFORM FROM orders WHERE id < h; END'",
    ] {
        client.batch_execute(query).expect(query);
    }
}

#[test]
fn a_transaction_with_one_snapshot_is_refused() {
    let (_cluster, mut client) = server();
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for (function, call) in
            [("snowflake_horizon()", "snowflake_horizon()"), ("snowflake_poll()", "snowflake_poll(NULL::orders, 0)")]
        {
            client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).expect("a transaction");
            let refused = error(&mut client, &format!("SELECT {call}"));
            let expected = format!("{function} cannot be used in a REPEATABLE READ or SERIALIZABLE transaction");
            assert_eq!((refused.code(), refused.message()), (&SqlState::FEATURE_NOT_SUPPORTED, expected.as_str()));
            client.batch_execute("ROLLBACK").expect("its end");
        }
    }
}

#[test]
fn history_has_no_horizon_and_what_it_issues_counts_when_there_is_one_again() {
    let (cluster, mut client) = server();
    cluster.configure("snowflake_pg.clock_regression", "history");
    cluster.reload();
    let message = "there is no horizon while snowflake_pg.clock_regression is history";
    let mut client = loop {
        if client.query("SELECT snowflake_horizon()", &[]).is_err() {
            break client;
        }
    };
    for query in ["SELECT snowflake_horizon()", "SELECT * FROM snowflake_poll(NULL::orders, 0)"] {
        assert_eq!(error(&mut client, query).message(), message);
    }
    cluster.configure("snowflake_pg.clock_regression", "borrow");
    cluster.reload();
    while client.query("SELECT snowflake_horizon()", &[]).is_err() {}
    assert_eq!(polled(&mut client), 3);
}

#[test]
fn a_server_that_tracks_no_writers_issues_ids_and_refuses_to_be_read_by_them() {
    let cluster = Cluster::builder()
        .worker(7)
        .set("snowflake_pg.track_writers", "off")
        .set("max_prepared_transactions", 2)
        .start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
             INSERT INTO orders DEFAULT VALUES;
             BEGIN; INSERT INTO orders DEFAULT VALUES; PREPARE TRANSACTION 'p'",
        )
        .expect("rows");
    client.batch_execute("COMMIT PREPARED 'p'").expect("another row");
    for query in [
        "SELECT snowflake_horizon()",
        "SELECT * FROM snowflake_poll(NULL::orders, 0)",
        "SELECT * FROM snowflake_writers",
    ] {
        let refused = error(&mut client, query);
        assert_eq!(refused.code(), &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
        assert_eq!(refused.message(), "transactions that have drawn IDs are not tracked");
    }
}

#[test]
fn a_poll_of_what_is_no_table_with_an_id_is_refused() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE named (name text PRIMARY KEY, id bigint); CREATE TYPE pair AS (a bigint, b bigint)",
        )
        .expect("a table");
    for (call, message) in [
        ("snowflake_poll(1, 0)", "integer is not the row type of a table"),
        ("snowflake_poll(NULL::pair, 0)", "pair is not the row type of a table"),
        ("snowflake_poll(NULL::named, 0)", "column \"name\" of relation \"named\" is not a bigint"),
        ("snowflake_poll(NULL::named, 0, key => 'no')", "column \"no\" of relation \"named\" does not exist"),
        ("snowflake_poll(NULL::pg_stat_activity, 0)", "relation \"pg_stat_activity\" has no primary key of one column"),
        ("snowflake_poll(NULL::orders, NULL)", "after must not be null"),
        ("snowflake_poll(NULL::orders, 0, NULL)", "limit must not be null"),
        ("snowflake_poll(NULL::orders, 0, 0)", "limit must be greater than 0"),
    ] {
        assert_eq!(error(&mut client, &format!("SELECT * FROM {call}")).message(), message, "{call}");
    }
}

#[test]
fn a_server_without_preload_or_without_a_worker_says_what_is_missing() {
    let cluster = Cluster::builder().worker(-1).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(error(&mut client, "SELECT snowflake_horizon()").message(), "this server has no worker ID");
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    for query in ["SELECT snowflake_horizon()", "SELECT * FROM snowflake_writers"] {
        let message = "snowflake_pg must be loaded via shared_preload_libraries to issue IDs";
        assert_eq!(error(&mut client, query).message(), message);
    }
}

#[test]
fn the_horizon_survives_a_restart_without_an_id() {
    let (mut cluster, mut client) = server();
    let before = horizon(&mut client);
    cluster.restart(Signal::INT);
    let mut client = cluster.connect();
    assert!(horizon(&mut client) >= before);
    assert_eq!(polled(&mut client), 3);
}
