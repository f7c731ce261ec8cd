//! Tables that have always had Snowflake IDs, and go over to numbers.

use super::{database, plan};
use testbed::{error, test, value};

/// As there is no sequence to go back to. A row that is inserted after the plan was made counts as well.
#[test]
fn a_table_that_was_made_with_snowflake_ids_is_numbered_above_them_when_it_is_reverted() {
    let (database, mut client) = database();
    client.batch_execute("CREATE ROLE maker LOGIN; GRANT ALL ON SCHEMA public, ids TO maker").expect("a role");
    let mut app = database.config().user("maker").connect(testbed::postgres::NoTls).expect("a session");
    for (of_type, key, rest) in [
        ("bigint", "PRIMARY KEY DEFAULT ids.snowflake_nextval()", ""),
        ("bigint", "PRIMARY KEY DEFAULT ids.snowflake_nextval()", "PARTITION BY RANGE (id)"),
        ("ids.snowflake", "PRIMARY KEY CHECK (id > 0) DEFAULT ids.snowflake_id()", ""),
    ] {
        for (rows, by_owner) in [(0, true), (3, true), (0, false), (3, false)] {
            let make = format!(
                "CREATE TABLE orders (id {of_type} {key}, n integer) {rest};
                 CREATE TABLE items (order_id {of_type} REFERENCES orders)"
            );
            app.batch_execute(&make).unwrap_or_else(|error| panic!("{make}: {error:?}"));
            if !rest.is_empty() {
                app.batch_execute("CREATE TABLE part PARTITION OF orders DEFAULT").expect("a partition");
            }
            let insert = "INSERT INTO orders (n) VALUES (1) RETURNING id::bigint";
            let commands = plan(if by_owner { &mut app } else { &mut client }, "revert_plan", "'orders'").commands;
            let greatest = (0..rows).map(|_| value(&mut app, insert).parse::<i64>().expect("an ID")).max();
            let planner = if by_owner { &mut app } else { &mut client };
            for command in &commands {
                planner.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
            }
            let next: i64 = value(&mut app, insert).parse().expect("a number");
            assert_eq!(next, greatest.unwrap_or(0) + 1, "{make}");
            let id = "SELECT concat_ws(' ', attidentity, format_type(atttypid, NULL), attnotnull) FROM pg_attribute
                WHERE attrelid = 'orders'::regclass AND attname = 'id'";
            assert_eq!(value(&mut app, id), "d bigint t", "{make}");
            app.batch_execute(
                "INSERT INTO items SELECT max(id) FROM orders; INSERT INTO orders (id) VALUES (2::bigint << 40)",
            )
            .expect("a reference, and an ID of the application's");
            app.batch_execute("DROP TABLE orders, items").expect("the end");
        }
    }
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relname LIKE 'orders%'"), "0");
}

/// A snapshot of the whole transaction would be older than the plan's lock on the table.
#[test]
fn a_row_that_is_inserted_while_a_plan_waits_counts_whatever_the_default_of_isolation() {
    let (database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), n integer);
             SET default_transaction_isolation = 'repeatable read'",
        )
        .expect("a table");
    let commands = plan(&mut client, "revert_plan", "'orders'").commands;
    let before = commands.iter().position(|command| command.starts_with("ALTER")).expect("a lock");
    super::run_all(&mut client, &commands[..before]);
    let insert = "INSERT INTO orders (n) VALUES (1) RETURNING id";
    let last: i64 = value(&mut database.connect(), insert).parse().expect("an ID");
    super::run_all(&mut client, &commands[before..]);
    assert_eq!(value(&mut client, insert), (last + 1).to_string());
}

#[test]
fn a_column_that_cannot_become_an_identity_is_named_with_the_reason_and_keeps_its_default() {
    let (_database, mut client) = database();
    for (tables, reason) in [
        ("orders (id bigint DEFAULT ids.snowflake_nextval())", "it can be NULL"),
        ("orders (id uuid PRIMARY KEY DEFAULT ids.snowflake_to_uuid(ids.snowflake_nextval()))", "it is of type uuid"),
        (
            "parts (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval()) PARTITION BY RANGE (id);
             CREATE TABLE orders PARTITION OF parts DEFAULT",
            "the table is a partition",
        ),
        (
            "parts (id ids.snowflake NOT NULL DEFAULT ids.snowflake_nextval()); CREATE TABLE orders () INHERITS (parts)",
            "it is of type ids.snowflake",
        ),
        (
            "orders (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval()) PARTITION BY RANGE (id)",
            "it is of type ids.snowflake, and must remain so for: the partition key of public.orders",
        ),
        (
            "orders (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval(),
                 more bigint GENERATED ALWAYS AS (id + 1) STORED); CREATE VIEW shown AS SELECT id FROM orders",
            "it is of type ids.snowflake, and must remain so for: \
             default value for column more of table public.orders, rule _RETURN on view public.shown",
        ),
    ] {
        client.batch_execute(&format!("CREATE TABLE {tables}")).unwrap_or_else(|error| panic!("{tables}: {error:?}"));
        let found = plan(&mut client, "revert_plan", "'orders'");
        let more = "Change that, or set a default of your own, such as nextval() of a sequence above the greatest ID.";
        assert_eq!(found.notes, [format!("id of public.orders cannot become an identity: {reason}. {more}")]);
        assert!(found.commands.is_empty(), "{found:?}");
        // PostgreSQL refuses it, too.
        let command =
            "ALTER TABLE orders ALTER id DROP DEFAULT, ALTER id TYPE bigint, ALTER id ADD GENERATED ALWAYS AS IDENTITY";
        error(&mut client, command);
        client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").expect("the end");
    }
}
