//! Tables that share columns with one that has Snowflake IDs: copies, partitions and children.

use super::{CHANGED, Session, database, gets_ids};
use testbed::postgres::error::{DbError, SqlState};
use testbed::{error, test};

const BECOMES: &str = "becomes bigint (The parent's column has Snowflake IDs.)";

fn is_new(session: &mut Session, table: &str) -> bool {
    session.run(&format!("INSERT INTO {table} (region) VALUES ('eu')"));
    session.value(&format!("SELECT bool_and(id > ids.snowflake_min_id(now() - interval '1 min')) FROM {table}")) == "t"
}

/// The table `parts`, whose partitions are by region.
fn with_parts() -> (testbed::Database, Session) {
    let (database, mut session) = database();
    session.run("CREATE TABLE parts (id serial, region text) PARTITION BY LIST (region)");
    (database, session)
}

const ATTACH: &str = "ALTER TABLE parts ATTACH PARTITION part FOR VALUES IN ('eu')";

#[test]
fn a_copy_with_the_identities_of_a_table_that_has_snowflake_ids_instead_has_them_too() {
    let (_database, mut session) = database();
    session.run("CREATE TABLE source (id bigint GENERATED ALWAYS AS IDENTITY, region text)");
    assert_eq!(session.run("CREATE TABLE copy (LIKE source INCLUDING IDENTITY)"), [gets_ids("copy")]);
    assert_eq!(session.columns("copy"), format!("{CHANGED}, region text"));
    assert!(is_new(&mut session, "copy"));
    // In a function, twice, and beside a table of the same name that comes first in search_path.
    session.run("DROP TABLE copy; CREATE SCHEMA mine; SET search_path = mine, public");
    session.run("DO 'BEGIN CREATE TABLE source (LIKE source INCLUDING ALL EXCLUDING DEFAULTS); END'");
    assert_eq!(session.columns("mine.source"), format!("{CHANGED}, region text"));
}

#[test]
fn a_copy_without_identities_and_one_of_another_default_get_what_postgresql_copies() {
    let (_database, mut session) = database();
    session.run(
        "CREATE TABLE source (id bigint GENERATED ALWAYS AS IDENTITY); CREATE TABLE own (id bigint NOT NULL DEFAULT 5);
         SET snowflake_pg.serial_schemas = ''; CREATE TABLE numbered (id bigserial); RESET snowflake_pg.serial_schemas",
    );
    for (like, columns) in [
        ("source", "id bigint NOT NULL"),
        ("source INCLUDING DEFAULTS", CHANGED),
        ("own INCLUDING IDENTITY", "id bigint NOT NULL"),
        ("numbered INCLUDING IDENTITY", "id bigint NOT NULL"),
        ("numbered INCLUDING ALL", "id bigint NOT NULL nextval('numbered_id_seq'::regclass)"),
    ] {
        assert_eq!(session.run(&format!("CREATE TABLE copy (LIKE {like})")), [""; 0], "{like}");
        assert_eq!(session.columns("copy"), columns, "{like}");
        session.run("DROP TABLE copy");
    }
}

#[test]
fn a_partition_that_is_attached_gets_snowflake_ids_for_rows_that_are_inserted_into_it() {
    let (_database, mut session) = with_parts();
    session.run("CREATE TABLE part (id bigint NOT NULL, region text)");
    assert_eq!(session.run(ATTACH), [gets_ids("part")]);
    assert_eq!(session.columns("part"), format!("{CHANGED}, region text"));
    assert!(is_new(&mut session, "part") && is_new(&mut session, "parts"));
}

