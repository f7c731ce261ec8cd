//! Plans that are older than a change, or run beside one, and by sessions with other settings.

use super::{database, plan, run};
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Database, test, value};

/// A table with what reads it.
const ORDERS: &str = "CREATE ROLE dora; CREATE TABLE orders (id serial PRIMARY KEY, n integer);
    CREATE VIEW v AS SELECT id FROM orders; GRANT SELECT ON v TO dora;
    CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC SELECT max(id) FROM orders; END;
    CREATE TRIGGER t BEFORE UPDATE ON orders FOR EACH ROW WHEN (new.id > 0)
        EXECUTE FUNCTION suppress_redundant_updates_trigger();
    CREATE POLICY p ON orders USING (id > 0)";

/// Runs a plan as psql does, which goes on after an error. The first error.
fn first_error(client: &mut Client, commands: &[String]) -> Option<String> {
    let errors = commands.iter().filter_map(|command| client.batch_execute(command).err());
    let messages: Vec<_> =
        errors.map(|error| error.as_db_error().expect("an error of the server").message().to_owned()).collect();
    messages.into_iter().next()
}

fn schema_plan(client: &mut Client) -> Vec<String> {
    plan(client, "schema_plan", "'public', widen => true").commands
}

fn type_of_id(client: &mut Client) -> String {
    value(client, "SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'id'")
}

#[test]
fn a_plan_that_is_older_than_a_change_of_what_it_makes_again_does_nothing() {
    let (_database, mut client) = database();
    client.batch_execute(ORDERS).expect("a table");
    for (change, back, what) in [
        ("REVOKE SELECT ON v FROM dora", "GRANT SELECT ON v TO dora", "view public.v"),
        ("ALTER VIEW v OWNER TO dora", "ALTER VIEW v OWNER TO postgres", "view public.v"),
        (
            "CREATE OR REPLACE VIEW v AS SELECT id FROM orders WHERE n > 0",
            "CREATE OR REPLACE VIEW v AS SELECT id FROM orders",
            "view public.v",
        ),
        (
            "ALTER POLICY p ON orders USING (id > 1)",
            "ALTER POLICY p ON orders USING (id > 0)",
            "policy p on table public.orders",
        ),
        ("ALTER FUNCTION f SECURITY DEFINER", "ALTER FUNCTION f SECURITY INVOKER", "function public.f()"),
        (
            "ALTER TABLE orders DISABLE TRIGGER t",
            "ALTER TABLE orders ENABLE TRIGGER t",
            "trigger t on table public.orders",
        ),
    ] {
        let plans = [plan(&mut client, "plan", "'orders'").commands, schema_plan(&mut client)];
        client.batch_execute(change).expect("a change");
        for commands in plans {
            let failed = first_error(&mut client, &commands);
            assert_eq!(failed, Some(format!("{what} has changed since the plan was made")), "{change}");
            assert_eq!(type_of_id(&mut client), "integer", "{change}");
        }
        client.batch_execute(back).expect("a change");
    }
    // What refers to the table by now.
    for commands in [plan(&mut client, "plan", "'orders'").commands, schema_plan(&mut client)] {
        client.batch_execute("CREATE TABLE items (order_id integer REFERENCES orders)").expect("a table");
        assert_eq!(first_error(&mut client, &commands), Some("columns are not bigint yet".to_owned()));
        client.batch_execute("DROP TABLE items").expect("the end");
    }
    // Also if the key is a bigint already, and there was nothing to widen.
    client.batch_execute("CREATE TABLE wide (id bigserial PRIMARY KEY)").expect("a table");
    let commands = plan(&mut client, "plan", "'wide'").commands;
    client.batch_execute("CREATE TABLE narrow (wide_id integer REFERENCES wide)").expect("a table");
    assert_eq!(first_error(&mut client, &commands), Some("columns are not bigint yet".to_owned()));
    client.batch_execute("DROP OWNED BY dora; DROP ROLE dora").expect("the end");
}

/// The plan calls `snowflake_advance()`, which is for superusers.
#[test]
fn a_plan_that_must_not_skip_the_greatest_id_gives_no_lower_ones() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE ROLE advancer; GRANT ALL ON SCHEMA public, ids TO advancer; SET ROLE advancer;
             CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT 1);
             INSERT INTO orders VALUES (ids.snowflake_min_id(now() + interval '20 min'))",
        )
        .expect("a table");
    let commands = plan(&mut client, "plan", "'orders'").commands;
    let refused = first_error(&mut client, &commands);
    assert_eq!(refused, Some("permission denied for function snowflake_advance".to_owned()));
    assert_eq!(
        value(&mut client, "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'orders'::regclass"),
        "1"
    );
    client.batch_execute("RESET ROLE; DROP OWNED BY advancer; DROP ROLE advancer").expect("the end");
}

