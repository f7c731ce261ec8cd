//! How it gets into tables and out of them, and stays there.

use super::{TABLES, database, expect, plan};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use testbed::{Cluster, Signal, error, test, value};

#[test]
fn a_column_of_the_type_takes_new_ids_as_its_default() {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE t (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
             INSERT INTO t (n) SELECT generate_series(1, 1000);
             INSERT INTO t (id) SELECT * FROM snowflake_nextvals(1000)",
        )
        .expect("a table with a default");
    expect(
        &mut client,
        &[
            ("SELECT count(*) FROM t WHERE (snowflake_decode(id)).worker_id = 7", "2000"),
            ("INSERT INTO t DEFAULT VALUES RETURNING pg_typeof(id)", "snowflake"),
        ],
    );
}

#[test]
fn it_takes_and_shows_the_text_of_a_bigint_and_refuses_any_other() {
    let (_database, mut client) = database();
    expect(
        &mut client,
        &[
            ("SELECT '9223372036854775807'::snowflake", "9223372036854775807"),
            ("SELECT '-9223372036854775808'::snowflake::text", "-9223372036854775808"),
            ("SELECT ' 42 '::snowflake", "42"),
            ("SELECT NULL::snowflake", "NULL"),
            ("SELECT 42::smallint::snowflake = 42 AND 42::snowflake = 42 AND 42::bigint::snowflake = 42", "t"),
            ("SELECT (-32768)::smallint::snowflake + (-2147483648)::integer::snowflake", "-2147516416"),
            ("SELECT 'id ' || 42::snowflake", "id 42"),
        ],
    );
    for (text, code) in [("12x", "22P02"), ("", "22P02"), ("1e3", "22P02"), ("9223372036854775808", "22003")] {
        assert_eq!(error(&mut client, &format!("SELECT '{text}'::snowflake")).code().code(), code, "{text}");
    }
}

#[test]
fn copy_moves_it_as_a_bigint_in_text_and_in_binary() {
    let (_database, mut client) = database();
    client.batch_execute(TABLES).expect("tables");
    for format in ["text", "csv", "binary"] {
        for (from, of_type) in [("s", "bigint"), ("b", "snowflake"), ("s", "snowflake")] {
            let mut bytes = Vec::new();
            let copy = format!("COPY {from} TO STDOUT (FORMAT {format})");
            client.copy_out(&copy).expect("a copy").read_to_end(&mut bytes).expect("rows");
            client.batch_execute(&format!("CREATE TABLE copy (id {of_type}, n integer)")).expect("a table");
            let mut writer = client.copy_in(&format!("COPY copy FROM STDIN (FORMAT {format})")).expect("a copy");
            writer.write_all(&bytes).expect("rows");
            writer.finish().expect("rows");
            let same = "SELECT count(*) FROM copy JOIN s USING (id, n)";
            assert_eq!(value(&mut client, same), "20000", "{format}, {from} to {of_type}");
            client.batch_execute("DROP TABLE copy").expect("a table");
        }
    }
}

