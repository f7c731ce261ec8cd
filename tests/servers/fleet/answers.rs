//! What other servers answer is only data.

use super::fixture::{check, conninfo, member, problems, start};
use testbed::{Cluster, test, value};

/// Has a server say something else of itself.
fn pretend(cluster: &Cluster, columns: &str) {
    let replace = format!(
        "ALTER EXTENSION snowflake_pg DROP FUNCTION snowflake_identity(); DROP FUNCTION snowflake_identity();
         CREATE FUNCTION snowflake_identity(
             OUT system_identifier text, OUT datacenter_id text, OUT worker_id text, OUT state text, OUT layout text,
             OUT clock timestamptz, OUT in_recovery boolean) LANGUAGE sql AS $$
             SELECT a, b, c, d, e, f::timestamptz, g::boolean FROM (VALUES ({columns})) said(a, b, c, d, e, f, g) $$;
         ALTER EXTENSION snowflake_pg ADD FUNCTION snowflake_identity()"
    );
    cluster.connect().batch_execute(&replace).expect("another function");
}

#[test]
fn an_unexpected_answer_is_a_problem_of_its_server_alone() {
    let (one, two) = (start(member(1)), start(member(2)));
    let unexpected = "the server has sent an unexpected answer";
    for (columns, problem) in [
        ("'1', '0', '2', 'ready', 't1', now(), false", "other layout than this server"),
        ("NULL, '0', '2', 'ready', 't1', now(), false", unexpected),
        ("'many', '0', '2', 'ready', 't1', now(), false", unexpected),
        ("'99999999999999999999', '0', '2', 'ready', 't1', now(), false", unexpected),
        ("'1', '0', '2', NULL, 't1', now(), false", unexpected),
        ("'1', '0', '2', 'ready', 't1', NULL, false", unexpected),
        ("'1', '0', '2', 'ready', 't1', now(), NULL", unexpected),
        ("'1', '0', '2', 'ready', 't1', 'infinity', false", "cannot convert infinity to bigint"),
        ("'1', '0', '-1', 'ready', NULL, now(), false", ""),
        ("'1', NULL, 'two', 'ready', NULL, now(), false", ""),
        ("'1', '0', '4294967295', 'odd', NULL, now(), false", "state is \"odd\""),
        ("'1', '0', '2', 'ready', NULL, '200000-01-01', false", "clock is 624"),
        ("'1', '0', '2', 'ready', NULL, '4713-01-01 BC', false", "clock is 21"),
    ] {
        pretend(&two, columns);
        let found = check(&one, &[&two]);
        assert_eq!(found[0], "", "{columns}");
        let rest = found[1].strip_prefix(problem).unwrap_or_else(|| panic!("{columns}: {found:?}"));
        assert!(rest.is_empty() || problem.starts_with("clock is "), "{columns}: {found:?}");
    }
}

#[test]
fn long_and_invisible_texts_of_other_servers_are_shortened_and_escaped() {
    let (one, evil) = (start(member(1)), start(member(2)));
    pretend(
        &evil,
        "'1', '0', '2', E'a\\n\\x1b[2J' || repeat('b', 1000000), E'c\\td' || repeat('e', 1000000), now(), false",
    );
    let query = "SELECT state, layout, problem FROM snowflake_check_fleet($1) WHERE server = 1";
    let row = one.connect().query_one(query, &[&[conninfo(&evil)].as_slice()]).expect("a check");
    let [state, layout, problem]: [String; 3] = [0, 1, 2].map(|column| row.get(column));
    assert_eq!(state, format!("a\\n\\u{{1b}}[2J{}...", "b".repeat(94)));
    assert_eq!(layout, format!("c\\td{}...", "e".repeat(97)));
    assert!(problem.starts_with("state is \"a\\n\\u{1b}[2Jbbb") && problem.len() < 200, "{problem}");

    evil.connect()
        .batch_execute(
            "CREATE OR REPLACE FUNCTION snowflake_identity(
                 OUT system_identifier text, OUT datacenter_id text, OUT worker_id text, OUT state text, OUT layout text,
                 OUT clock timestamptz, OUT in_recovery boolean) LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION E'first\\n  second \\x1b %', repeat('x', 100000); END $$",
        )
        .expect("a function that fails");
    let found = &problems(&mut one.connect(), &[conninfo(&evil)])[1];
    assert!(found.starts_with("first second \\u{1b} xxx") && found.ends_with("xxx..."), "{found}");
    assert!(found.len() < 600, "{found}");
}

#[test]
fn a_function_that_is_not_of_the_extension_is_not_called() {
    let (one, two) = (start(member(1)), start(member(2)));
    two.connect()
        .batch_execute(
            "CREATE TABLE called (n integer);
             ALTER EXTENSION snowflake_pg DROP FUNCTION snowflake_identity(); DROP FUNCTION snowflake_identity();
             CREATE FUNCTION snowflake_identity() RETURNS integer LANGUAGE sql AS 'INSERT INTO called VALUES (1) RETURNING n'",
        )
        .expect("an older version, and a trap");
    let problem = format!("extension snowflake_pg {} has no snowflake_identity()", env!("CARGO_PKG_VERSION"));
    assert_eq!(check(&one, &[&two]), ["", &problem]);
    assert_eq!(value(&mut two.connect(), "SELECT count(*) FROM called"), "0");
}

#[test]
fn neither_the_schema_of_the_extension_nor_the_search_path_matters() {
    let (one, two) = (start(member(1)), start(member(1)));
    two.connect()
        .batch_execute(
            "CREATE SCHEMA \"odd \"\"schema'\"; ALTER EXTENSION snowflake_pg SET SCHEMA \"odd \"\"schema'\";
             CREATE SCHEMA evil;
             CREATE TABLE evil.called (n integer);
             CREATE FUNCTION evil.note() RETURNS integer LANGUAGE sql AS 'INSERT INTO evil.called VALUES (1) RETURNING n';
             CREATE FUNCTION evil.quote_ident(name) RETURNS text LANGUAGE sql AS 'SELECT evil.note()::text';
             CREATE FUNCTION evil.equal(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT evil.note() > 0';
             CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.equal);
             CREATE FUNCTION evil.equal(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT evil.note() > 0';
             CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.equal);
             CREATE FUNCTION evil.times(numeric, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT evil.note()::numeric';
             CREATE OPERATOR evil.* (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = evil.times);
             ALTER DATABASE postgres SET search_path = evil, pg_catalog",
        )
        .expect("a schema with traps");
    assert_eq!(check(&one, &[&two])[1], "same worker ID as this server");
    assert_eq!(value(&mut two.connect(), "SELECT count(*) FROM evil.called"), "0");
}

#[test]
fn texts_and_connection_strings_are_converted_between_encodings() {
    let (one, two) = (start(member(1)), start(member(2)));
    one.connect()
        .batch_execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        .expect("a database");
    two.connect().batch_execute("CREATE DATABASE \"zo\u{eb}\"").expect("a database");
    let mut client = one.config().dbname("latin").connect(testbed::postgres::NoTls).expect("a session");
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let asked = [format!("host={} user=postgres dbname=zo\u{eb}", two.host().display())];
    let problem = |name: &str| format!("extension snowflake_pg does not exist in database \"{name}\"");
    assert_eq!(problems(&mut client, &asked)[1], problem("zo\\xEB"));
    assert_eq!(problems(&mut one.connect(), &asked)[1], problem("zo\u{eb}"));
}
