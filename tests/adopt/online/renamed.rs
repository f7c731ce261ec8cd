//! Names and privileges change while a migration waits: an owner who may create schemas can put another table in the
//! place of one.

use super::{call, launch, server};
use std::thread;
use testbed::postgres::Client;
use testbed::{Cluster, error, test, value};

/// Tables of one name, whose schemas are mallory's: the first one is mallory's, and the second one is not.
const TABLES: &str = "
    CREATE ROLE mallory; CREATE ROLE victim; CREATE SCHEMA den AUTHORIZATION mallory; CREATE SCHEMA lair AUTHORIZATION mallory;
    CREATE SCHEMA tools AUTHORIZATION mallory; GRANT CREATE ON DATABASE postgres TO mallory;
    SET SESSION AUTHORIZATION mallory;
    GRANT ALL ON SCHEMA den, lair, tools TO victim; CREATE TABLE tools.heard (name text); GRANT INSERT ON tools.heard TO victim;
    CREATE FUNCTION tools.hear() RETURNS void LANGUAGE sql AS 'INSERT INTO tools.heard VALUES (current_user)';
    CREATE FUNCTION tools.spy(n integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM tools.hear(); RETURN n; END';
    CREATE TABLE den.sales (id serial PRIMARY KEY, n integer);
    INSERT INTO den.sales (n) VALUES (1), (2);
    CREATE INDEX plain ON den.sales (n, id); CREATE INDEX spied ON den.sales (id, tools.spy(n)); DELETE FROM tools.heard;
    SET SESSION AUTHORIZATION victim;
    CREATE TABLE lair.sales (id serial PRIMARY KEY, n integer, snowflake_adopt_id bigint);
    INSERT INTO lair.sales (n) VALUES (1), (2); RESET SESSION AUTHORIZATION";

const RENAMES: &str =
    "SET SESSION AUTHORIZATION mallory; ALTER SCHEMA den RENAME TO hidden; ALTER SCHEMA lair RENAME TO den;
    RESET SESSION AUTHORIZATION";

/// What somebody else's table has, whatever the name of its schema is.
fn of_victim(client: &mut Client, table: &str) -> String {
    let parts = format!(
        "SELECT concat(array(SELECT concat_ws(' ', attname, atttypid::regtype, attacl) FROM pg_attribute WHERE attrelid = {table} AND attnum > 0 ORDER BY attnum),
            array(SELECT indexrelid FROM pg_index WHERE indrelid = {table} ORDER BY 1), array(SELECT oid FROM pg_trigger WHERE tgrelid = {table}),
            array(SELECT conname FROM pg_constraint WHERE conrelid = {table} ORDER BY 1),
            array(SELECT adbin::text FROM pg_attrdef WHERE adrelid = {table}))"
    );
    value(client, &parts)
}

/// The tables, of which a superuser has begun to adopt mallory's, and the OID of the other one.
fn tables() -> (Cluster, Client, String) {
    let (cluster, mut client) = server();
    client.batch_execute(TABLES).expect("tables");
    let victim = value(&mut client, "SELECT 'lair.sales'::regclass::oid");
    call(&mut client, "start('den.sales')");
    call(&mut client, "run('den.sales')");
    (cluster, client, victim)
}

const WAITS: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted
    AND pid IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_adopt'))";

#[test]
fn an_index_is_not_made_on_the_table_of_another_owner_that_gets_the_name_meanwhile() {
    let (cluster, mut client, victim) = tables();
    let before = of_victim(&mut client, &victim);
    let mut holder = cluster.connect();
    holder.batch_execute("BEGIN; LOCK TABLE den.sales IN SHARE UPDATE EXCLUSIVE MODE").expect("a lock");
    launch(&mut client, "den.sales", "adopted", "100");
    cluster.wait_until(WAITS);
    client.batch_execute(RENAMES).expect("other names");
    holder.batch_execute("COMMIT").expect("no lock");
    call(&mut client, "finish('hidden.sales')");
    assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT name, ', ') FROM tools.heard"), "mallory");
    assert_eq!(of_victim(&mut client, &victim), before);
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM hidden.sales"), "bigint");
}

