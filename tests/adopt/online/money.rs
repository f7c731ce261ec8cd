//! A value of type money is written and read as `lc_monetary` says, so a text means another value to another session.

use super::super::{plan, run_all};
use super::{builder, call};
use tempfile::TempDir;
use testbed::postgres::Client;
use testbed::{Cluster, chilean, test, value};

fn server() -> (TempDir, Cluster, Client) {
    let locales = chilean();
    let cluster = builder().environment("LOCPATH", locales.path().to_str().expect("a path")).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; SELECT snowflake_nextval();
             CREATE TABLE sold (id serial PRIMARY KEY, CHECK (id * '1.50'::money > '0.50'::money));
             CREATE TABLE lines (sold_id integer DEFAULT ('1.50'::money * 2)::numeric REFERENCES sold);
             CREATE INDEX ON lines (sold_id) WHERE sold_id * '1.50'::money > '0.50'::money;
             CREATE VIEW dear AS SELECT id FROM sold WHERE id * '1.50'::money > '0.50'::money;
             CREATE POLICY dear ON sold USING (id * '1.50'::money > '0.50'::money)",
        )
        .expect("a table");
    (locales, cluster, client)
}

/// All that was made again.
fn values(client: &mut Client) -> String {
    let values = "SELECT concat_ws(' ', array(SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c' AND conrelid = 'sold'::regclass),
        (SELECT column_default FROM information_schema.columns WHERE column_name = 'sold_id'),
        (SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indrelid = 'lines'::regclass), pg_get_viewdef('dear'),
        (SELECT pg_get_expr(polqual, polrelid) FROM pg_policy))";
    value(client, values)
}

#[test]
fn a_plan_that_was_made_where_money_is_written_otherwise_changes_no_value() {
    let (_locales, cluster, mut client) = server();
    let before = values(&mut client);
    let mut planner = cluster.connect();
    planner.batch_execute("SET lc_monetary = 'es_CL'").expect("a locale");
    run_all(&mut client, &plan(&mut planner, "plan", "'sold'").commands);
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(sold_id)) FROM lines"), "bigint");
    assert_eq!(values(&mut client), before);
}

#[test]
fn a_migration_of_a_role_for_which_money_is_written_otherwise_changes_no_value() {
    let (_locales, cluster, mut client) = server();
    let before = values(&mut client);
    client
        .batch_execute("CREATE ROLE chilean LOGIN SUPERUSER; ALTER ROLE chilean SET lc_monetary = 'es_CL'")
        .expect("a role");
    let mut chilean = cluster.connect();
    chilean.batch_execute("SET SESSION AUTHORIZATION chilean; SET lc_monetary = 'es_CL'").expect("a user");
    for step in ["start", "run", "finish"] {
        call(&mut chilean, &format!("{step}('sold')"));
    }
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(sold_id)) FROM lines"), "bigint");
    assert_eq!(values(&mut client), before);
}