#[test]
fn partitions_of_an_attached_partition_get_snowflake_ids_and_a_default_of_their_own_stays() {
    let (_database, mut session) = with_parts();
    session.run(
        "CREATE TABLE part (id bigint NOT NULL, region text) PARTITION BY HASH (id);
         CREATE TABLE even PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE odd PARTITION OF part (id DEFAULT 5) FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    );
    assert_eq!(session.run(ATTACH), [gets_ids("part"), gets_ids("even")]);
    assert_eq!(session.columns("even"), format!("{CHANGED}, region text"));
    assert_eq!(session.columns("odd"), "id bigint NOT NULL 5, region text");
}

/// As many make their partitions: a table of its own, which is then attached.
#[test]
fn an_empty_table_with_a_narrower_key_becomes_a_partition_or_a_child() {
    let (_database, mut session) = with_parts();
    session.run("CREATE TABLE parent (id serial, region text)");
    for (statement, told) in [
        ("CREATE TABLE part (id integer NOT NULL, region text)", ""),
        (ATTACH, BECOMES),
        ("CREATE TABLE part (id smallint PRIMARY KEY, region text)", ""),
        ("ALTER TABLE part INHERIT parent", BECOMES),
        ("CREATE TABLE part (id integer PRIMARY KEY, region text) INHERITS (parent)", BECOMES),
    ] {
        let all = session.run(statement);
        let expected = format!("NOTICE: column \"id\" of table \"part\" {told}");
        assert_eq!(all.contains(&expected), !told.is_empty(), "{statement}: {all:?}");
        if !told.is_empty() {
            assert!(session.columns("part").starts_with("id bigint NOT NULL"), "{}", session.columns("part"));
            session.run("INSERT INTO part (id, region) VALUES (ids.snowflake_nextval(), 'eu'); DROP TABLE part");
        }
    }
}

/// What it says can be typed, and is what was wrong.
fn type_the_hint(session: &mut Session, error: &DbError, statement: &str) {
    let hint = error.hint().expect("a HINT");
    let command = hint.strip_prefix("Run ").and_then(|hint| hint.strip_suffix(" first.")).expect("a command");
    session.run(command);
    session.run(statement);
}

#[test]
fn who_attaches_a_table_with_narrow_keys_and_rows_is_told_what_to_write() {
    let (_database, mut session) = with_parts();
    session.run("CREATE TABLE parent (\"Id\" serial, region text)");
    session.run("CREATE TABLE part (id integer NOT NULL, region text); INSERT INTO part VALUES (1, 'eu')");
    session
        .run("CREATE TABLE child (\"Id\" integer NOT NULL, region text); CREATE VIEW seen AS SELECT \"Id\" FROM child");
    for (statement, column, reason) in [
        (ATTACH, "id", "public.part is not empty"),
        ("ALTER TABLE child INHERIT parent", "Id", "cannot alter type of a column used by a view or rule"),
    ] {
        let error = error(&mut session.client, statement);
        assert_eq!(error.code(), &SqlState::DATATYPE_MISMATCH, "{statement}: {error:?}");
        assert!(error.message().contains("has different type for column"), "{error:?}");
        let detail =
            format!("The parent's column \"{column}\" has Snowflake IDs. This one remains narrower: {reason}.");
        assert_eq!(error.detail(), Some(&*detail), "{statement}");
        session.run("DROP VIEW IF EXISTS seen");
        type_the_hint(&mut session, &error, statement);
        session.run("CREATE VIEW seen AS SELECT \"Id\" FROM child");
    }
    assert_eq!(session.columns("part"), format!("{CHANGED}, region text"));
}

#[test]
fn postgresql_refuses_as_ever_where_the_parent_has_no_snowflake_ids() {
    let (_database, mut session) = database();
    session.run("CREATE TABLE parent (id bigint); CREATE TABLE child (id integer)");
    for statement in ["ALTER TABLE child INHERIT parent", "CREATE TABLE another (id integer) INHERITS (parent)"] {
        let error = error(&mut session.client, statement);
        assert_eq!(error.code(), &SqlState::DATATYPE_MISMATCH, "{statement}");
        assert_eq!(error.hint(), None, "{statement}");
    }
}

