//! Plans for tables whose owners are not trusted.

use super::{database, is_new, plan, run};
use testbed::postgres::error::SqlState;
use testbed::{need_postgresql, test, value};

/// PostgreSQL runs code in a CHECK in ALTER TABLE, and code in an index also in a query. Whoever it belongs to, a
/// superuser who adopts runs none of it with rights that its owner lacks.
#[test]
fn a_superuser_who_adopts_runs_code_of_the_owners_with_their_rights_only_and_without_a_way_back() {
    let (database, mut client) = database();
    for owner in ["the Coder", "coder"] {
        client
            .batch_execute(&format!("CREATE ROLE \"{owner}\" LOGIN; GRANT ALL ON SCHEMA public, ids TO \"{owner}\""))
            .expect("a role");
    }
    let mut app = database.config().user("the Coder").connect(testbed::postgres::NoTls).expect("a session");
    let mut other = database.config().user("coder").connect(testbed::postgres::NoTls).expect("a session");
    let trap = |owner: &str, name: &str| {
        format!(
            "CREATE FUNCTION {name}(n bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
             BEGIN
                 IF current_user <> '{owner}' THEN RAISE EXCEPTION '% runs {name}', current_user; END IF;
                 IF session_user = 'postgres' THEN
                     BEGIN
                         PERFORM set_config('role', 'none', false);
                         RAISE EXCEPTION 'there is a way back';
                     EXCEPTION WHEN insufficient_privilege THEN NULL;
                     END;
                 END IF;
                 RETURN true;
             END $$"
        )
    };
    app.batch_execute(&format!(
        "{}; CREATE TABLE orders (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer, CHECK (app_code(id)));
         CREATE INDEX ON orders ((app_code(1))); CREATE INDEX ON orders (n) WHERE app_code(2);
         CREATE TABLE made (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval() CHECK (app_code(id)));
         CREATE INDEX ON made ((app_code(3)));
         CREATE TABLE parts (id bigint GENERATED ALWAYS AS IDENTITY, n integer) PARTITION BY LIST ((n > 0 AND app_code(4)));
         CREATE TABLE part PARTITION OF parts (CHECK (app_code(5))) DEFAULT; INSERT INTO parts (n) VALUES (1);
         GRANT REFERENCES ON orders TO coder; INSERT INTO orders (n) VALUES (1); INSERT INTO made DEFAULT VALUES;
         -- A literal of it runs the CHECK as soon as it is read.
         CREATE DOMAIN d AS bigint CHECK (app_code(VALUE));
         CREATE TABLE read (id serial PRIMARY KEY, n bigint);
         CREATE POLICY p ON read USING (id > 0 AND n = ANY ('{{1}}'::d[]::bigint[]));
         CREATE VIEW v AS SELECT id FROM read WHERE n = ANY ('{{1}}'::d[]::bigint[]);
         CREATE MATERIALIZED VIEW m AS TABLE v; CREATE INDEX ON m (id) WHERE id = ANY ('{{1}}'::d[]::bigint[]);
         CREATE TRIGGER t BEFORE UPDATE ON read FOR EACH ROW WHEN (new.id = ANY ('{{1}}'::d[]::bigint[]))
             EXECUTE FUNCTION suppress_redundant_updates_trigger();
         CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC SELECT max(id) FROM v WHERE id = ANY ('{{1}}'::d[]::bigint[]); END",
        trap("the Coder", "app_code")
    ))
    .expect("a table");
    other
        .batch_execute(&format!(
            "{}; CREATE TABLE items (of integer REFERENCES orders CHECK (other_code(of)));
             CREATE INDEX ON items ((other_code(of))); INSERT INTO items VALUES (1)",
            trap("coder", "other_code")
        ))
        .expect("a table");
    run(&mut client, "plan", "'orders'");
    let id = value(&mut app, "INSERT INTO orders (n) VALUES (2) RETURNING id");
    assert!(is_new(&mut client, &id), "{id}");
    run(&mut client, "plan", "'read'");
    run(&mut client, "plan", "'parts'");
    run(&mut client, "revert_plan", "'parts'");
    run(&mut client, "revert_plan", "'made'");
    assert_eq!(value(&mut app, "INSERT INTO made DEFAULT VALUES RETURNING pg_typeof(id)"), "bigint");
    other.batch_execute(&format!("INSERT INTO items VALUES ({id})")).expect("a row with a new ID");

    // Not even by who has become the owner.
    client.batch_execute("SET ROLE \"the Coder\"").expect("a role");
    for command in [
        "SELECT snowflake_adopt.run_as('\"the Coder\"', 'ALTER TABLE public.orders ADD CHECK (public.app_code(id))')",
        "SELECT snowflake_adopt.run_as('\"the Coder\"', 'SELECT public.app_code(3)::integer::bigint')",
    ] {
        client.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
    client.batch_execute("RESET ROLE; CREATE TABLE many (n bigint)").expect("a superuser");
    let all = "SELECT snowflake_adopt.run_as('postgres', 'INSERT INTO public.many VALUES (1), (2), (3) RETURNING n')";
    assert_eq!(value(&mut client, all), "1");
    assert_eq!(value(&mut client, "SELECT count(*) FROM many"), "3", "the whole command");
    for (command, code) in [("COMMIT", "0A000"), ("COPY many TO STDOUT", "0A000")] {
        let refused = testbed::error(&mut client, &format!("SELECT snowflake_adopt.run_as('postgres', '{command}')"));
        assert_eq!(refused.code().code(), code, "{command}: {refused:?}");
    }
    assert_eq!(
        testbed::error(&mut client, "SELECT snowflake_adopt.run_as('0', 'SELECT 1')").code().code(),
        "42704",
        "no role"
    );

    // Whoever cannot become the owner.
    for (who, role, command) in [
        ("a stranger", "\"the Coder\"", "SELECT 1::bigint"),
        ("a stranger", "postgres", "ALTER ROLE coder SUPERUSER"),
        ("a role that does not exist", "1", "SELECT 1::bigint"),
    ] {
        let refused = testbed::error(&mut other, &format!("SELECT snowflake_adopt.run_as('{role}', '{command}')"));
        let expected = if role == "1" { SqlState::UNDEFINED_OBJECT } else { SqlState::INSUFFICIENT_PRIVILEGE };
        assert_eq!(refused.code(), &expected, "{who}: {refused:?}");
    }
    client.batch_execute("GRANT \"the Coder\" TO coder").expect("a membership");
    assert_eq!(
        value(&mut other, "SELECT snowflake_adopt.run_as('\"the Coder\"', 'SELECT count(*) FROM public.orders')"),
        "2"
    );
    assert_eq!(value(&mut other, "SELECT snowflake_adopt.run_as('coder', 'CREATE TEMP TABLE t ()')"), "NULL");
    assert_eq!(value(&mut other, "SELECT current_user"), "coder");
}

/// In the middle of a plan, by code of his that the plan runs with his rights.
#[test]
fn an_owner_who_swaps_a_sequence_for_a_view_gets_no_code_run_by_the_plan_of_a_superuser() {
    let (database, mut client) = database();
    client.batch_execute("CREATE ROLE swapper LOGIN; GRANT ALL ON SCHEMA public, ids TO swapper").expect("a role");
    let mut swapper = database.config().user("swapper").connect(testbed::postgres::NoTls).expect("a session");
    swapper
        .batch_execute(
            "CREATE TABLE ran (who name);
             CREATE FUNCTION trap() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO public.ran VALUES (current_user); RETURN 5;
             END $$;
             CREATE FUNCTION swap(bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                 IF session_user <> 'swapper' AND to_regclass('public.hidden') IS NULL THEN
                     EXECUTE 'ALTER SEQUENCE public.swapped_id_seq RENAME TO hidden';
                     EXECUTE 'CREATE VIEW public.swapped_id_seq AS SELECT public.trap() AS last_value, true AS is_called';
                 END IF;
                 RETURN true;
             END $$;
             CREATE TABLE swapped (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer, CHECK (swap(id)));
             INSERT INTO swapped (n) VALUES (1)",
        )
        .expect("a trap");
    // It can fail at any command, and does not end.
    for command in plan(&mut client, "plan", "'swapped'").commands {
        let _ = client.batch_execute(&command).inspect_err(|_| assert!(command != "BEGIN", "{command}"));
        let who = "SELECT coalesce(string_agg(who, ' '), '') FROM ran";
        if command != "COMMIT"
            && let Ok(row) = client.query_one(who, &[])
        {
            assert!(["", "swapper"].contains(&row.get::<_, &str>(0)), "{command}");
        }
    }
}

#[test]
fn a_plan_does_not_take_the_rows_that_a_policy_shows_for_all() {
    let (database, mut client) = database();
    client.batch_execute("CREATE ROLE tenant LOGIN; GRANT ALL ON SCHEMA public, ids TO tenant").expect("a role");
    let mut tenant = database.config().user("tenant").connect(testbed::postgres::NoTls).expect("a session");
    tenant
        .batch_execute(
            "CREATE TABLE orders (id bigserial PRIMARY KEY, n integer); INSERT INTO orders VALUES (9e18, 1);
             ALTER TABLE orders ENABLE ROW LEVEL SECURITY; ALTER TABLE orders FORCE ROW LEVEL SECURITY",
        )
        .expect("a table");
    for client in [&mut client, &mut tenant] {
        let refused = testbed::error(client, "SELECT * FROM snowflake_adopt.plan('orders')");
        assert_eq!(refused.message(), "query would be affected by row-level security policy for table \"orders\"");
    }
}

/// A DBA adopts a table of an application.
#[test]
fn a_superuser_adopts_and_reverts_a_table_of_another_owner() {
    let (database, mut client) = database();
    client
        .batch_execute("CREATE ROLE \"the App\" LOGIN; GRANT ALL ON SCHEMA public, ids TO \"the App\"")
        .expect("a role");
    let mut app = database.config().user("the App").connect(testbed::postgres::NoTls).expect("a session");
    for column in ["serial", "integer GENERATED ALWAYS AS IDENTITY"] {
        app.batch_execute(&format!("CREATE TABLE orders (id {column} PRIMARY KEY, n integer)")).expect("a table");
        for which in ["plan", "revert_plan", "plan"] {
            run(&mut client, which, "'orders'");
            app.batch_execute("INSERT INTO orders (n) VALUES (1)").unwrap_or_else(|error| panic!("{which}: {error:?}"));
        }
        let owners = "SELECT DISTINCT relowner::regrole FROM pg_class WHERE relname LIKE 'orders%'";
        assert_eq!(value(&mut client, owners), "\"the App\"", "{column}");
        // The owner can do the same.
        run(&mut app, "revert_plan", "'orders'");
        assert_eq!(value(&mut app, "INSERT INTO orders (n) VALUES (1) RETURNING id"), "2", "{column}");
        app.batch_execute("DROP TABLE orders").expect("the end");
        assert_eq!(value(&mut client, "SELECT count(*) FROM pg_class WHERE relname LIKE 'orders%'"), "0", "{column}");
    }
}

/// PostgreSQL reads an expression again when the type of a column changes.
#[test]
fn a_plan_makes_no_function_of_another_role_code_of_a_table() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE ROLE bob; CREATE ROLE mallory; GRANT ALL ON SCHEMA public TO bob, mallory; GRANT USAGE ON SCHEMA ids TO bob; SET ROLE bob;
             CREATE FUNCTION is_fine(integer) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 0';
             CREATE FUNCTION is_fine(numeric) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 0';
             CREATE TABLE fine (id serial PRIMARY KEY, n integer, CONSTRAINT caller CHECK (is_fine(id)), CHECK (is_fine(n)));
             INSERT INTO fine (n) VALUES (1); RESET ROLE",
        )
        .expect("a table");
    let before = plan(&mut client, "plan", "'fine'").commands;
    client
        .batch_execute(
            "SET ROLE mallory; CREATE FUNCTION is_fine(bigint) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true'; RESET ROLE",
        )
        .expect("a function");
    let calls = "SELECT string_agg(DISTINCT refobjid::regprocedure::text, ', ') FROM pg_depend JOIN pg_constraint c ON c.oid = objid
        WHERE classid = 'pg_constraint'::regclass AND conrelid = 'fine'::regclass AND refclassid = 'pg_proc'::regclass";
    let refused = before.iter().find_map(|command| client.batch_execute(command).err()).expect("an error");
    let message = "a function of another role has got the name of one that a table calls";
    assert_eq!(refused.as_db_error().map(|error| error.message()), Some(message));
    client.batch_execute("ROLLBACK").expect("the end");
    assert_eq!(value(&mut client, calls), "is_fine(integer)");
    let now = plan(&mut client, "plan", "'fine'");
    let says = "constraint caller on table public.fine could call public.is_fine(bigint) of mallory then: rename that, or drop this one until the end.";
    assert_eq!((now.commands.len(), now.notes), (0, vec![says.to_owned()]));
    client.batch_execute("DROP FUNCTION is_fine(bigint)").expect("no function");
    run(&mut client, "plan", "'fine'");
    client.batch_execute("DROP OWNED BY bob, mallory; DROP ROLE bob, mallory").expect("the end");
}

/// PostgreSQL computes what is constant in an index when it reads the table.
#[test]
fn the_plan_for_a_column_of_times_runs_code_of_the_owner_with_its_rights() {
    need_postgresql(18);
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE ROLE timer; GRANT ALL ON SCHEMA public, ids TO timer; SET ROLE timer; CREATE TABLE ran (who name);
             CREATE FUNCTION hear() RETURNS void LANGUAGE sql AS 'INSERT INTO public.ran VALUES (current_user)';
             CREATE FUNCTION code(n integer) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM public.hear(); RETURN true; END';
             CREATE TABLE visits (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), created_at timestamptz DEFAULT clock_timestamp(), n integer CHECK (code(n)));
             INSERT INTO visits (n) VALUES (1); CREATE INDEX ON visits (n) WHERE code(2); DELETE FROM ran; RESET ROLE",
        )
        .expect("a table");
    run(&mut client, "replace_created_at", "'visits', 'created_at', '1 min'");
    assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT who, ', ') FROM ran"), "timer");
    assert_eq!(value(&mut client, "SELECT count(created_at) FROM visits"), "1");
    client.batch_execute("DROP OWNED BY timer; DROP ROLE timer").expect("the end");
}
