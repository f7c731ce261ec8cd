//! What `snowflake_poll()` returns.

use super::{insert, polled, server};
use testbed::{error, test, value};

#[test]
fn a_poll_returns_whole_rows_in_order_after_an_id_and_no_more_than_asked() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "ALTER TABLE orders ADD COLUMN gone integer; ALTER TABLE orders DROP COLUMN gone;
             ALTER TABLE orders ADD COLUMN more integer DEFAULT 5",
        )
        .expect("other columns");
    let all = "SELECT string_agg(concat_ws(' ', note, more), ', ') FROM snowflake_poll(NULL::orders, 0)";
    assert_eq!(value(&mut client, all), "one 5, two 5, three 5");
    let two = "SELECT string_agg(note, ', ') FROM snowflake_poll(NULL::orders, 0, 2)";
    assert_eq!(value(&mut client, two), "one, two");
    let rest = "SELECT string_agg(note, ', ') FROM snowflake_poll(NULL::orders, after => (SELECT min(id) FROM orders))";
    assert_eq!(value(&mut client, rest), "two, three");
    assert_eq!(value(&mut client, "SELECT (snowflake_poll(NULL::orders, 0, 1)).note"), "one");
}

#[test]
fn a_poll_sees_rows_that_were_committed_after_its_statement_had_begun() {
    let (cluster, mut client) = server();
    let mut other = cluster.connect();
    other.batch_execute("SELECT pg_advisory_lock(1)").expect("a lock");
    let (pid, query) = (
        value(&mut client, "SELECT pg_backend_pid()"),
        // The lock is waited for before the poll, and after the snapshot of the statement.
        "SELECT count(*) FROM (SELECT pg_advisory_lock(1) OFFSET 0) waited, snowflake_poll(NULL::orders, 0), \
         (SELECT count(*) AS seen FROM orders) before WHERE seen = 3",
    );
    let waiting = std::thread::spawn(move || value(&mut client, query));
    let is_waiting = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'advisory'");
    while value(&mut other, &is_waiting) == "0" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    insert(&mut other);
    other.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
    let seen = waiting.join().expect("rows");
    assert_eq!(seen, "4");
}

#[test]
fn a_poll_reads_tables_of_any_name_views_partitions_and_keys_of_the_type_snowflake() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            r#"CREATE SCHEMA "a ""schema""";
               CREATE TABLE "a ""schema"""."my table" ("the ""ID""" snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
               INSERT INTO "a ""schema"""."my table" (n) VALUES (1), (2);
               CREATE TABLE parts (id bigint DEFAULT snowflake_nextval(), n integer, PRIMARY KEY (id)) PARTITION BY RANGE (id);
               SELECT snowflake_create_partitions('parts', '1 month', 0);
               INSERT INTO parts (n) VALUES (1), (2), (3);
               CREATE VIEW others AS SELECT id AS number FROM orders WHERE note <> 'two'"#,
        )
        .expect("tables");
    let quoted = r#"SELECT count(n) FROM snowflake_poll(NULL::"a ""schema"""."my table", 0)"#;
    assert_eq!(value(&mut client, quoted), "2");
    assert_eq!(value(&mut client, "SELECT sum(n) FROM snowflake_poll(NULL::parts, 0)"), "6");
    assert_eq!(
        value(&mut client, "SELECT count(*) FROM snowflake_poll(NULL::others, 0, column_name => 'number')"),
        "2"
    );
}

#[test]
fn a_poll_returns_all_rows_of_the_last_id_so_that_the_next_one_misses_none() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE lines (order_id bigint, n integer, PRIMARY KEY (order_id, n));
             INSERT INTO lines SELECT id, n FROM orders, generate_series(1, 5) n",
        )
        .expect("lines of each order");
    let some = "SELECT count(*) FROM snowflake_poll(NULL::lines, 0, 3, 'order_id')";
    assert_eq!(value(&mut client, some), "5");
    let rest = "SELECT count(*) FROM snowflake_poll(NULL::lines, (SELECT min(id) FROM orders), 7, 'order_id')";
    assert_eq!(value(&mut client, rest), "10");
}

/// A role that may create operators cannot have others call its functions.
#[test]
fn a_poll_compares_ids_by_postgresqls_own_operators_and_by_the_index() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE FUNCTION trap(snowflake, snowflake) RETURNS boolean LANGUAGE plpgsql AS
                 'BEGIN RAISE EXCEPTION $$called by %$$, current_user; END';
             CREATE OPERATOR public.> (LEFTARG = snowflake, RIGHTARG = snowflake, FUNCTION = trap);
             CREATE OPERATOR public.< (LEFTARG = snowflake, RIGHTARG = snowflake, FUNCTION = trap);
             CREATE TABLE typed (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
             INSERT INTO typed (n) SELECT n FROM generate_series(1, 5000) n; ANALYZE typed;
             SET enable_seqscan = off",
        )
        .expect("a trap");
    let flush = "SELECT pg_stat_force_next_flush()";
    client.batch_execute(flush).expect("counters");
    client.batch_execute("SELECT pg_stat_reset_single_table_counters('typed'::regclass)").expect("counters");
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_poll(NULL::typed, 0, 10)"), "10");
    client.batch_execute(flush).expect("counters");
    let read = "SELECT concat_ws(' ', seq_scan, idx_tup_fetch < 100) FROM pg_stat_user_tables WHERE relname = 'typed'";
    assert_eq!(value(&mut client, read), "0 t");
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_poll(NULL::typed, 0, 10000)"), "5000");
}

#[test]
fn a_poll_reads_by_the_index_and_with_the_privileges_and_policies_of_its_caller() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "INSERT INTO orders (note) SELECT 'many' FROM generate_series(1, 20000); ANALYZE orders;
             CREATE ROLE reader; CREATE ROLE stranger; GRANT SELECT ON orders TO reader;
             ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
             CREATE POLICY not_two ON orders TO reader USING (note <> 'two')",
        )
        .expect("roles");
    // What was counted before is flushed first, or it would come after the reset.
    client.batch_execute("SELECT pg_stat_force_next_flush()").expect("counters");
    client.batch_execute("SELECT pg_stat_reset_single_table_counters('orders'::regclass)").expect("counters");
    let some = "SELECT count(*) FROM snowflake_poll(NULL::orders, 0, 10)";
    assert_eq!(value(&mut client, some), "10");
    client.batch_execute("SELECT pg_stat_force_next_flush()").expect("counters");
    let scans = "SELECT seq_scan = 0 AND idx_scan > 0 FROM pg_stat_user_tables WHERE relname = 'orders'";
    assert_eq!(value(&mut client, scans), "t");
    client.batch_execute("SET ROLE reader").expect("a role");
    assert_eq!(value(&mut client, "SELECT string_agg(note, ' ') FROM snowflake_poll(NULL::orders, 0, 2)"), "one three");
    client.batch_execute("SET ROLE stranger").expect("a role");
    let refused = error(&mut client, "SELECT * FROM snowflake_poll(NULL::orders, 0)");
    assert_eq!(refused.message(), "permission denied for table orders");
}

#[test]
fn a_row_of_the_reader_itself_is_read_when_its_transaction_has_ended() {
    let (_cluster, mut client) = server();
    client.batch_execute("BEGIN").expect("a transaction");
    insert(&mut client);
    assert_eq!(polled(&mut client), 3);
    client.batch_execute("COMMIT").expect("its end");
    assert_eq!(polled(&mut client), 4);
}
