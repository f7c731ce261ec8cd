//! What stands in the way is said at the start, and nothing is changed.

use super::{call, dump, server};
use testbed::{error, need_extension, need_postgresql, postgresql, test, value};

#[test]
fn what_stands_in_the_way_of_a_migration_is_said_before_anything_is_changed() {
    need_extension("btree_gist");
    let (cluster, mut client) = server();
    client.batch_execute("CREATE EXTENSION btree_gist").expect("an extension of contrib");
    let before = dump(&cluster);
    for (obstacle, back, says) in [
        (
            "CREATE MATERIALIZED VIEW m AS SELECT id FROM orders",
            "DROP MATERIALIZED VIEW m",
            "materialized view m would be filled again while nobody can read or write the tables: drop it until the end.",
        ),
        (
            "ALTER TABLE items ADD twice bigint GENERATED ALWAYS AS (order_id * 2) STORED",
            "ALTER TABLE items DROP twice",
            "order_id of items cannot become bigint while there is: default value for column twice of table items.",
        ),
        (
            "CREATE RULE r AS ON INSERT TO items WHERE NEW.order_id = 0 DO INSTEAD NOTHING",
            "DROP RULE r ON items",
            "order_id of items cannot become bigint while there is: rule r on table items.",
        ),
        (
            "CREATE INDEX i ON items ((order_id % 10))",
            "DROP INDEX i",
            "i computes an expression from order_id of items.",
        ),
        (
            "CREATE INDEX g ON items USING gist (order_id)",
            "DROP INDEX g",
            "g is a gist index of order_id: drop it until the end.",
        ),
        (
            "ALTER TABLE other.notes ADD CONSTRAINT d FOREIGN KEY (order_id) REFERENCES orders ON DELETE SET DEFAULT",
            "ALTER TABLE other.notes DROP CONSTRAINT d",
            "d of other.notes has the action SET DEFAULT.",
        ),
        ("CREATE TABLE more () INHERITS (items)", "DROP TABLE more", "Other tables inherit from items."),
        (
            "ALTER TABLE items ADD CONSTRAINT u UNIQUE (order_id, id) DEFERRABLE",
            "ALTER TABLE items DROP CONSTRAINT u",
            "u of items is deferrable.",
        ),
        (
            "ALTER TABLE items ADD CONSTRAINT e EXCLUDE (order_id WITH =, id WITH =)",
            "ALTER TABLE items DROP CONSTRAINT e",
            "e of items is an exclusion constraint.",
        ),
        (
            "ALTER TABLE items ADD snowflake_adopt_order_id integer",
            "ALTER TABLE items DROP snowflake_adopt_order_id",
            "items has a column snowflake_adopt_order_id.",
        ),
        (
            "CREATE TRIGGER \"~z\" BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch()",
            "DROP TRIGGER \"~z\" ON orders",
            "\"~z\" of orders runs after the trigger that copies id, parent: rename it.",
        ),
        (
            "CREATE PUBLICATION p FOR TABLE orders",
            "DROP PUBLICATION p",
            "orders is published by p, whose subscribers need id, parent as bigint and the columns snowflake_adopt_id bigint, snowflake_adopt_parent bigint first. Then say published => true.",
        ),
        (
            "CREATE FUNCTION is_even(n integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT n % 2 = 0'; ALTER TABLE items ADD CONSTRAINT k CHECK (is_even(order_id) IS NOT NULL AND n < 9999)",
            "ALTER TABLE items DROP CONSTRAINT k; DROP FUNCTION is_even",
            "constraint k on table items does not work with bigint: function is_even(bigint) does not exist.",
        ),
        (
            "CREATE PUBLICATION p FOR TABLE other.notes",
            "DROP PUBLICATION p",
            "other.notes is published, but its rows cannot be updated without a replica identity.",
        ),
        (
            "CREATE PUBLICATION all_of_it FOR ALL TABLES",
            "DROP PUBLICATION all_of_it",
            "Publication all_of_it is FOR ALL TABLES: its subscribers need the extension snowflake_adopt first. Then say published => true.",
        ),
        (
            "CREATE TABLE long (a_name_of_which_forty_seven_bytes_are_the_same__1 integer REFERENCES orders, a_name_of_which_forty_seven_bytes_are_the_same__2 integer REFERENCES orders)",
            "DROP TABLE long",
            "long has columns whose names begin with the same 47 bytes: a_name_of_which_forty_seven_bytes_are_the_same__1, a_name_of_which_forty_seven_bytes_are_the_same__2.",
        ),
        (
            "ALTER TABLE items ADD CONSTRAINT low CHECK (n < 4000) NOT VALID, ADD CONSTRAINT high CHECK (n < 6000) NOT VALID",
            "ALTER TABLE items DROP CONSTRAINT low, DROP CONSTRAINT high",
            "A row violates constraint low on table items, which is NOT VALID.",
        ),
        (
            "ALTER TABLE items ADD CONSTRAINT snowflake_adopt_equal CHECK (n < 6000)",
            "ALTER TABLE items DROP CONSTRAINT snowflake_adopt_equal",
            "items has a constraint snowflake_adopt_equal.",
        ),
        (
            "INSERT INTO pg_seclabel VALUES ('items'::regclass, 'pg_class'::regclass, 2, 'provider', 'masked')",
            "DELETE FROM pg_seclabel",
            "order_id of items has a security label, which would be lost.",
        ),
        (
            "CREATE ROLE lender; GRANT SELECT (order_id) ON items TO lender WITH GRANT OPTION; SET ROLE lender; GRANT SELECT (order_id) ON items TO reader; RESET ROLE",
            "DROP OWNED BY lender CASCADE; DROP ROLE lender",
            "order_id of items has privileges that lender has granted: revoke them until the end.",
        ),
        (
            "CREATE ROLE app SUPERUSER; SET ROLE app",
            "RESET ROLE; DROP ROLE app",
            "The background worker would connect as app, who has no LOGIN or CONNECT: call it as a member of that role.",
        ),
        (
            "CREATE TABLE parts (id integer REFERENCES orders) PARTITION BY LIST (id)",
            "DROP TABLE parts",
            "id of parts cannot become bigint: it is in the partition key.",
        ),
    ] {
        client.batch_execute(obstacle).unwrap_or_else(|error| panic!("{obstacle}: {error:?}"));
        let refused = error(&mut client, "CALL snowflake_adopt.start('orders')");
        assert_eq!(refused.message(), "public.orders cannot be adopted while it is in use", "{obstacle}");
        let detail = refused.detail().expect("what stands in the way").replace("public.", "");
        assert!(detail.lines().any(|line| line == says), "{obstacle}: {detail}");
        client.batch_execute(back).unwrap_or_else(|error| panic!("{back}: {error:?}"));
    }
    assert_eq!(dump(&cluster), before);
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_adopt.migration"), "0");
    call(&mut client, "start('orders')");
    call(&mut client, "start('orders')");
    assert_eq!(error(&mut client, "CALL snowflake_adopt.start('orders', 'note')").code().code(), "42804");
    assert_eq!(error(&mut client, "DROP EXTENSION snowflake_adopt").code().code(), "2BP01");
}

