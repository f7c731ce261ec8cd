//! IDs for outsiders, and where their key appears.

use std::fs;
use testbed::postgres::Client;
use testbed::postgres::error::SqlState;
use testbed::{Cluster, error, need_extension, plan, project, test, value};

fn with_example(cluster: &Cluster) -> Client {
    let mut client = cluster.connect();
    let example = fs::read_to_string(project().join("examples/sql/order_codes.sql")).expect("the example");
    // What many owners grant to the role of their application.
    let before = "CREATE ROLE shop LOGIN; ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO shop";
    let after = "GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO shop;
        GRANT EXECUTE ON FUNCTION order_code(bigint), order_id(text) TO shop";
    client.batch_execute(&format!("CREATE EXTENSION snowflake_pg; {before}; {example} {after}")).expect("the example");
    client
}

#[test]
fn ids_are_encrypted_and_decrypted_by_keys_of_each_length_and_no_other() {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    for bytes in [16, 24, 32] {
        let wrong = format!(
            "WITH ids (id) AS (SELECT snowflake_nextvals(1000) UNION ALL VALUES (0), (9223372036854775807)),
             encrypted AS (SELECT id, snowflake_encrypt(id, key) AS hidden, key
                 FROM ids, decode(repeat('a7', {bytes}), 'hex') AS key)
             SELECT concat_ws(' ', count(*), count(DISTINCT hidden), min(sign(hidden)),
                 count(*) FILTER (WHERE snowflake_decrypt(hidden, key) <> id)) FROM encrypted"
        );
        assert_eq!(value(&mut client, &wrong), "1002 1002 1 0", "{bytes} bytes");
    }
    for bytes in [0, 15, 17, 33] {
        for function in ["snowflake_encrypt", "snowflake_decrypt"] {
            let refused = error(&mut client, &format!("SELECT {function}(1, decode(repeat('a7', {bytes}), 'hex'))"));
            assert_eq!(refused.code(), &SqlState::INVALID_PARAMETER_VALUE);
            assert_eq!(refused.message(), "key must have 16, 24 or 32 bytes");
            assert_eq!(refused.detail(), Some(format!("It has {bytes}.").as_str()));
        }
    }
    let negative = error(&mut client, "SELECT snowflake_decrypt(-1, decode(repeat('a7', 16), 'hex'))");
    assert_eq!(negative.message(), "Snowflake ID must not be negative");
    // The type snowflake is the same number, and the hint does what it says.
    let typed = "SELECT snowflake_decrypt(snowflake_encrypt(5::snowflake, key), key) FROM \
                 sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) key";
    assert_eq!(value(&mut client, typed), "5");
}

#[test]
fn the_functions_of_the_recipe_find_rows_by_the_index_and_hide_the_key_from_their_callers() {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = with_example(&cluster);
    client
        .batch_execute("INSERT INTO orders (item) SELECT 'many' FROM generate_series(1, 10000); ANALYZE orders")
        .expect("rows");
    client.batch_execute("SET ROLE shop").expect("the role");
    let wrong = "SELECT count(*) FROM (SELECT * FROM orders LIMIT 100) orders WHERE order_id(order_code(id)) <> id";
    assert_eq!(value(&mut client, wrong), "0");
    let code = value(&mut client, "SELECT order_code(id) FROM orders LIMIT 1");
    let find = format!("SELECT item FROM orders WHERE id = order_id('{code}')");
    assert_eq!(value(&mut client, &find), "many");
    let shown = plan(&mut client, &format!("EXPLAIN {find}"));
    assert!(shown.contains("Index Cond: (id = order_id("), "{shown}");
    let refused = error(&mut client, "SELECT * FROM secret.id_keys");
    assert_eq!(refused.message(), "permission denied for schema secret");
    // Names of the caller's own are not called with the rights of the owner. In a session that has planned nothing yet.
    let mut caller = cluster.connect();
    caller.batch_execute("SET ROLE shop").expect("the role");
    let traps = "CREATE FUNCTION pg_temp.trap(bytea) RETURNS boolean LANGUAGE plpgsql AS
                     'BEGIN RAISE EXCEPTION ''called as %'', current_user; END';
                 CREATE DOMAIN pg_temp.bytea AS pg_catalog.bytea CHECK (pg_temp.trap(value));
                 CREATE FUNCTION pg_temp.equal(text, text) RETURNS boolean LANGUAGE plpgsql AS
                     'BEGIN RAISE EXCEPTION ''called as %'', current_user; END';
                 CREATE OPERATOR pg_temp.= (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.equal);
                 CREATE FUNCTION pg_temp.snowflake_encrypt(bigint, pg_catalog.bytea) RETURNS bigint LANGUAGE plpgsql AS
                     'BEGIN RAISE EXCEPTION ''called as %'', current_user; END';
                 SET search_path = pg_temp, pg_catalog, public";
    caller.batch_execute(traps).expect("traps");
    assert_eq!(value(&mut caller, "SELECT order_id(order_code(5))"), "5");
    client.batch_execute("RESET ROLE; CREATE ROLE stranger; SET ROLE stranger").expect("another role");
    assert_eq!(error(&mut client, "SELECT order_code(1)").message(), "permission denied for function order_code");
    // As after the restore of a dump without keys. NULL would find no order.
    client.batch_execute("RESET ROLE; DELETE FROM secret.id_keys; SET ROLE shop").expect("no key");
    assert_eq!(error(&mut client, &find).message(), "key must have 16, 24 or 32 bytes");
}

#[test]
fn the_key_of_the_recipe_appears_neither_in_the_server_log_nor_in_the_statistics_of_statements() {
    need_extension("pg_stat_statements");
    let mut cluster = Cluster::builder()
        .worker(7)
        .set("shared_preload_libraries", "snowflake_pg,pg_stat_statements,auto_explain")
        .set("pg_stat_statements.track", "all")
        .set("auto_explain.log_min_duration", 0)
        .set("auto_explain.log_nested_statements", "on")
        .set("auto_explain.log_verbose", "on")
        .set("auto_explain.log_analyze", "on")
        .set("log_statement", "all")
        .set("log_min_duration_statement", 0)
        .set("log_error_verbosity", "verbose")
        .start();
    let mut client = with_example(&cluster);
    client
        .batch_execute("CREATE EXTENSION pg_stat_statements; INSERT INTO orders (item) VALUES ('tea')")
        .expect("a row");
    let key = value(&mut client, "SELECT encode(key, 'hex') FROM secret.id_keys");
    assert_eq!(key.len(), 64);
    client.batch_execute("SET ROLE shop").expect("the role");
    let code = value(&mut client, "SELECT order_code(id) FROM orders");
    client.query("SELECT item FROM orders WHERE id = order_id($1)", &[&code]).expect("a row");
    error(&mut client, "SELECT order_id('no code!')");
    client.batch_execute("RESET ROLE").expect("the owner");
    let statements = value(&mut client, "SELECT string_agg(query, E'\\n') FROM pg_stat_statements");
    assert!(statements.contains("order_id($1)") && statements.contains("id_keys"), "{statements}");
    assert!(!statements.contains(&key), "{statements}");
    // The statement that has shown the key here has no literal of it. One that has is in the log.
    client.batch_execute(&format!("SELECT snowflake_encrypt(1, '\\x{}')", "a7".repeat(16))).expect("an ID");
    cluster.stop(testbed::Signal::INT);
    let log = cluster.log();
    assert!(log.contains("order_code") && log.contains("Query Text:"), "{log}");
    assert!(log.contains(&"a7".repeat(16)), "the log has statements");
    assert!(!log.contains(&key), "the key is in the log");
}
