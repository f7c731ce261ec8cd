//! plpgsql_check, which looks into functions in PL/pgSQL without calling them.

use super::column;
use testbed::{Cluster, hosted_script, need_extension, test};

#[test]
fn plpgsql_check_finds_nothing_in_the_functions_for_hosted_databases() {
    need_extension("plpgsql_check");
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    let prepare =
        "CREATE EXTENSION plpgsql_check; CREATE TABLE orders (id bigint); CREATE SCHEMA ids; SET search_path = ids";
    client.batch_execute(prepare).expect("an extension");
    client.batch_execute(&hosted_script()).expect("the script");
    client.batch_execute("RESET search_path").expect("a setting");
    let functions = "FROM pg_proc p JOIN pg_language l ON l.oid = prolang AND lanname = 'plpgsql'
        CROSS JOIN LATERAL plpgsql_check_function(p.oid, CASE proname WHEN 'snowflake_fill' THEN 'orders'::regclass
            WHEN 'snowflake_guard_database' THEN 'ids.snowflake_database'::regclass ELSE 0 END, fatal_errors => false, extra_warnings => false) found
        WHERE pronamespace = 'ids'::regnamespace";
    let found = column(&mut client, &format!("SELECT p.oid::regprocedure || ': ' || found {functions}"));
    assert_eq!(found, [""; 0]);
    // It would find something.
    let wrong = "CREATE OR REPLACE FUNCTION ids.snowflake_at(ms bigint) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE STRICT AS
        'BEGIN RETURN snowflake_nowhere(ms); END'";
    client.batch_execute(wrong).expect("a function");
    let found = column(&mut client, &format!("SELECT found {functions}"));
    assert!(found.iter().any(|found| found.contains("snowflake_nowhere(bigint) does not exist")), "{found:?}");
}
