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
