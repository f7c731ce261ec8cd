//! Where there is no horizon, and queries that would use it in vain.

use super::{horizon, insert, polled, server};
use testbed::postgres::Client;
use testbed::postgres::error::SqlState;
use testbed::{Cluster, Signal, error, test, value};

#[test]
fn a_query_that_reads_a_table_beside_the_horizon_is_refused() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE cursors (name text PRIMARY KEY DEFAULT 'a', last bigint); INSERT INTO cursors (last) VALUES (0);
             CREATE VIEW horizon AS SELECT snowflake_horizon() AS at; CREATE VIEW one AS SELECT 1 AS one;
             CREATE MATERIALIZED VIEW copied AS SELECT * FROM orders",
        )
        .expect("tables");
    for query in [
        "SELECT * FROM orders WHERE id < snowflake_horizon()",
        "SELECT * FROM orders WHERE id < (SELECT snowflake_horizon())",
        "SELECT max(id), snowflake_horizon() FROM orders",
        "WITH horizon AS MATERIALIZED (SELECT snowflake_horizon() AS at) SELECT * FROM orders, horizon WHERE id < at",
        "SELECT * FROM orders, snowflake_horizon() AS horizon WHERE id < horizon",
        "SELECT * FROM (SELECT snowflake_horizon() AS at OFFSET 0) horizon JOIN orders ON id < at",
        "INSERT INTO cursors (last) SELECT max(id) FROM orders WHERE id < snowflake_horizon()",
        "UPDATE cursors SET last = (SELECT max(id) FROM orders WHERE id < snowflake_horizon())",
        "SELECT * FROM snowflake_horizon() h, LATERAL (SELECT * FROM orders WHERE id < h ORDER BY id LIMIT 9) o",
        "SELECT id FROM (SELECT * FROM orders ORDER BY id LIMIT 9) o WHERE id < snowflake_horizon()",
        "WITH h AS MATERIALIZED (SELECT snowflake_horizon() AS at), o AS MATERIALIZED (SELECT * FROM orders LIMIT 9)
             SELECT id FROM o WHERE id < (SELECT at FROM h)",
        "SELECT snowflake_horizon(), (SELECT max(id) FROM orders)",
        "SELECT (SELECT max(id) FROM orders) WHERE snowflake_horizon() > 0",
        "SELECT (SELECT max(id) FROM orders) FROM snowflake_horizon() h WHERE h > 0",
        "VALUES (snowflake_horizon(), (SELECT max(id) FROM orders))",
        "SELECT snowflake_horizon() WHERE EXISTS (SELECT FROM orders)",
        "SELECT (SELECT array_agg(id) FROM orders WHERE id < h) FROM snowflake_horizon() h",
        "SELECT (SELECT array_agg(id) FROM orders WHERE id < at) FROM horizon",
        "SELECT snowflake_horizon() UNION ALL SELECT id FROM orders",
        "DELETE FROM orders WHERE id < snowflake_horizon() RETURNING id",
        "UPDATE orders SET note = 'seen' WHERE id < snowflake_horizon() RETURNING id",
        "UPDATE orders SET note = 'below ' || snowflake_horizon() WHERE id < snowflake_horizon()",
        "UPDATE orders SET note = 'below ' || snowflake_horizon() WHERE id < (SELECT snowflake_horizon())",
        "WITH h AS (SELECT snowflake_horizon() AS at), d AS (DELETE FROM orders WHERE id < (SELECT at FROM h) RETURNING *)
             SELECT * FROM d",
        "SELECT * FROM copied WHERE id < snowflake_horizon()",
        "SELECT last - snowflake_horizon() FROM cursors",
        "PREPARE p AS SELECT * FROM orders WHERE id < snowflake_horizon(); EXECUTE p",
    ] {
        let refused = error(&mut client, query);
        assert_eq!(refused.code(), &SqlState::FEATURE_NOT_SUPPORTED, "{query}");
        assert_eq!(refused.message(), "snowflake_horizon() cannot be used in a query that reads a table");
        assert!(refused.hint().is_some_and(|hint| hint.contains("snowflake_poll()")));
    }
    for query in [
        "SELECT snowflake_horizon()",
        "INSERT INTO cursors VALUES ('b', snowflake_horizon())",
        "INSERT INTO cursors (last) VALUES (snowflake_horizon()) ON CONFLICT (name) DO UPDATE SET last = excluded.last",
        "UPDATE cursors SET last = snowflake_horizon() WHERE last > 0",
        "UPDATE cursors SET last = (SELECT snowflake_horizon())",
        "SELECT at FROM horizon",
        "SELECT snowflake_horizon(), one FROM one",
        "SELECT snowflake_horizon(), count(*) FROM snowflake_status",
        "SELECT snowflake_horizon() FROM snowflake_layouts LIMIT 1",
        "WITH h AS MATERIALIZED (SELECT snowflake_horizon() AS at) SELECT at FROM h",
        "SELECT snowflake_horizon() FROM pg_stat_activity",
        "SELECT snowflake_horizon() - first_id FROM snowflake_writers",
        "DO 'DECLARE h bigint := snowflake_horizon(); BEGIN PERFORM FROM orders WHERE id < h; END'",
    ] {
        client.batch_execute(query).expect(query);
    }
}