/// Holds up each GRANT of a worker as long as somebody has this lock.
pub const EVENT: &str = "
    CREATE FUNCTION holds_up() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = 0 AS $$
    BEGIN
        IF (SELECT backend_type = 'snowflake_adopt' FROM pg_stat_activity WHERE pid = pg_backend_pid()) THEN
            PERFORM pg_advisory_xact_lock_shared(1);
        END IF;
    END $$;
    CREATE EVENT TRIGGER holds_up ON ddl_command_start WHEN TAG IN ('GRANT') EXECUTE FUNCTION holds_up();
    SELECT pg_advisory_lock(1)";

pub const HELD_UP: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory')";

/// The swap has its locks then, and goes through its commands.
#[test]
fn a_swap_changes_no_table_of_another_owner_that_gets_the_name_meanwhile() {
    let (cluster, mut client, victim) = tables();
    client
        .batch_execute("SET ROLE mallory; DROP INDEX den.spied; ALTER TABLE den.sales DROP CONSTRAINT sales_pkey; GRANT SELECT (id) ON den.sales TO mallory; GRANT UPDATE (id) ON den.sales TO PUBLIC; RESET ROLE")
        .expect("a table without an index");
    let before = of_victim(&mut client, &victim);
    client.batch_execute(EVENT).expect("an event trigger");
    launch(&mut client, "den.sales", "adopted", "100");
    cluster.wait_until(HELD_UP);
    client.batch_execute(RENAMES).expect("other names");
    client.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
    cluster.wait_until("SELECT count(*) = 0 FROM snowflake_adopt.migration");
    assert_eq!(of_victim(&mut client, &victim), before);
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM hidden.sales"), "bigint");
}

/// An owner can have made it, so that another column becomes the key.
#[test]
fn an_index_on_other_columns_is_not_taken_for_a_successor() {
    let (_cluster, mut client) = server();
    for (what, on) in [("UNIQUE", "(n)"), ("UNIQUE", "(snowflake_adopt_id, n)"), ("", "(snowflake_adopt_id)")] {
        client
            .batch_execute(
                "CREATE TABLE planted (id serial PRIMARY KEY, n integer); INSERT INTO planted (n) VALUES (1), (2)",
            )
            .expect("a table");
        call(&mut client, "start('planted')");
        let plant = format!(
            "SELECT format('CREATE {what} INDEX snowflake_adopt_%s ON planted {on}', 'planted_pkey'::regclass::oid)"
        );
        let plant = value(&mut client, &plant);
        client.batch_execute(&plant).expect("an index");
        let refused = error(&mut client, "CALL snowflake_adopt.finish('planted')");
        assert_eq!(refused.message(), "the migration of public.planted is paused", "{plant}");
        assert!(refused.detail().is_some_and(|detail| detail.contains("already exists")), "{refused:?}");
        let index = plant.split(' ').find(|word| word.starts_with("snowflake_adopt_")).expect("its name");
        client.batch_execute(&format!("DROP INDEX {index}")).expect("no index");
        call(&mut client, "finish('planted')");
        let key = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'planted_pkey'";
        assert_eq!(value(&mut client, key), "PRIMARY KEY (id)");
        client.batch_execute("DROP TABLE planted").expect("no table");
    }
}