#[test]
fn a_dump_brings_it_back_with_its_keys_and_defaults() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    client.batch_execute(TABLES).expect("tables");
    client
        .batch_execute(
            "ALTER TABLE s ALTER id SET DEFAULT snowflake_nextval();
             CREATE TABLE child (parent bigint REFERENCES s, ids snowflake[] DEFAULT '{1,2}' CHECK (parent > 0));
             INSERT INTO child SELECT id FROM s;
             CREATE VIEW newest AS SELECT max(id) AS id FROM s",
        )
        .expect("tables");
    let dump = |database: &str| {
        let mut pg_dump = Command::new(cluster.program("pg_dump"));
        let output = pg_dump.envs(cluster.environment()).arg(database).output().expect("pg_dump");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // From 2025 on, psql's \restrict has a random key.
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().filter(|line| !line.contains("restrict ")).map(|line| format!("{line}\n")).collect::<String>()
    };
    let before = dump("postgres");
    client.batch_execute("CREATE DATABASE restored").expect("a database");
    let mut psql = cluster.psql();
    psql.args(["--set=ON_ERROR_STOP=1", "--dbname=restored"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut psql = psql.spawn().expect("psql");
    psql.stdin.take().expect("a pipe").write_all(before.as_bytes()).expect("psql reads");
    assert!(psql.wait().expect("psql").success());
    assert!(before.contains("id public.snowflake DEFAULT public.snowflake_nextval()"), "{}", &before[..3000]);
    assert_eq!(dump("restored"), before);
}

#[test]
fn pg_upgrade_keeps_its_columns_indexes_and_keys() {
    let mut old = Cluster::builder().old().start();
    let mut client = old.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    client.batch_execute(TABLES).expect("tables");
    client
        .batch_execute("CREATE TABLE child (parent bigint REFERENCES s); CREATE VIEW v AS SELECT max(id) AS id FROM s")
        .expect("more");
    drop(client);
    old.stop(Signal::INT);
    let mut new = Cluster::builder().upgrade_of(&old);
    new.start();
    let mut client = new.connect();
    expect(
        &mut client,
        &[
            ("SELECT count(*) FROM s JOIN b USING (id, n)", "20000"),
            ("SELECT json_typeof(to_json(id)) FROM v", "string"),
            ("SELECT coalesce(max(id), 0) = (SELECT max(id) FROM b) FROM s", "t"),
        ],
    );
    let plan = plan(&mut client, "SELECT * FROM s WHERE id = 42");
    assert!(plan.contains("using s_pkey"), "{plan}");
    assert_eq!(error(&mut client, "INSERT INTO child VALUES (4)").code().code(), "23503");
}

#[test]
fn a_column_changes_from_bigint_to_the_type_and_back_without_being_rewritten() {
    let (_database, mut client) = database();
    client.batch_execute(TABLES).expect("tables");
    client
        .batch_execute(
            "CREATE INDEX b_hash ON b USING hash (id); CREATE INDEX b_brin ON b USING brin (id);
             CREATE TABLE child (parent bigint REFERENCES b); INSERT INTO child SELECT id FROM b",
        )
        .expect("more");
    let files = "SELECT string_agg(pg_relation_filepath(c.oid), ' ' ORDER BY relname) FROM pg_class c
        WHERE relname IN ('b', 'b_pkey', 'b_hash', 'b_brin', 'child')";
    let before = value(&mut client, files);
    for (of_type, json) in [("snowflake", "string"), ("bigint", "number")] {
        client.batch_execute(&format!("ALTER TABLE b ALTER id TYPE {of_type}")).expect("another type");
        assert_eq!(value(&mut client, files), before, "{of_type}");
        assert_eq!(value(&mut client, "SELECT jsonb_typeof(to_jsonb(id)) FROM b LIMIT 1"), json);
        assert_eq!(value(&mut client, "SELECT count(*) FROM b JOIN s USING (id, n)"), "20000");
        assert_eq!(error(&mut client, "INSERT INTO child VALUES (4)").code().code(), "23503");
    }
}

#[test]
fn the_extension_is_not_dropped_from_under_a_column() {
    let (_database, mut client) = database();
    client.batch_execute("CREATE TABLE t (id snowflake); INSERT INTO t VALUES (1)").expect("a table");
    assert_eq!(error(&mut client, "DROP EXTENSION snowflake_pg").code().code(), "2BP01");
    client.batch_execute("ALTER TABLE t ALTER id TYPE bigint; DROP EXTENSION snowflake_pg").expect("a bigint");
    assert_eq!(value(&mut client, "SELECT id FROM t"), "1");
}

#[test]
fn the_type_works_in_any_schema_and_after_it_was_moved() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "DROP EXTENSION snowflake_pg; CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids;
             CREATE TABLE t (id ids.snowflake PRIMARY KEY); INSERT INTO t VALUES (1), ('9007199254740993');
             CREATE SCHEMA other; ALTER EXTENSION snowflake_pg SET SCHEMA other",
        )
        .expect("a type that does not depend on the search path");
    expect(
        &mut client,
        &[
            ("SELECT to_json(id) FROM t WHERE id = 9007199254740993", r#""9007199254740993""#),
            ("SELECT to_json(other.max(id)) FROM t", r#""9007199254740993""#),
            // Where the search path does not find them, there is only max(bigint).
            ("SELECT json_typeof(to_json(max(id))) FROM t", "number"),
            ("SELECT other.snowflake_within(id, '-infinity', 'infinity') FROM t WHERE id = '1'", "t"),
        ],
    );
}
