//! A command names a function, and PostgreSQL chooses which one of that name it calls: with a `bigint`, another one may
//! fit better than before.

use super::renamed::{EVENT, HELD_UP};
use super::{call, launch, server};
use testbed::postgres::Client;
use testbed::{error, test, value};

const BOB: &str = "
    CREATE ROLE bob LOGIN; CREATE ROLE mallory; CREATE SCHEMA tools; GRANT CREATE, USAGE ON SCHEMA tools TO bob, mallory;
    GRANT CREATE ON SCHEMA public TO bob; CREATE TABLE heard (name text); GRANT INSERT ON heard TO PUBLIC; SET ROLE bob;
    CREATE FUNCTION tools.is_fine(integer) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 0';
    CREATE FUNCTION tools.is_fine(numeric) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 0';
    CREATE TABLE fine (id serial PRIMARY KEY, n integer); INSERT INTO fine (n) VALUES (1), (2); RESET ROLE";

/// Fits a bigint better than those of bob's.
const MALLORY: &str = "
    SET ROLE mallory; CREATE FUNCTION tools.hear() RETURNS void LANGUAGE sql AS 'INSERT INTO public.heard VALUES (current_user)';
    CREATE FUNCTION tools.is_fine(bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM tools.hear(); RETURN true; END';
    RESET ROLE";

const INLINED: &str = "CREATE FUNCTION tools.call(integer) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN PERFORM nextval(''public.calls''); RETURN true; END';
    CREATE FUNCTION tools.is_fine(bigint) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT tools.call(1)'";

const CALLERS: [(&str, &str, &str); 3] = [
    (
        "ALTER TABLE fine ADD CONSTRAINT caller CHECK (tools.is_fine(id))",
        "constraint caller on table public.fine",
        "ALTER TABLE fine DROP CONSTRAINT caller",
    ),
    ("CREATE INDEX caller ON fine (n) WHERE tools.is_fine(id)", "index public.caller", "DROP INDEX caller"),
    (
        "CREATE STATISTICS caller ON n, tools.is_fine(id) FROM fine",
        "statistics object public.caller",
        "DROP STATISTICS caller",
    ),
];

fn heard(client: &mut Client) -> String {
    value(client, "SELECT count(*) FROM heard")
}

#[test]
fn a_table_whose_code_could_become_that_of_another_role_is_not_adopted() {
    let (_cluster, mut client) = server();
    client.batch_execute(BOB).expect("a table");
    client.batch_execute(MALLORY).expect("a function");
    for (create, caller, drop) in CALLERS {
        client.batch_execute(create).expect("a caller");
        let refused = error(&mut client, "CALL snowflake_adopt.start('fine')");
        let says = format!(
            "{caller} could call tools.is_fine(bigint) of mallory then: rename that, or drop this one until the end."
        );
        assert!(refused.detail().is_some_and(|detail| detail.contains(&says)), "{refused:?}");
        assert_eq!(heard(&mut client), "0", "{create}");
        client.batch_execute(drop).expect("no caller");
    }
}

#[test]
fn a_function_of_another_role_that_comes_after_the_start_becomes_no_code_of_the_table() {
    let (_cluster, mut client) = server();
    client.batch_execute(BOB).expect("a table");
    for (create, ..) in CALLERS {
        client.batch_execute(create).expect("a caller");
        for step in ["start('fine')", "run('fine')"] {
            call(&mut client, step);
        }
        client.batch_execute(MALLORY).expect("a function");
        error(&mut client, "CALL snowflake_adopt.finish('fine')");
        // Code of mallory's would run with the rights of whoever inserts a row.
        client.batch_execute("DELETE FROM heard; INSERT INTO fine (n) VALUES (3)").expect("a row");
        assert_eq!(heard(&mut client), "0", "{create}");
        call(&mut client, "undo('fine')");
        client
            .batch_execute("DROP TABLE fine; DROP OWNED BY mallory CASCADE; GRANT CREATE, USAGE ON SCHEMA tools TO mallory; SET ROLE bob; CREATE TABLE fine (id serial PRIMARY KEY, n integer); RESET ROLE")
            .expect("a table");
    }
}

/// It only looks whether there is such a function.
#[test]
fn a_start_calls_no_function_to_know_whether_it_takes_a_bigint() {
    let (_cluster, mut client) = server();
    client.batch_execute(BOB).expect("a table");
    client.batch_execute(&MALLORY.replace("mallory", "bob")).expect("a function");
    for (create, ..) in CALLERS {
        client.batch_execute(create).expect("a caller");
    }
    client.batch_execute("DELETE FROM heard").expect("nobody");
    call(&mut client, "start('fine')");
    assert_eq!(heard(&mut client), "0");
}

/// As above, of another role. What an SQL function calls with constants runs where it takes the place of a call.
#[test]
fn a_start_calls_no_function_of_another_role_to_know_whether_it_takes_a_bigint() {
    let (_cluster, mut client) = server();
    client.batch_execute(BOB).expect("a table");
    client
        .batch_execute(&format!(
            "CREATE SEQUENCE calls; GRANT ALL ON SEQUENCE calls TO PUBLIC; {}; SET ROLE mallory; {INLINED}; RESET ROLE",
            CALLERS[0].0
        ))
        .expect("a function");
    error(&mut client, "CALL snowflake_adopt.start('fine')");
    assert_eq!(value(&mut client, "SELECT is_called FROM calls"), "f");
}

/// The swap has its locks then.
#[test]
fn a_function_of_another_role_that_comes_during_the_swap_becomes_no_code_of_the_table() {
    let (cluster, mut client) = server();
    client.batch_execute(BOB).expect("a table");
    client.batch_execute("CREATE STATISTICS caller ON n, tools.is_fine(id) FROM fine").expect("statistics");
    for step in ["start('fine')", "run('fine')"] {
        call(&mut client, step);
    }
    client.batch_execute(&EVENT.replace("'GRANT'", "'DROP TRIGGER'")).expect("an event trigger");
    launch(&mut client, "fine", "adopted", "100");
    cluster.wait_until(HELD_UP);
    client.batch_execute(MALLORY).expect("a function");
    client.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
    cluster.wait_until("SELECT coalesce(bool_and(is_paused), true) FROM snowflake_adopt.migration");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM fine"), "integer");
    client.batch_execute("ANALYZE fine").expect("statistics");
    assert_eq!(heard(&mut client), "0");
}

/// What the worker has asked for is about to run at the top level then.
#[test]
fn a_function_of_another_role_that_comes_before_an_index_is_made_becomes_no_code_of_it() {
    let (cluster, mut client) = server();
    client.batch_execute(BOB).expect("a table");
    client.batch_execute("CREATE INDEX caller ON fine (n) WHERE tools.is_fine(id)").expect("an index");
    for step in ["start('fine')", "run('fine')"] {
        call(&mut client, step);
    }
    client.batch_execute(&EVENT.replace("'GRANT'", "'CREATE INDEX'")).expect("an event trigger");
    launch(&mut client, "fine", "adopted", "100");
    cluster.wait_until(HELD_UP);
    client.batch_execute(MALLORY).expect("a function");
    client.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
    cluster.wait_until("SELECT coalesce(bool_and(is_paused), true) FROM snowflake_adopt.migration");
    client.batch_execute("INSERT INTO fine (n) VALUES (3)").expect("a row");
    assert_eq!(heard(&mut client), "0");
}

/// The swap makes the indexes of partitioned tables, which read an expression again.
#[test]
fn a_function_of_another_role_that_comes_during_the_swap_is_not_called_for_an_index_of_a_partitioned_table() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            &BOB.replace("CREATE TABLE fine (id serial PRIMARY KEY, n integer)", "CREATE TABLE fine (id serial, n integer) PARTITION BY LIST (n); CREATE TABLE part PARTITION OF fine DEFAULT")
        )
        .expect("a table");
    client
        .batch_execute(
            "CREATE SEQUENCE calls; GRANT ALL ON SEQUENCE calls TO PUBLIC; SET ROLE bob; CREATE INDEX caller ON fine (id) WHERE tools.is_fine(id); RESET ROLE",
        )
        .expect("an index");
    for step in ["start('fine')", "run('fine')"] {
        call(&mut client, step);
    }
    client.batch_execute(&EVENT.replace("'GRANT'", "'DROP TRIGGER'")).expect("an event trigger");
    launch(&mut client, "fine", "adopted", "100");
    cluster.wait_until(HELD_UP);
    client.batch_execute(&format!("SET ROLE mallory; {INLINED}; RESET ROLE")).expect("a function");
    client.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
    cluster.wait_until("SELECT coalesce(bool_and(is_paused), true) FROM snowflake_adopt.migration");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM fine"), "integer");
    assert_eq!(value(&mut client, "SELECT is_called FROM calls"), "f");
}