/// Whoever owns the schema of `snowflake_pg` can put functions in the place of its own.
#[test]
fn a_function_that_gets_the_name_of_one_of_ours_meanwhile_is_not_called_by_a_superuser() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE mallory; GRANT CREATE ON DATABASE postgres TO mallory; CREATE SCHEMA ids AUTHORIZATION mallory;
             ALTER EXTENSION snowflake_pg SET SCHEMA ids; SET SESSION AUTHORIZATION mallory; CREATE SCHEMA fake; CREATE SCHEMA tools;
             CREATE SEQUENCE tools.calls;
             CREATE FUNCTION fake.snowflake_advance(bigint, boolean) RETURNS void LANGUAGE sql AS 'SELECT nextval(''tools.calls'')';
             CREATE TABLE tools.big (id bigint PRIMARY KEY); INSERT INTO tools.big SELECT ids.snowflake_min_id(now() + '30 min');
             CREATE TABLE tools.small (big_id integer REFERENCES tools.big); RESET SESSION AUTHORIZATION",
        )
        .expect("tables");
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('tools.big')"));
    }
    client.batch_execute(&EVENT.replace("'GRANT'", "'DROP TRIGGER'")).expect("an event trigger");
    launch(&mut client, "tools.big", "adopted", "100");
    cluster.wait_until(HELD_UP);
    client
        .batch_execute(
            "SET SESSION AUTHORIZATION mallory; ALTER SCHEMA ids RENAME TO hidden; ALTER SCHEMA fake RENAME TO ids; RESET SESSION AUTHORIZATION;
             SELECT pg_advisory_unlock(1)",
        )
        .expect("other names");
    cluster.wait_until("SELECT count(*) = 0 FROM snowflake_adopt.migration");
    assert_eq!(value(&mut client, "SELECT is_called FROM tools.calls"), "f");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(big_id)) FROM tools.small"), "bigint");
    // All new IDs are greater, so that this server waits.
    let refused = error(&mut client, "SELECT hidden.snowflake_nextval()");
    assert_eq!(refused.message(), "the server's clock is too far behind the last ID issued");
}

#[test]
fn a_function_that_gets_the_name_of_snowflake_nextval_meanwhile_numbers_no_row() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE mallory; GRANT CREATE ON DATABASE postgres TO mallory; CREATE SCHEMA ids AUTHORIZATION mallory;
             ALTER EXTENSION snowflake_pg SET SCHEMA ids; SET ROLE mallory; CREATE SCHEMA fake;
             CREATE FUNCTION fake.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'; RESET ROLE;
             CREATE TABLE numbered (id serial PRIMARY KEY)",
        )
        .expect("a table");
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('numbered')"));
    }
    client.batch_execute(&EVENT.replace("'GRANT'", "'DROP TRIGGER'")).expect("an event trigger");
    launch(&mut client, "numbered", "adopted", "100");
    cluster.wait_until(HELD_UP);
    client
        .batch_execute(
            "ALTER SCHEMA ids RENAME TO hidden; ALTER SCHEMA fake RENAME TO ids; SELECT pg_advisory_unlock(1)",
        )
        .expect("other names");
    // Again, by the new name.
    cluster.wait_until("SELECT count(*) = 0 FROM snowflake_adopt.migration");
    let calls = "SELECT refobjid::regprocedure FROM pg_depend JOIN pg_attrdef f ON classid = 'pg_attrdef'::regclass AND objid = f.oid
        WHERE adrelid = 'numbered'::regclass AND refclassid = 'pg_proc'::regclass";
    assert_eq!(value(&mut client, calls), "hidden.snowflake_nextval()");
}

/// PostgreSQL would let a superuser, or a member of the other owner's role, change that table, and run its code.
#[test]
fn a_table_in_a_schema_of_a_role_with_lesser_rights_is_not_adopted() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE mallory; CREATE ROLE member; GRANT mallory TO member; CREATE ROLE bob; CREATE SCHEMA den AUTHORIZATION mallory;
             GRANT ALL ON SCHEMA den, public TO bob, member; CREATE TABLE den.sales (id serial PRIMARY KEY);
             CREATE TABLE den.wide (id bigserial PRIMARY KEY); CREATE TABLE local (id serial PRIMARY KEY)",
        )
        .expect("tables");
    for (owner, table, is_refused) in [
        ("postgres", "den.sales", true),
        ("postgres", "den.wide", true),
        ("member", "den.sales", true),
        ("bob", "den.sales", false),
        ("mallory", "den.wide", false),
        ("postgres", "public.local", false),
    ] {
        client.batch_execute(&format!("ALTER TABLE {table} OWNER TO {owner}")).expect("an owner");
        let start = client.batch_execute(&format!("CALL snowflake_adopt.start('{table}')"));
        let says = format!(
            "{owner}, who owns {table}, has the rights of mallory, who owns its schema: give both to one role."
        );
        let refused =
            start.err().and_then(|error| error.as_db_error().map(|error| error.detail().unwrap_or("").to_owned()));
        assert_eq!(refused.as_deref(), is_refused.then_some(&*says), "{owner} {table}");
        if !is_refused {
            call(&mut client, &format!("undo('{table}')"));
        }
    }
    // The owner of the database owns this schema.
    client.batch_execute("ALTER DATABASE postgres OWNER TO mallory").expect("an owner");
    let refused = error(&mut client, "CALL snowflake_adopt.start('local')");
    assert!(refused.detail().is_some_and(|detail| detail.contains("has the rights of mallory")), "{refused:?}");
    client.batch_execute("ALTER TABLE local OWNER TO mallory").expect("an owner");
    call(&mut client, "start('local')");
}

