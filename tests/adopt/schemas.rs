//! Commands name schemas, whose owners can rename them between a plan and its commands, and put others in their place.

use super::{Plan, database, plan, with_extension};
use testbed::{Cluster, error, test, value};

/// Her code would run as whoever changes her table.
#[test]
fn a_table_in_a_schema_of_a_role_with_lesser_rights_than_its_owner_gets_no_plan() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE ROLE mary; CREATE SCHEMA den AUTHORIZATION mary; CREATE SCHEMA lair AUTHORIZATION mary;
             CREATE TABLE den.sales (id serial PRIMARY KEY); CREATE TABLE den.wide (id bigserial PRIMARY KEY);
             CREATE TABLE den.made (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval(), created_at timestamptz)",
        )
        .expect("tables");
    for (which, table) in [("plan", "sales"), ("plan", "wide"), ("revert_plan", "made")] {
        let says = format!(
            "postgres, who owns den.{table}, has the rights of mary, who owns its schema: give both to one role."
        );
        let Plan { commands, notes } = plan(&mut client, which, &format!("'den.{table}'"));
        assert_eq!((commands.len(), notes), (0, vec![says]));
    }
    let refused =
        error(&mut client, "SELECT * FROM snowflake_adopt.replace_created_at('den.made', 'created_at', '1 s')");
    assert!(refused.message().starts_with("postgres, who owns den.made, has the rights of mary"), "{refused:?}");
    client.batch_execute("ALTER SCHEMA den OWNER TO postgres").expect("an owner");
    super::run(&mut client, "plan", "'den.sales'");
    client.batch_execute("DROP OWNED BY mary CASCADE; DROP ROLE mary").expect("the end");
}

#[test]
fn a_plan_calls_no_function_that_got_the_name_of_one_of_ours_and_makes_none_a_default() {
    // Its IDs are moved ahead.
    let cluster = Cluster::builder().worker(7).start();
    let mut client = with_extension(cluster.connect());
    client
        .batch_execute(
            "CREATE ROLE maud; GRANT CREATE ON DATABASE postgres TO maud; CREATE SEQUENCE calls; GRANT ALL ON SEQUENCE calls TO PUBLIC;
             CREATE TABLE big (id bigint PRIMARY KEY); INSERT INTO big SELECT ids.snowflake_min_id(now() + '20 min');
             CREATE TABLE small (id serial PRIMARY KEY); ALTER SCHEMA ids OWNER TO maud",
        )
        .expect("tables");
    let plans = ["'small'", "'big'"].map(|table| plan(&mut client, "plan", table).commands);
    client
        .batch_execute(
            "SET ROLE maud; ALTER SCHEMA ids RENAME TO hidden; CREATE SCHEMA ids;
             CREATE FUNCTION ids.snowflake_advance(bigint, boolean) RETURNS void LANGUAGE sql AS 'SELECT nextval(''public.calls'')';
             CREATE FUNCTION ids.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''public.calls'')'; RESET ROLE",
        )
        .expect("functions");
    for commands in plans {
        let error = commands.iter().find_map(|command| client.batch_execute(command).err()).expect("an error");
        let message = error.as_db_error().map(|error| error.message());
        assert_eq!(message, Some("another function has got the name of snowflake_nextval()"));
        client.batch_execute("ROLLBACK").expect("the end");
        assert_eq!(value(&mut client, "SELECT is_called FROM calls"), "f", "{commands:?}");
    }
}

/// Between two commands, and back.
#[test]
fn a_plan_of_a_superuser_gives_nobody_a_view_and_drops_no_policy_of_a_table_that_gets_the_name_meanwhile() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE ROLE moira; CREATE ROLE robert; CREATE ROLE victor; CREATE SCHEMA den AUTHORIZATION moira; CREATE SCHEMA lair AUTHORIZATION moira;
             GRANT ALL ON SCHEMA den, lair TO robert, victor; GRANT USAGE ON SCHEMA ids TO robert; SET ROLE robert;
             CREATE TABLE den.sales (id serial PRIMARY KEY); CREATE VIEW den.v AS SELECT id FROM den.sales; CREATE POLICY p ON den.sales USING (id > 0);
             SET ROLE victor; CREATE TABLE lair.sales (id serial PRIMARY KEY); CREATE POLICY p ON lair.sales USING (false);
             SET ROLE moira; CREATE VIEW lair.v AS SELECT 1 AS id; RESET ROLE",
        )
        .expect("tables");
    let of = "SELECT concat_ws(' ', 'lair.v'::regclass::oid, 'lair.sales'::regclass::oid)";
    let oids = value(&mut client, of);
    let (view, table) = oids.split_once(' ').expect("two");
    let Plan { commands, .. } = plan(&mut client, "plan", "'den.sales'");
    for what in ["ALTER VIEW", "DROP POLICY"] {
        for command in &commands {
            let is_it = command.contains(what);
            let swap = "ALTER SCHEMA den RENAME TO hidden; ALTER SCHEMA lair RENAME TO den";
            let back = "ALTER SCHEMA den RENAME TO lair; ALTER SCHEMA hidden RENAME TO den";
            let renamed = if is_it { format!("{swap}; {command}; {back}") } else { command.clone() };
            if let Err(error) = client.batch_execute(&renamed) {
                assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{what}: {error:?}");
                assert!(is_it, "{what}: {command}: {error:?}");
                break;
            }
        }
        let kept = format!(
            "SELECT concat_ws(' ', (SELECT relowner::regrole FROM pg_class WHERE oid = {view}), (SELECT polname FROM pg_policy WHERE polrelid = {table}))"
        );
        client.batch_execute("ROLLBACK").expect("the end");
        assert_eq!(value(&mut client, &kept), "moira p", "{what}");
        assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM den.sales"), "integer", "{what}");
    }
    super::run(&mut client, "plan", "'den.sales'");
    // Of a superuser, who has the rights of all.
    client
        .batch_execute("CREATE TABLE mine (id serial PRIMARY KEY); CREATE VIEW den.of_mine AS SELECT id FROM mine")
        .expect("a view");
    let Plan { commands, notes } = plan(&mut client, "plan", "'mine'");
    let says =
        "view den.of_mine cannot be dropped and recreated: its schema belongs to moira, whose rights its owner has.";
    assert_eq!((commands.len(), notes), (0, vec![says.to_owned()]));
    client
        .batch_execute("DROP OWNED BY moira, robert, victor CASCADE; DROP ROLE moira, robert, victor")
        .expect("the end");
}