/// The search for tables goes as deep as the planner.
#[test]
fn an_expression_that_is_too_deep_is_an_error_and_no_crash() {
    let (_cluster, mut client) = server();
    client.batch_execute("SET max_stack_depth = '300kB'").expect("a setting");
    let mut refused = 0;
    for terms in (100..3000).step_by(100) {
        let sum = vec!["1"; terms].join(" + ");
        for query in [
            format!("SELECT snowflake_horizon(), {sum}"),
            format!("UPDATE orders SET id = {sum} + snowflake_horizon()"),
        ] {
            if client.batch_execute(&format!("EXPLAIN {query}")).is_err() {
                let error = error(&mut client, &format!("EXPLAIN {query}"));
                assert_eq!(error.code(), &SqlState::STATEMENT_TOO_COMPLEX, "{terms} terms");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
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
fn there_is_no_horizon_with_history_and_one_again_with_another_policy() {
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

/// A server with `history` that has past ticks to draw from, further back than a busy machine takes for a statement,
/// and a table.
fn server_with_history() -> (Cluster, Client) {
    let cluster = Cluster::builder()
        .worker(7)
        .own_clock()
        .set("snowflake_pg.time_stamp_counter", "off")
        .set("snowflake_pg.clock_regression", "history")
        .start();
    cluster.settle();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text);
             INSERT INTO orders (note) VALUES ('first'); SELECT pg_sleep(4.5)",
        )
        .expect("a table");
    (cluster, client)
}

/// From the next statement of each session on.
fn give_up_history(cluster: &Cluster, client: &mut Client) {
    cluster.configure("snowflake_pg.clock_regression", "borrow");
    cluster.reload();
    while client.query("SELECT snowflake_horizon()", &[]).is_err() {}
}

#[test]
fn a_transaction_that_has_drawn_from_the_history_holds_the_horizon_back_below_its_rows() {
    let (cluster, mut client) = server_with_history();
    let mut other = cluster.connect();
    other.batch_execute("BEGIN").expect("a transaction");
    let first = insert(&mut other);
    cluster.set_clock(-4.0);
    let old = insert(&mut other);
    assert!(old < first, "from the history");
    give_up_history(&cluster, &mut client);
    assert!(horizon(&mut client) <= Some(old));
    assert_eq!(polled(&mut client), 1);
    other.batch_execute("COMMIT").expect("its end");
    assert_eq!(polled(&mut client), 3);
}

/// A statement keeps the policy that it has begun with.
#[test]
fn a_statement_that_still_draws_from_the_history_inserts_nothing_below_what_was_read() {
    let (cluster, mut client) = server_with_history();
    let mut late = cluster.connect();
    client.batch_execute("SELECT pg_advisory_lock(1)").expect("a lock");
    insert(&mut client);
    let pid = value(&mut late, "SELECT pg_backend_pid()");
    let late = std::thread::spawn(move || {
        let insert =
            "INSERT INTO orders (note) SELECT 'late' FROM (SELECT pg_advisory_lock(1) OFFSET 0) waited RETURNING id";
        value(&mut late, insert).parse::<i64>().expect("an ID")
    });
    cluster.wait_until(&format!("SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = {pid}"));
    give_up_history(&cluster, &mut client);
    insert(&mut client);
    assert_eq!(polled(&mut client), 3);
    let last: i64 = value(&mut client, "SELECT max(id) FROM orders").parse().expect("an ID");
    cluster.set_clock(-4.0);
    client.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
    assert!(late.join().expect("a row") > last);
    let rest = format!("SELECT string_agg(note, ', ') FROM snowflake_poll(NULL::orders, {last})");
    assert_eq!(value(&mut client, &rest), "late");
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
            "CREATE TABLE named (name text PRIMARY KEY, id bigint); CREATE TYPE pair AS (a bigint, b bigint);
             CREATE MATERIALIZED VIEW copied AS SELECT * FROM orders;
             CREATE FOREIGN DATA WRAPPER none; CREATE SERVER far FOREIGN DATA WRAPPER none;
             CREATE FOREIGN TABLE far (id bigint) SERVER far",
        )
        .expect("a table");
    for (call, message) in [
        ("snowflake_poll(1, 0)", "integer is not the row type of a table"),
        ("snowflake_poll(NULL::pair, 0)", "pair is not the row type of a table"),
        ("snowflake_poll(NULL::named, 0)", "column \"name\" of relation \"named\" is not a bigint"),
        ("snowflake_poll(NULL::named, 0, column_name => 'no')", "column \"no\" of relation \"named\" does not exist"),
        ("snowflake_poll(NULL::pg_stat_activity, 0)", "relation \"pg_stat_activity\" has no primary key of one column"),
        (
            "snowflake_poll(NULL::copied, 0, column_name => 'id')",
            "\"copied\" is a materialized view, and cannot be polled",
        ),
        ("snowflake_poll(NULL::far, 0, column_name => 'id')", "\"far\" is a foreign table, and cannot be polled"),
        ("snowflake_poll(NULL::orders, NULL)", "after must not be null"),
        ("snowflake_poll(NULL::orders, 0, NULL)", "max_rows must not be null"),
        ("snowflake_poll(NULL::orders, 0, 0)", "max_rows must be greater than 0"),
    ] {
        assert_eq!(error(&mut client, &format!("SELECT * FROM {call}")).message(), message, "{call}");
    }
}

#[test]
fn a_server_without_preload_or_without_a_worker_says_what_is_missing() {
    let cluster = Cluster::builder().worker("").start();
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
