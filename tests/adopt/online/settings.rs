//! Code of a role sets parameters for its session, and functions of ours run in that session with the rights of a
//! superuser.

use super::{call, server};
use testbed::postgres::NoTls;
use testbed::{Cluster, test, value};

/// Writes down who runs it. Functions of hers and a type stand for those of `pg_catalog` where `search_path` says so.
const MALLORY: &str = "
    CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; SET SESSION AUTHORIZATION mallory; CREATE TABLE who (name text);
    CREATE FUNCTION seize() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.who VALUES (current_user); RETURN true; END';
    CREATE FUNCTION differ(text[], text[]) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM public.seize(); RETURN false; END';
    CREATE OPERATOR <> (LEFTARG = text[], RIGHTARG = text[], FUNCTION = differ);
    CREATE DOMAIN public.oid AS pg_catalog.oid CHECK (public.seize());
    CREATE FUNCTION shift(integer) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM public.seize(), set_config('search_path', 'public, pg_catalog', false);
        RETURN true;
    END $$;
    CREATE TABLE bait (id serial PRIMARY KEY, n integer); INSERT INTO bait (n) VALUES (1), (2)";

/// Who has run code of mallory's in these steps.
fn users(cluster: &Cluster, steps: &[&str]) -> String {
    let mut mallory = cluster.connect();
    mallory.batch_execute("SET SESSION AUTHORIZATION mallory").expect("a user");
    for step in steps {
        call(&mut mallory, &format!("{step}('bait')"));
    }
    value(&mut mallory, "SELECT string_agg(DISTINCT name, ', ') FROM public.who")
}

#[test]
fn no_setting_of_a_caller_holds_for_functions_of_ours() {
    let (cluster, mut client) = server();
    client.batch_execute(MALLORY).expect("a table");
    client.batch_execute("ALTER TABLE bait ADD CHECK (shift(n)) NOT VALID; DELETE FROM who").expect("a constraint");
    // Code of the role that has connected runs with no settings of its own.
    let mut mallory = cluster.config().user("mallory").connect(NoTls).expect("a session");
    call(&mut mallory, "start('bait')");
    assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT name, ', ') FROM who"), "mallory");
}

/// Where PostgreSQL reads an array of the domain when it reads the command, at the top level.
#[test]
fn no_setting_of_a_role_holds_for_functions_of_ours_in_its_worker() {
    let (cluster, mut client) = server();
    client.batch_execute(MALLORY).expect("a table");
    client
        .batch_execute(
            "CREATE DOMAIN eye AS integer CHECK (shift(VALUE)); SET search_path = public;
             CREATE INDEX ON bait (id) WHERE n > array_length('{1}'::eye[], 1); DELETE FROM public.who",
        )
        .expect("an index");
    assert_eq!(users(&cluster, &["start", "run", "finish"]), "mallory");
}

/// The worker writes expressions as texts, and PostgreSQL reads them.
#[test]
fn settings_of_a_role_change_no_value_in_a_constraint_or_an_index() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE indian LOGIN SUPERUSER; ALTER ROLE indian SET extra_float_digits = -15; ALTER ROLE indian SET datestyle = 'SQL, DMY';
             ALTER ROLE indian SET timezone = 'Asia/Kolkata'; ALTER ROLE indian SET intervalstyle = 'sql_standard';
             ALTER ROLE indian SET array_nulls = off;
             CREATE TABLE exact (id serial PRIMARY KEY, x float8, at timestamptz, CHECK (id > 0 AND x <> '0.123456789012345'::float8),
                CHECK (id > 0 AND at <> '2020-05-01 12:00:00+00'::timestamptz),
                CHECK (id > 0 AND (x::text <> ALL ('{1,NULL}'::text[])) IS NOT FALSE));
             CREATE INDEX ON exact (id) WHERE x > '0.987654321098765'::float8",
        )
        .expect("a table");
    let values = "SELECT concat(array(SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'exact'::regclass AND contype = 'c' ORDER BY 1),
        array(SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indrelid = 'exact'::regclass AND indpred IS NOT NULL))";
    let before = value(&mut client, values);
    let mut indian = cluster.connect();
    indian.batch_execute("SET SESSION AUTHORIZATION indian").expect("a user");
    for step in ["start", "run", "finish"] {
        call(&mut indian, &format!("{step}('exact')"));
    }
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM exact"), "bigint");
    assert_eq!(value(&mut client, values), before);
}
