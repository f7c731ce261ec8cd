//! A library under a script of another version, as between the installation of a package and ALTER EXTENSION UPDATE.

use testbed::postgres::Client;
use testbed::{Cluster, Database, error, test, value};

const STATUS: &str = "snowflake_get_status";
const DECODE: &str = "snowflake_decode";
const LAYOUTS: &str = "snowflake_get_layouts";
const PARTITIONS: &str = "snowflake_create_partitions";

/// A database with an ID.
fn database() -> (Database, Client) {
    let database = Cluster::builder().worker(7).set("timezone", "UTC").database();
    let mut client = database.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval();
             CREATE TABLE events (id bigint) PARTITION BY RANGE (id)",
        )
        .expect("the extension");
    (database, client)
}

/// Declares a function of the library as the script of another version would, by the name `other`.
fn declare(client: &mut Client, function: &str, declaration: &str) {
    let declare = format!(
        "DROP ROUTINE IF EXISTS other;
         CREATE FUNCTION other{declaration} LANGUAGE c STRICT AS '$libdir/snowflake_pg', '{function}_wrapper'"
    );
    client.batch_execute(&declare).expect("a function");
}

#[test]
fn a_script_gets_the_columns_that_it_declares_in_its_order() {
    let (_database, mut client) = database();
    declare(&mut client, STATUS, "(OUT state text, OUT worker_id integer)");
    assert_eq!(value(&mut client, "SELECT other()"), "(ready,7)");
    assert_eq!(value(&mut client, "SELECT other FROM other()"), "(ready,7)");
    declare(&mut client, STATUS, "(OUT sequence_exhaustion text, OUT state text)");
    assert_eq!(value(&mut client, "SELECT other FROM other()"), "(wait,ready)");
    declare(&mut client, DECODE, "(id bigint, OUT worker_id integer, OUT issued_at timestamptz)");
    assert_eq!(value(&mut client, "SELECT other(1541815603606036480)"), "(26,\"2022-06-28 16:07:40.105+00\")");
    declare(&mut client, LAYOUTS, "(OUT name text, OUT fields text) RETURNS SETOF record");
    assert_eq!(value(&mut client, "SELECT other FROM other() WHERE name = 'flat'"), "(flat,\"t41 w10 s12\")");
    assert_eq!(value(&mut client, "SELECT max((row).fields) FROM (SELECT other() AS row) s"), "t48 s16");
    declare(
        &mut client,
        PARTITIONS,
        "(regclass, interval, integer, OUT partition regclass, OUT since timestamptz) RETURNS SETOF record",
    );
    let made = "SELECT other FROM other('events', '1000 years', 0)";
    assert_eq!(value(&mut client, made), "(events_20101104_014254,\"2010-11-04 01:42:54.657+00\")");
}

#[test]
fn columns_that_the_library_does_not_know_are_null() {
    let (_database, mut client) = database();
    let decode =
        "(id bigint, OUT more text, OUT issued_at timestamptz, OUT datacenter_id integer, OUT \"Worker_id\" integer,
        OUT worker_id integer, OUT sequence integer, OUT yet_more integer)";
    declare(&mut client, DECODE, decode);
    let decoded = "(,\"2022-06-28 16:07:40.105+00\",11,,26,0,)";
    assert_eq!(value(&mut client, "SELECT other(1541815603606036480)"), decoded);
    let layouts = "(OUT name text, OUT fields text, OUT unit interval, OUT epoch timestamptz, OUT last_timestamp timestamptz,
        OUT years double precision, OUT workers bigint, OUT ids_per_second bigint, OUT can_generate boolean, OUT source text,
        OUT more text, OUT yet_more integer) RETURNS SETOF record";
    declare(&mut client, LAYOUTS, layouts);
    let null = "SELECT count(*) FILTER (WHERE source <> '' AND more IS NULL AND yet_more IS NULL) FROM other()";
    assert_eq!(value(&mut client, null), "12");
    let partitions =
        "(regclass, interval, integer, OUT partition regclass, OUT since timestamptz, OUT until timestamptz,
        OUT more text, OUT yet_more integer) RETURNS SETOF record";
    declare(&mut client, PARTITIONS, partitions);
    let made = "SELECT format('%s %s', until, more IS NULL AND yet_more IS NULL) FROM other('events', '1000 years', 0)";
    assert_eq!(value(&mut client, made), "2080-07-10 17:30:30.209+00 t");
}

#[test]
fn a_column_of_another_type_is_refused() {
    let (_database, mut client) = database();
    for (function, declaration, call, detail) in [
        (
            STATUS,
            "(OUT state text, OUT worker_id text)",
            "other()",
            "Returned type integer for column \"worker_id\", but query expects text.",
        ),
        (
            LAYOUTS,
            "(OUT name text, OUT fields bigint) RETURNS SETOF record",
            "other()",
            "Returned type text for column \"fields\", but query expects bigint.",
        ),
    ] {
        declare(&mut client, function, declaration);
        for query in [format!("SELECT {call}"), format!("SELECT * FROM {call}")] {
            let refused = error(&mut client, &query);
            let message = "function return row and query-specified return row do not match";
            assert_eq!((refused.code().code(), refused.message()), ("42804", message), "{query}");
            assert_eq!(refused.detail(), Some(detail));
        }
    }
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

/// Where nothing says what the columns are, as with a function that returns `record`, and is not called in FROM.
#[test]
fn a_row_of_unknown_columns_is_refused() {
    let (_database, mut client) = database();
    for (function, declaration) in [
        (STATUS, "() RETURNS record"),
        (STATUS, "(OUT state text)"),
        (LAYOUTS, "() RETURNS SETOF record"),
        (LAYOUTS, "() RETURNS SETOF text"),
    ] {
        declare(&mut client, function, declaration);
        let refused = error(&mut client, "SELECT other()");
        let message = "function returning record called in context that cannot accept type record";
        assert_eq!((refused.code().code(), refused.message()), ("0A000", message), "{function}{declaration}");
    }
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}