/// A change that has begun before the plan, and ends while the plan waits.
#[test]
fn a_plan_that_waits_for_a_change_of_what_it_makes_again_does_nothing() {
    let (database, mut client) = database();
    client.batch_execute(&ORDERS.replace("dora", "doris")).expect("a table");
    for change in [
        "ALTER POLICY p ON orders USING (id > 1)",
        "CREATE OR REPLACE VIEW v AS SELECT id FROM orders WHERE n > 0",
        "ALTER VIEW v SET (security_barrier)",
        "CREATE TRIGGER i INSTEAD OF INSERT ON v FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ] {
        let commands = plan(&mut client, "plan", "'orders'").commands;
        client.batch_execute(&format!("BEGIN; {change}")).expect("a change");
        let mut planner = database.connect();
        let plans = thread::spawn(move || {
            // As long as this test needs.
            let commands: Vec<_> = commands.iter().map(|command| command.replace("'500ms'", "'1min'")).collect();
            first_error(&mut planner, &commands)
        });
        let waits = "SELECT count(*) > 0 FROM pg_locks JOIN pg_database d ON d.oid = database
            WHERE NOT granted AND datname = current_database()";
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut observer = database.connect();
        while value(&mut observer, waits) != "t" {
            assert!(Instant::now() < deadline, "the plan does not wait for {change}");
            thread::sleep(Duration::from_millis(10));
        }
        client.batch_execute("COMMIT").expect("the end of the change");
        let failed = plans.join().expect("a session").unwrap_or_else(|| panic!("{change}: the plan has run"));
        assert!(failed.ends_with("has changed since the plan was made"), "{change}: {failed}");
        assert_eq!(type_of_id(&mut client), "integer", "{change}");
    }
    client.batch_execute("DROP OWNED BY doris; DROP ROLE doris").expect("the end");
}

/// What psql says that runs a plan with savepoints.
fn psql(database: &Database, which: &str) -> String {
    let mut script = tempfile::NamedTempFile::new().expect("a file");
    writeln!(script, "SELECT command FROM snowflake_adopt.{which}('orders') \\gexec").expect("a script");
    let mut psql = database.psql();
    let output = psql.args(["--set=ON_ERROR_ROLLBACK=on", "--file"]).arg(script.path()).output().expect("psql");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// psql with ON_ERROR_ROLLBACK, and JDBC with autosave, leave out what fails and commit the rest.
#[test]
fn a_client_that_sets_savepoints_does_not_commit_a_part_of_a_plan() {
    let (database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id serial PRIMARY KEY); CREATE FUNCTION fits(integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 = 1';
             CREATE POLICY p ON orders AS RESTRICTIVE USING (fits(id))",
        )
        .expect("a table");
    let said = psql(&database, "plan");
    assert!(said.contains("this transaction has a savepoint, but must be all or nothing"), "{said}");
    assert!(said.contains("HINT:  In psql, type \\set ON_ERROR_ROLLBACK off, and run the plan again."), "{said}");
    let policy = "SELECT count(*) FROM pg_policy WHERE polrelid = 'orders'::regclass";
    assert_eq!((type_of_id(&mut client), value(&mut client, policy)), ("integer".to_owned(), "1".to_owned()), "{said}");
    // The way back, too.
    client.batch_execute("DROP POLICY p ON orders").expect("a change");
    run(&mut client, "plan", "'orders'");
    let said = psql(&database, "revert_plan");
    assert!(said.contains("this transaction has a savepoint"), "{said}");
    let default = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'orders'::regclass";
    assert_eq!(value(&mut client, default), "ids.snowflake_nextval()");
}

/// Constants in definitions are texts.
#[test]
fn a_plan_means_the_same_whatever_the_settings_of_who_makes_it_and_who_runs_it() {
    let (database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id serial PRIMARY KEY); SET quote_all_identifiers = off;
             CREATE VIEW v AS SELECT id FROM orders WHERE 0.30000000000000004::float8 < id AND now() > '2020-02-01'::date
                 AND now() - interval '-1 day 2 hours' > '2020-02-01 00:00:00Z' AND (id::text <> ALL ('{a,NULL}')) IS NOT FALSE;
             SET array_nulls = off",
        )
        .expect("a table");
    let view = "SELECT pg_get_viewdef('v')";
    let before = value(&mut client, view);
    let mut planner = database.connect();
    let odd = "SET datestyle = 'SQL, DMY'; SET intervalstyle = 'sql_standard'; SET extra_float_digits = 0;
        SET quote_all_identifiers = on; SET search_path = ''";
    planner.batch_execute(odd).expect("settings");
    if let Err(error) = planner.batch_execute("SET standard_conforming_strings = off") {
        // Since PostgreSQL 19.
        assert_eq!(error.code().expect("a code").code(), "0A000");
    }
    let commands = plan(&mut planner, "plan", "'public.orders'").commands;
    for command in commands {
        client.batch_execute(&command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
    assert_eq!(value(&mut client, view), before);
    assert!(plan(&mut planner, "plan", "'public.orders'").notes[0].starts_with("There is nothing to do"));
    for (arguments, of, number) in [("'public.orders'", "", "1"), ("'public'", "schema_", "2")] {
        run(&mut planner, &format!("revert_{of}plan"), arguments);
        assert_eq!(value(&mut client, "INSERT INTO orders DEFAULT VALUES RETURNING id"), number);
        run(&mut planner, &format!("{of}plan"), arguments);
    }
}