/// Calls of each function that issues an ID, without the schema.
const ISSUING: [&str; 6] = [
    "snowflake_nextval()",
    "snowflake_id()",
    "snowflake_nextval_tagged(0)",
    "snowflake_nextval_for('part_0'::regclass)",
    "snowflake_nextval_for('part_0'::regclass, 1)",
    "snowflake_nextval_for_shard(4, 1)",
];

/// README's tables have `snowflake_nextval()`, and those of shards other functions.
#[test]
fn relatives_of_a_table_have_room_for_ids_whichever_function_of_the_extension_issues_them() {
    let (_database, mut session) = database();
    let functions = "SELECT count(*) FROM pg_proc JOIN pg_depend ON objid = pg_proc.oid AND deptype = 'e'
        WHERE pronamespace = 'ids'::regnamespace AND prorettype = 'bigint'::regtype AND provolatile = 'v'
            AND (proname = 'snowflake_id' OR proname ~ '^snowflake_nextval') AND NOT proretset";
    assert_eq!(session.value(functions), ISSUING.len().to_string(), "a call of each");
    session.run(
        "CREATE TABLE of_parts (id bigint) PARTITION BY HASH (id);
         CREATE TABLE part_0 PARTITION OF of_parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE FUNCTION snowflake_nextval() RETURNS bigint LANGUAGE sql RETURN 5;
         CREATE FUNCTION own_tag() RETURNS integer LANGUAGE sql RETURN 0",
    );
    let calls = ISSUING.map(|call| format!("ids.{call}"));
    // Code of the owner of a table is not put into another one.
    let others = ["greatest(5, abs(ids.snowflake_id()))", "ids.snowflake_nextval_tagged(own_tag())"];
    let others = others.map(|default| (default.to_owned(), false));
    for (call, is_kept) in calls.map(|call| (call, true)).into_iter().chain(others) {
        session.run(&format!(
            "CREATE TABLE parent (id bigint NOT NULL DEFAULT {call}, region text) PARTITION BY LIST (region);
             CREATE TABLE narrow (id integer NOT NULL, region text); CREATE TABLE part (id bigint NOT NULL, region text);
             CREATE TABLE source (id bigint NOT NULL DEFAULT {call}); CREATE TABLE heir (id integer NOT NULL, n integer)"
        ));
        let attach = |part, of| format!("ALTER TABLE parent ATTACH PARTITION {part} FOR VALUES IN ('{of}')");
        let told = session.run(&attach("narrow", "eu"));
        assert_eq!(
            told,
            [format!("NOTICE: column \"id\" of table \"narrow\" {BECOMES}"), gets_ids("narrow")],
            "{call}"
        );
        assert_eq!(session.run(&attach("part", "us")), [gets_ids("part")], "{call}");
        let expected = if is_kept { session.columns("parent") } else { format!("{CHANGED}, region text") };
        assert_eq!([session.columns("narrow"), session.columns("part")], [&*expected; 2], "{call}");
        let told = session.run("ALTER TABLE heir INHERIT source");
        assert_eq!(told, [format!("NOTICE: column \"id\" of table \"heir\" {BECOMES}")], "{call}");
        let told = session.run("CREATE TABLE copy (LIKE source INCLUDING IDENTITY)");
        let expected = if is_kept { session.columns("source") } else { CHANGED.to_owned() };
        assert_eq!((told, session.columns("copy")), (vec![gets_ids("copy")], expected), "{call}");
        session.run("DROP TABLE parent, source, heir, copy");
    }
    // It is not of the extension.
    session.run("CREATE TABLE source (id bigint NOT NULL DEFAULT public.snowflake_nextval())");
    assert_eq!(session.run("CREATE TABLE copy (LIKE source INCLUDING IDENTITY)"), [""; 0]);
    assert_eq!(session.columns("copy"), "id bigint NOT NULL");
}