#[test]
fn what_only_a_text_in_a_constraint_or_the_name_of_a_column_says_does_no_harm() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE odd (\"Key of it\" serial PRIMARY KEY, note text, CHECK (\"Key of it\" > 0 AND note <> 'an INDEX CONCURRENTLY made'));
             CREATE TABLE wide (of bigint REFERENCES odd); CREATE TABLE queue (of integer REFERENCES odd);
             INSERT INTO odd (note) VALUES ('a'), ('b'); INSERT INTO wide VALUES (1); INSERT INTO queue VALUES (1); ANALYZE; DELETE FROM queue",
        )
        .expect("tables");
    for step in ["start('odd', 'Key of it')", "run('odd')", "finish('odd')"] {
        call(&mut client, step);
    }
    assert_eq!(
        value(&mut client, "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND confrelid = 'odd'::regclass"),
        "2"
    );
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(\"Key of it\")) FROM odd"), "bigint");
}

#[test]
fn what_came_after_the_start_and_cannot_be_made_again_is_not_dropped() {
    let (_cluster, mut client) = server();
    call(&mut client, "start('orders')");
    client.batch_execute("CREATE INDEX late ON items ((order_id % 10))").expect("an index");
    let refused = error(&mut client, "CALL snowflake_adopt.finish('orders')");
    assert!(
        refused.detail().is_some_and(|detail| detail.contains("late computes an expression from order_id")),
        "{refused:?}"
    );
    client.batch_execute("DROP INDEX late").expect("no index");
    call(&mut client, "finish('orders')");
}

