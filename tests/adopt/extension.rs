//! The extension is installed for a migration, and dropped afterwards.

use super::{database, is_new, plan, run};
use testbed::{Cluster, error, test, value};

#[test]
fn adopted_tables_need_the_extension_no_more_and_a_new_one_knows_the_way_back() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id integer GENERATED ALWAYS AS IDENTITY (INCREMENT 5) PRIMARY KEY, n integer);
             CREATE TABLE items (id serial PRIMARY KEY, order_id integer REFERENCES orders);
             INSERT INTO orders (n) VALUES (1); INSERT INTO items (order_id) VALUES (1)",
        )
        .expect("tables");
    for table in ["'orders'", "'items'"] {
        run(&mut client, "plan", table);
    }
    client.batch_execute("DROP EXTENSION snowflake_adopt").expect("nothing depends on it");
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'snowflake_adopt'";
    assert_eq!(value(&mut client, left), "0");
    for table in ["orders", "items"] {
        let id = value(&mut client, &format!("INSERT INTO {table} DEFAULT VALUES RETURNING id"));
        assert!(is_new(&mut client, &id), "{table}: {id}");
    }
    // Wherever snowflake_pg is by now.
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_adopt; CREATE SCHEMA elsewhere; ALTER EXTENSION snowflake_pg SET SCHEMA elsewhere;
             CREATE TABLE notes (id serial PRIMARY KEY)",
        )
        .expect("the extension");
    for (table, next) in [("orders", "6"), ("items", "2")] {
        run(&mut client, "revert_plan", &format!("'{table}'"));
        assert_eq!(value(&mut client, &format!("INSERT INTO {table} DEFAULT VALUES RETURNING id")), next);
    }
    let commands = plan(&mut client, "plan", "'notes'").commands;
    assert!(
        commands.iter().any(|command| command.ends_with("SET DEFAULT elsewhere.snowflake_nextval()")),
        "{commands:?}"
    );
}

#[test]
fn the_extension_needs_snowflake_pg_and_a_schema_that_nobody_else_has_made() {
    let database = Cluster::builder().worker(7).database();
    let mut client = database.connect();
    let refused = error(&mut client, "CREATE EXTENSION snowflake_adopt");
    assert_eq!(refused.message(), "required extension \"snowflake_pg\" is not installed");
    client.batch_execute("CREATE SCHEMA snowflake_adopt").expect("a schema");
    let refused = error(&mut client, "CREATE EXTENSION snowflake_adopt CASCADE");
    assert_eq!(refused.message(), "schema \"snowflake_adopt\" already exists");
    client.batch_execute("DROP SCHEMA snowflake_adopt; CREATE EXTENSION snowflake_adopt CASCADE").expect("both");
    assert_eq!(error(&mut client, "DROP EXTENSION snowflake_pg").code().code(), "2BP01");
}

/// What is read for a plan is read with the rights of its caller, and names are looked up in pg_catalog.
#[test]
fn a_role_without_rights_plans_for_its_own_tables_and_reads_no_others() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id serial PRIMARY KEY); CREATE ROLE planner; CREATE SCHEMA own AUTHORIZATION planner;
             GRANT USAGE ON SCHEMA ids TO planner; SET ROLE planner;
             CREATE TABLE own.items (id serial PRIMARY KEY)",
        )
        .expect("a role");
    run(&mut client, "plan", "'own.items'");
    run(&mut client, "revert_plan", "'own.items'");
    for call in ["plan('orders')", "schema_plan('public', true)", "run_as('postgres', 'SELECT 1')"] {
        let refused = error(&mut client, &format!("SELECT snowflake_adopt.{call}"));
        assert_eq!(refused.code().code(), "42501", "{call}: {refused:?}");
    }
    let create = error(&mut client, "CREATE FUNCTION snowflake_adopt.f() RETURNS integer LANGUAGE sql AS 'SELECT 1'");
    assert_eq!(create.message(), "permission denied for schema snowflake_adopt");
    client.batch_execute("RESET ROLE; DROP OWNED BY planner; DROP ROLE planner").expect("the end");
}

/// SECURITY.md has the list of what everybody may call.
#[test]
fn default_privileges_and_grants_let_nobody_write_or_call_what_is_not_for_everybody() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "DROP EXTENSION snowflake_adopt; CREATE ROLE granted; CREATE TABLE secret (id bigserial PRIMARY KEY); ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO granted, PUBLIC;
             ALTER DEFAULT PRIVILEGES GRANT ALL ON ROUTINES TO granted, PUBLIC; ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO granted, PUBLIC;
             CREATE EXTENSION snowflake_adopt",
        )
        .expect("a role");
    let tables = "SELECT string_agg(relname, ', ') FROM pg_class WHERE relnamespace = 'snowflake_adopt'::regnamespace AND relkind IN ('r', 'v')
        AND has_table_privilege('granted', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')";
    assert_eq!(value(&mut client, tables), "progress");
    let written = "SELECT has_table_privilege('granted', 'snowflake_adopt.progress', 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
        OR has_schema_privilege('granted', 'snowflake_adopt', 'CREATE')";
    assert_eq!(value(&mut client, written), "f");
    let functions = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'snowflake_adopt'::regnamespace AND has_function_privilege('granted', oid, 'EXECUTE')";
    assert_eq!(value(&mut client, functions), "24");
    // Whatever has more rights than its caller, or runs in a session of the caller's, looks up names in pg_catalog.
    // Procedures that commit cannot, and call only functions of ours.
    let unsafe_ones = "SELECT coalesce(string_agg(proname, ', ' ORDER BY proname), '') FROM pg_proc JOIN pg_language l ON l.oid = prolang
        WHERE pronamespace = 'snowflake_adopt'::regnamespace AND (prosecdef <> (proname LIKE '%\\_for\\_caller')
            OR lanname <> 'c' AND prokind <> 'p' AND NOT coalesce(proconfig @> '{\"search_path=pg_catalog, pg_temp\"}', false))";
    assert_eq!(value(&mut client, unsafe_ones), "");
    // Their caller would be a superuser.
    let callers = "SELECT coalesce(string_agg(proname, ', '), '') FROM pg_proc WHERE pronamespace = 'snowflake_adopt'::regnamespace AND prokind = 'f'
        AND prosrc ~ '(FROM|JOIN|PERFORM|LATERAL|:=|\\() *snowflake_adopt\\.(plan|schema_plan|revert_plan|revert_schema_plan|replace_created_at|aim|has_reached|begin_migration|migrations)\\('";
    assert_eq!(value(&mut client, callers), "");
    client
        .batch_execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA snowflake_adopt TO granted; SET ROLE granted")
        .expect("more than anybody needs");
    for call in ["plan_for_caller('secret', 'id')", "begin_migration_for_caller('secret', 'id', false)"] {
        let refused = error(&mut client, &format!("SELECT * FROM snowflake_adopt.{call}"));
        assert_eq!(refused.code().code(), "42501", "{call}: {refused:?}");
    }
    let read = error(&mut client, "SELECT snowflake_adopt.greatest_id('secret', 'id')");
    assert_eq!(read.message(), "permission denied for table secret");
    client.batch_execute("RESET ROLE; DROP OWNED BY granted; DROP ROLE granted").expect("the end");
}