/// Its function can be PostgreSQL's own.
#[test]
fn an_operator_of_another_role_that_comes_after_the_start_becomes_no_code_of_the_table() {
    let (_cluster, mut client) = server();
    client.batch_execute(BOB).expect("a table");
    client
        .batch_execute(
            "SET ROLE bob; CREATE OPERATOR tools.<<< (LEFTARG = integer, RIGHTARG = integer, FUNCTION = int4lt);
             CREATE OPERATOR tools.<<< (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = numeric_lt); RESET ROLE",
        )
        .expect("an operator");
    for create in [
        "ALTER TABLE fine ADD CONSTRAINT caller CHECK (0 OPERATOR(tools.<<<) id)",
        "CREATE INDEX caller ON fine (n) WHERE 0 OPERATOR(tools.<<<) id",
    ] {
        client.batch_execute(create).expect("a caller");
        for step in ["start('fine')", "run('fine')"] {
            call(&mut client, step);
        }
        client
            .batch_execute("SET ROLE mallory; CREATE OPERATOR tools.<<< (LEFTARG = integer, RIGHTARG = bigint, FUNCTION = int48lt); RESET ROLE")
            .expect("an operator");
        let refused = error(&mut client, "CALL snowflake_adopt.finish('fine')");
        assert_eq!(refused.message(), "the migration of public.fine is paused", "{create}");
        let of_mallory = "SELECT count(*) FROM pg_depend JOIN pg_operator o ON refclassid = 'pg_operator'::regclass AND o.oid = refobjid
            WHERE oprowner = 'mallory'::regrole";
        assert_eq!(value(&mut client, of_mallory), "0", "{create}");
        call(&mut client, "undo('fine')");
        client
            .batch_execute("DROP OPERATOR tools.<<< (integer, bigint); DROP INDEX IF EXISTS caller; ALTER TABLE fine DROP CONSTRAINT IF EXISTS caller")
            .expect("no caller");
    }
}