#[test]
fn foreign_keys_that_come_after_the_start_are_adopted_too() {
    let (_cluster, mut client) = server();
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    client
        .batch_execute(
            "ALTER TABLE items ADD second integer REFERENCES orders; UPDATE items SET second = order_id;
             CREATE TABLE late (order_id smallint REFERENCES orders, item bigint REFERENCES items); INSERT INTO late SELECT n, n FROM generate_series(1, 5) n",
        )
        .expect("foreign keys");
    call(&mut client, "finish('orders')");
    for column in ["items.second", "late.order_id", "items.order_id"] {
        let (table, column) = column.split_once('.').expect("a table and a column");
        assert_eq!(value(&mut client, &format!("SELECT pg_typeof(max({column})) FROM {table}")), "bigint");
    }
    let same = "SELECT count(*) FROM items JOIN orders ON orders.id = second WHERE second = order_id";
    assert_eq!(value(&mut client, same), "5000");
    let keys =
        "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND confrelid = 'orders'::regclass AND convalidated";
    assert_eq!(value(&mut client, keys), "5");
}

#[test]
fn a_migration_whose_column_was_renamed_rests_until_it_has_its_name_again() {
    let (cluster, mut client) = server();
    let before = dump(&cluster);
    for (end, after) in [("undo", "order_id"), ("finish", "order_id")] {
        call(&mut client, "start('orders')");
        client
            .batch_execute("ALTER TABLE items RENAME order_id TO of; INSERT INTO items (of, n) VALUES (7, -7)")
            .expect("a name");
        let refused = error(&mut client, "CALL snowflake_adopt.finish('orders')");
        let says =
            "there is no column order_id of public.items any more: rename it back, or call snowflake_adopt.undo()";
        assert_eq!(refused.detail(), Some(says), "{refused:?}");
        client.batch_execute(&format!("ALTER TABLE items RENAME of TO {after}")).expect("a name");
        call(&mut client, &format!("{end}('orders')"));
        if end == "undo" {
            assert_eq!(dump(&cluster), before);
            client.batch_execute("DELETE FROM items WHERE n = -7").expect("no row");
        }
    }
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(order_id)) FROM items"), "bigint");
    assert_eq!(value(&mut client, "SELECT order_id FROM items WHERE n = -7"), "7");
}

#[test]
fn wrong_arguments_and_a_role_that_cannot_connect_are_told_and_nobody_waits_for_ever() {
    let (cluster, mut client) = server();
    client.batch_execute("CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app").expect("a role");
    let mut app = cluster.connect();
    app.batch_execute(
        "SET SESSION AUTHORIZATION app; CREATE TABLE t (id serial PRIMARY KEY, id2 integer, public_id bigint DEFAULT snowflake_nextval())",
    )
    .expect("a table");
    assert_eq!(error(&mut app, "CALL snowflake_adopt.start(NULL)").message(), "arguments must not be NULL");
    assert_eq!(error(&mut app, "CALL snowflake_adopt.run('t')").message(), "public.t is not being adopted");
    call(&mut app, "start('t')");
    for (command, message) in [
        ("run('t', share => 0)", "share must be between 1 and 100"),
        ("start('t', 'id2')", "another column of public.t is being adopted"),
    ] {
        assert_eq!(error(&mut app, &format!("CALL snowflake_adopt.{command}")).message(), message);
    }
    // Also beside a column that has Snowflake IDs already.
    call(&mut app, "undo('t')");
    call(&mut app, "start('t')");
    client.batch_execute("ALTER ROLE app NOLOGIN").expect("a role");
    let refused = error(&mut app, "CALL snowflake_adopt.finish('t')");
    assert_eq!(refused.message(), "the background worker of the migration of public.t cannot connect as app");
    client.batch_execute("REASSIGN OWNED BY app TO postgres; DROP OWNED BY app; DROP ROLE app").expect("no role");
    call(&mut client, "undo('t')");
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_adopt.migration"), "0");
}

