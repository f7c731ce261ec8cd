//! Names that a migration gives can be taken: those of indexes and sequences by whoever may create in the schema, and
//! those of constraints by the owner.

use super::{call, server};
use testbed::postgres::Client;
use testbed::{error, test, value};

const TABLE: &str = "
    CREATE ROLE bob LOGIN; CREATE ROLE mallory; CREATE SCHEMA shop; GRANT ALL ON SCHEMA shop TO bob, mallory; SET ROLE bob;
    CREATE TABLE shop.sold (id integer GENERATED ALWAYS AS IDENTITY CONSTRAINT key PRIMARY KEY, CONSTRAINT low CHECK (id < 900));
    INSERT INTO shop.sold SELECT FROM generate_series(1, 5); RESET ROLE";

/// A command in which `{}` is the OID that a query finds.
fn with_oid(client: &mut Client, command: &str, query: &str) -> String {
    let oid = value(client, query);
    command.replace("{}", &oid)
}

#[test]
fn a_migration_does_not_begin_where_somebody_has_taken_a_name_that_it_would_give() {
    let (_cluster, mut client) = server();
    client.batch_execute(TABLE).expect("a table");
    let key = "SELECT 'shop.key'::regclass::oid";
    let low = "SELECT oid FROM pg_constraint WHERE conname = 'low'";
    for (role, take, oid, back, says) in [
        (
            "mallory",
            "CREATE TABLE shop.snowflake_adopt_{} ()",
            key,
            "DROP TABLE shop.snowflake_adopt_{}",
            "shop.snowflake_adopt_{} has the name of an index to be made: rename it.",
        ),
        (
            "mallory",
            "CREATE VIEW shop.snowflake_kept AS SELECT {}",
            key,
            "DROP VIEW shop.snowflake_kept",
            "shop.snowflake_kept has the name of a sequence to be made: rename it.",
        ),
        (
            "bob",
            "ALTER TABLE shop.sold ADD CONSTRAINT snowflake_adopt_{} CHECK (true)",
            low,
            "ALTER TABLE shop.sold DROP CONSTRAINT snowflake_adopt_{}",
            "shop.sold has a constraint snowflake_adopt_{}.",
        ),
        (
            "bob",
            "CREATE TRIGGER \"~snowflake_adopt\" AFTER UPDATE ON shop.sold EXECUTE FUNCTION public.touch() --{}",
            key,
            "DROP TRIGGER \"~snowflake_adopt\" ON shop.sold",
            "shop.sold has a trigger \"~snowflake_adopt\".",
        ),
    ] {
        let [take, back, says] = [take, back, says].map(|text| with_oid(&mut client, text, oid));
        client.batch_execute(&format!("SET ROLE {role}; {take}\n; RESET ROLE")).expect("a name");
        let refused = error(&mut client, "CALL snowflake_adopt.start('shop.sold')");
        let detail = refused.detail().unwrap_or_default();
        assert!(detail.lines().any(|line| line == says), "{says} {refused:?}");
        client.batch_execute(&back).expect("no name");
    }
    for step in ["start", "undo", "start", "run", "finish"] {
        call(&mut client, &format!("{step}('shop.sold')"));
    }
}

/// The owner can have made it before its turn came.
#[test]
fn a_constraint_that_has_only_the_name_of_one_of_ours_is_not_taken_for_it() {
    let (_cluster, mut client) = server();
    client.batch_execute(TABLE).expect("a table");
    for step in ["start", "run"] {
        call(&mut client, &format!("{step}('shop.sold')"));
    }
    let plant = "ALTER TABLE shop.sold DISABLE TRIGGER USER, ADD CONSTRAINT snowflake_adopt_equal CHECK (true),
        ADD CONSTRAINT snowflake_adopt_{} CHECK (true); UPDATE shop.sold SET snowflake_adopt_id = snowflake_adopt_id + 10;
        ALTER TABLE shop.sold ENABLE ALWAYS TRIGGER \"~snowflake_adopt\"";
    let plant = with_oid(&mut client, plant, "SELECT oid FROM pg_constraint WHERE conname = 'low'");
    client.batch_execute(&plant).expect("constraints");
    call(&mut client, "finish('shop.sold')");
    assert_eq!(value(&mut client, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM shop.sold"), "1 2 3 4 5");
    let checks = "SELECT string_agg(concat(conname, ' ', pg_get_constraintdef(oid)), ', ') FROM pg_constraint WHERE conrelid = 'shop.sold'::regclass AND contype = 'c'";
    assert_eq!(value(&mut client, checks), "low CHECK ((id < 900))");
}

#[test]
fn names_that_need_quotes_are_quoted_once() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE SCHEMA \"My Ops\"; CREATE OPERATOR CLASS \"My Ops\".\"By Text\" FOR TYPE text USING btree AS OPERATOR 1 <, OPERATOR 2 <=,
                OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 bttextcmp(text, text);
             CREATE ROLE \"The Owner\"; GRANT ALL ON SCHEMA \"My Ops\" TO \"The Owner\"; SET ROLE \"The Owner\";
             CREATE TABLE \"My Ops\".\"A Table\" (\"An Id\" serial PRIMARY KEY, parent integer REFERENCES \"My Ops\".\"A Table\", t text COLLATE \"C\",
                CONSTRAINT \"A Check\" CHECK (\"An Id\" > 0));
             CREATE INDEX \"An Index\" ON \"My Ops\".\"A Table\" (\"An Id\", t \"My Ops\".\"By Text\"); RESET ROLE",
        )
        .expect("a table");
    call(&mut client, "start('\"My Ops\".\"A Table\"', 'An Id')");
    for step in ["run", "finish"] {
        call(&mut client, &format!("{step}('\"My Ops\".\"A Table\"')"));
    }
    let class = "SELECT opcname FROM pg_index JOIN pg_opclass o ON o.oid = indclass[1] WHERE indexrelid = '\"My Ops\".\"An Index\"'::regclass";
    assert_eq!(value(&mut client, class), "By Text");
}

/// PostgreSQL's text of the index is changed where it says ONLY.
#[test]
fn an_index_of_a_partitioned_table_is_adopted_whatever_its_name_says() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE SCHEMA \"s ON ONLY s\"; SET search_path = \"s ON ONLY s\", public;
             CREATE TABLE \"t ON ONLY t\" (id serial, n integer) PARTITION BY LIST (n); CREATE TABLE part PARTITION OF \"t ON ONLY t\" DEFAULT;
             CREATE INDEX \"i ON ONLY i\" ON \"t ON ONLY t\" (id); CREATE UNIQUE INDEX \"u\"\" ON ONLY u\" ON \"t ON ONLY t\" (id, n)",
        )
        .expect("a table");
    for step in ["start", "run", "finish"] {
        call(&mut client, &format!("{step}('\"t ON ONLY t\"')"));
    }
    let indexes =
        "SELECT string_agg(relname, ', ' ORDER BY relname) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
        WHERE indrelid = '\"t ON ONLY t\"'::regclass AND indisvalid";
    assert_eq!(value(&mut client, indexes), "i ON ONLY i, u\" ON ONLY u");
    let attached = "SELECT count(*) FROM pg_inherits WHERE inhrelid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'part'::regclass)";
    assert_eq!(value(&mut client, attached), "2");
}