/// GRANT and REVOKE wait for no lock of a table.
#[test]
fn a_privilege_that_is_revoked_while_a_swap_waits_stays_revoked() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE secrets (id serial PRIMARY KEY); CREATE VIEW shown AS SELECT id FROM secrets; GRANT SELECT (id) ON secrets TO reader",
        )
        .expect("a table");
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('secrets')"));
    }
    // The swap locks the view, and then the table.
    client.batch_execute(&EVENT.replace("'GRANT'", "'ALTER VIEW'")).expect("an event trigger");
    launch(&mut client, "secrets", "adopted", "100");
    cluster.wait_until(HELD_UP);
    client
        .batch_execute("REVOKE SELECT (id) ON secrets FROM reader; SELECT pg_advisory_unlock(1)")
        .expect("no privilege");
    cluster.wait_until("SELECT count(*) = 0 FROM snowflake_adopt.migration");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM secrets"), "bigint");
    assert_eq!(value(&mut client, "SELECT has_column_privilege('reader', 'secrets', 'id', 'SELECT')"), "f");
}

/// The swap has looked what to grant again, and has its locks.
#[test]
fn nobody_revokes_a_privilege_between_a_look_at_it_and_the_commands_that_grant_it_again() {
    for (at, revoke, left_with) in [
        ("DROP TRIGGER", "REVOKE SELECT (id) ON secrets FROM reader", 2),
        // Also of its columns.
        ("DROP VIEW", "REVOKE SELECT ON shown FROM reader", 1),
        ("DROP VIEW", "REVOKE SELECT (id) ON shown FROM reader", 2),
    ] {
        let (cluster, mut client) = server();
        client
            .batch_execute(
                "CREATE TABLE secrets (id serial PRIMARY KEY); GRANT SELECT (id) ON secrets TO reader;
                 CREATE VIEW shown AS SELECT id FROM secrets; GRANT SELECT, SELECT (id) ON shown TO reader",
            )
            .expect("a table");
        for step in ["start", "run"] {
            call(&mut client, &format!("{step}('secrets')"));
        }
        client.batch_execute(&EVENT.replace("'GRANT'", &format!("'{at}'"))).expect("an event trigger");
        launch(&mut client, "secrets", "adopted", "100");
        cluster.wait_until(HELD_UP);
        let mut revoker = cluster.connect();
        let pid = value(&mut revoker, "SELECT pg_backend_pid()");
        let revoked = thread::spawn(move || revoker.batch_execute(revoke).is_ok());
        let waits = format!("SELECT EXISTS (SELECT FROM pg_locks WHERE pid = {pid} AND NOT granted)");
        while !revoked.is_finished() && value(&mut client, &waits) != "t" {}
        client.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
        cluster.wait_until("SELECT count(*) = 0 FROM snowflake_adopt.migration");
        // From PostgreSQL 18 on, it waits for the table. Before, it fails.
        if !revoked.join().expect("no panic") {
            client.batch_execute(revoke).expect("no privilege");
        }
        let left = "SELECT concat((SELECT relacl FROM pg_class WHERE oid = 'shown'::regclass),
            array(SELECT attacl FROM pg_attribute WHERE attrelid = 'shown'::regclass AND attacl IS NOT NULL),
            array(SELECT attacl FROM pg_attribute WHERE attrelid = 'secrets'::regclass AND attacl IS NOT NULL AND NOT attisdropped))";
        let left = value(&mut client, left);
        assert_eq!(left.matches("reader=r").count(), left_with, "{revoke}: {left}");
    }
}