#[test]
fn an_index_of_another_table_is_not_taken_for_a_successor() {
    let (_cluster, mut client) = server();
    call(&mut client, "start('orders')");
    let blocker = "SELECT format('CREATE TABLE strange (n integer); CREATE INDEX snowflake_adopt_%s ON strange (n)', 'orders_pkey'::regclass::oid)";
    let blocker = value(&mut client, blocker);
    client.batch_execute(&blocker).expect("an index");
    let refused = error(&mut client, "CALL snowflake_adopt.finish('orders')");
    assert!(refused.detail().is_some_and(|detail| detail.contains("already exists")), "{refused:?}");
    client.batch_execute("DROP TABLE strange").expect("no table");
    call(&mut client, "finish('orders')");
}

#[test]
fn undo_of_a_wide_key_ends() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE TABLE wide (id bigserial PRIMARY KEY)").expect("a table");
    call(&mut client, "start('wide')");
    call(&mut client, "undo('wide')");
    assert_eq!(value(&mut client, "SELECT count(*) FROM snowflake_adopt.migration"), "0");
}

/// What an UPDATE of a row finds, whatever the column is.
#[test]
fn a_null_in_a_column_that_is_not_null_but_not_valid_is_told_if_its_row_must_be_updated() {
    need_postgresql(18);
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "ALTER TABLE items ADD m integer; ALTER TABLE items ADD CONSTRAINT nm NOT NULL m NOT VALID;
             CREATE TABLE kid (p integer REFERENCES orders, q integer); INSERT INTO kid VALUES (NULL, NULL);
             ALTER TABLE kid ADD CONSTRAINT nq NOT NULL q NOT VALID",
        )
        .expect("columns");
    let refused = error(&mut client, "CALL snowflake_adopt.start('orders')");
    assert_eq!(
        refused.detail(),
        Some("A row violates constraint nm on table public.items, which is NOT VALID."),
        "{refused:?}"
    );
    client.batch_execute("UPDATE items SET m = n").expect("values");
    for step in ["start", "finish"] {
        call(&mut client, &format!("{step}('orders')"));
    }
}

/// A foreign key that comes after the start has no obstacle either.
#[test]
fn a_table_that_comes_later_and_has_a_column_of_that_name_keeps_it() {
    let (_cluster, mut client) = server();
    call(&mut client, "start('orders')");
    client
        .batch_execute("CREATE TABLE late (order_id integer REFERENCES orders, snowflake_adopt_order_id bigint)")
        .expect("a table");
    let refused = error(&mut client, "CALL snowflake_adopt.finish('orders')");
    let says = "public.late has a column snowflake_adopt_order_id.";
    assert_eq!(refused.detail(), Some(says), "{refused:?}");
    call(&mut client, "undo('orders')");
    client.batch_execute("SELECT snowflake_adopt_order_id FROM late").expect("the column");
}

#[test]
fn settings_of_a_role_change_nothing() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app; ALTER ROLE app SET row_security = off",
        )
        .expect("a role");
    // From 19 on, strings have no other form.
    if postgresql() < 19 {
        client
            .batch_execute(
                "ALTER ROLE app SET standard_conforming_strings = off; ALTER ROLE app SET escape_string_warning = off",
            )
            .expect("settings");
    }
    let mut app = cluster.config().user("app").connect(testbed::postgres::NoTls).expect("a session");
    app.batch_execute("CREATE TABLE t (id serial PRIMARY KEY, parent integer REFERENCES t, CHECK (id::text <> E'\\\\(')); INSERT INTO t DEFAULT VALUES")
        .expect("a table");
    for step in ["start", "run", "pause", "undo", "start", "finish"] {
        call(&mut app, &format!("{step}('t')"));
    }
    assert_eq!(value(&mut app, "SELECT count(*) FROM snowflake_adopt.progress"), "0");
    assert_eq!(value(&mut app, "SELECT pg_typeof(max(id)) FROM t"), "bigint");
}

/// Whose default only its owner can change.
#[test]
fn a_table_of_which_another_role_owns_a_partition_is_not_adopted_even_if_its_key_is_wide() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE app; CREATE TABLE wide (id bigserial) PARTITION BY LIST (id); CREATE TABLE part PARTITION OF wide DEFAULT;
             ALTER TABLE part OWNER TO app",
        )
        .expect("a table");
    let refused = error(&mut client, "CALL snowflake_adopt.start('wide')");
    assert_eq!(refused.detail(), Some("postgres owns public.wide, and app owns public.part: give both to one role."));
}
