//! What stands in the way is found before anything is done.

use super::{database, plan};
use testbed::{Cluster, error, test, value};

#[test]
fn what_keeps_a_column_from_becoming_a_bigint_is_named_and_nothing_is_done() {
    let (_database, mut client) = database();
    client
        .batch_execute("SET client_min_messages = error; CREATE PUBLICATION rows; CREATE ROLE app")
        .expect("a publication");
    for (obstacle, note) in [
        (
            "CREATE RULE quiet AS ON UPDATE TO orders WHERE new.id = 5 DO INSTEAD NOTHING",
            "id of public.orders cannot become bigint while there is: rule quiet on table public.orders.",
        ),
        (
            "ALTER TABLE orders ADD twice integer GENERATED ALWAYS AS (id * 2) STORED",
            "id of public.orders cannot become bigint while there is: default value for column twice of table public.orders.",
        ),
        (
            "ALTER PUBLICATION rows ADD TABLE orders WHERE (id > 0)",
            "id of public.orders cannot become bigint while there is: publication of table public.orders in publication rows.",
        ),
        (
            "ALTER PUBLICATION rows ADD TABLE orders (id, n)",
            "id of public.orders cannot become bigint while there is: publication of table public.orders in publication rows.",
        ),
        (
            "DROP TABLE items; CREATE TABLE items (order_id integer REFERENCES orders) PARTITION BY RANGE (order_id)",
            "order_id of public.items cannot become bigint: it is in the partition key.",
        ),
        (
            "CREATE TABLE base (order_id integer); ALTER TABLE items INHERIT base",
            "order_id of public.items cannot become bigint: it is inherited from another table.",
        ),
        (
            "CREATE TABLE archive (orders orders[])",
            "id of public.orders cannot become bigint: orders of public.archive is of its row type.",
        ),
        (
            "DROP TABLE items, orders; CREATE TABLE orders (id serial, n integer, PRIMARY KEY (id, n)) PARTITION BY LIST (n);
             CREATE TABLE first PARTITION OF orders FOR VALUES IN (1);
             CREATE TABLE items (order_id integer, n integer, CONSTRAINT of FOREIGN KEY (order_id, n) REFERENCES first)",
            "id of public.orders cannot become bigint while there is: constraint of on table public.items, which needs the index of a partition.",
        ),
        (
            "CREATE TYPE item AS (order_id integer); ALTER TABLE items OF item",
            "order_id of public.items cannot become bigint: the table is of type public.item.",
        ),
    ] {
        client
            .batch_execute(&format!(
                "CREATE SCHEMA IF NOT EXISTS public;
                 CREATE TABLE orders (id serial PRIMARY KEY, n integer);
                 CREATE TABLE items (order_id integer REFERENCES orders); {obstacle}"
            ))
            .unwrap_or_else(|error| panic!("{obstacle}: {error:?}"));
        let found = plan(&mut client, "plan", "'orders'");
        assert_eq!(found.notes, [note], "{obstacle}");
        assert!(found.commands.is_empty(), "{obstacle}: {found:?}");
        // PostgreSQL refuses it, too: the plan would have failed half way.
        let table = if note.starts_with("id") { "orders ALTER id" } else { "items ALTER order_id" };
        let refused = error(&mut client, &format!("ALTER TABLE {table} TYPE bigint"));
        assert!(["0A000", "42P16", "42809", "2BP01"].contains(&refused.code().code()), "{obstacle}: {refused:?}");
        client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").expect("the end");
    }
}

/// Indexes, checks, statistics and comments are no obstacles, and neither is a view on a column that is wide already.
#[test]
fn what_postgresql_rebuilds_by_itself_is_not_in_the_way() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id serial PRIMARY KEY CHECK (id > 0), n integer);
             CREATE INDEX ON orders ((id % 10)); CREATE STATISTICS s ON id, n FROM orders;
             CREATE TABLE wide (id bigserial PRIMARY KEY); CREATE VIEW shown AS SELECT id FROM wide;
             CREATE TABLE parts (id bigserial) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parts DEFAULT",
        )
        .expect("tables");
    for table in ["orders", "wide", "parts"] {
        super::run(&mut client, "plan", &format!("'{table}'"));
    }
    assert!(super::is_new(
        &mut client,
        "SELECT max(id) FROM (SELECT 0) s, LATERAL (SELECT ids.snowflake_nextval()) t(id)"
    ));
    client.batch_execute("INSERT INTO parts DEFAULT VALUES").expect("a row");
    assert!(super::is_new(&mut client, "SELECT max(id) FROM parts"));
}

/// Only a row shows whether they do.
#[test]
fn checks_and_partitions_that_could_refuse_new_ids_are_noted() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id serial PRIMARY KEY CHECK (id < 1000000), n integer CHECK (n > 0));
             CREATE TABLE parts (id bigserial) PARTITION BY RANGE (id)",
        )
        .expect("tables");
    for (table, note) in [
        ("orders", "They must pass CHECK ((id < 1000000))."),
        ("parts", "The default was nextval('public.parts_id_seq'::regclass). There must be partitions for them."),
    ] {
        let of_default = "SELECT note FROM snowflake_adopt.plan($1::text::regclass) WHERE command LIKE '%SET DEFAULT%'";
        let found: String = client.query_one(of_default, &[&table]).expect("a default").get(0);
        assert!(found.ends_with(note), "{found}");
    }
    super::run(&mut client, "plan", "'orders'");
    assert_eq!(error(&mut client, "INSERT INTO orders (n) VALUES (1)").code().code(), "23514");
}

#[test]
fn tables_and_columns_that_do_not_fit_are_refused() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "CREATE TABLE orders (id uuid, n numeric, s serial); CREATE VIEW shown AS SELECT 1 AS id;
             CREATE TABLE parts (id bigint) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parts DEFAULT",
        )
        .expect("tables");
    for (arguments, code, message) in [
        (
            "'orders'",
            "42804",
            "column \"id\" of relation public.orders must be of type smallint, integer, bigint or snowflake",
        ),
        (
            "'orders', 'n'",
            "42804",
            "column \"n\" of relation public.orders must be of type smallint, integer, bigint or snowflake",
        ),
        ("'orders', 'none'", "42703", "column \"none\" of relation public.orders does not exist"),
        ("'shown'", "42809", "public.shown is not a table, or is a partition"),
        ("'part'", "42809", "public.part is not a table, or is a partition"),
        ("'nowhere'", "42P01", "relation \"nowhere\" does not exist"),
    ] {
        let refused = error(&mut client, &format!("SELECT snowflake_adopt.plan({arguments})"));
        assert_eq!((refused.code().code(), refused.message()), (code, message));
    }
    let uuid = error(&mut client, "SELECT snowflake_adopt.plan('orders')");
    let command = uuid.hint().and_then(|hint| hint.strip_prefix("A uuid needs no plan: ")).expect("a command");
    client.batch_execute(&command[..command.len() - 1]).expect("a default");
    let id = value(&mut client, "INSERT INTO orders (n) VALUES (1) RETURNING ids.snowflake_from_uuid(id)");
    assert!(super::is_new(&mut client, &id), "{id}");
    assert!(plan(&mut client, "plan", "'orders'").notes[0].starts_with("There is nothing to do"));
    client.batch_execute("CREATE ROLE other; GRANT USAGE ON SCHEMA ids TO other; SET ROLE other").expect("a role");
    assert_eq!(error(&mut client, "SELECT snowflake_adopt.plan('orders', 's')").code().code(), "42501");
}

#[test]
fn nothing_is_adopted_where_no_id_is_issued_or_none_could_be_greater() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids; CREATE EXTENSION snowflake_adopt;
             CREATE TABLE orders (id bigserial)",
        )
        .expect("a table");
    let note = "This server issues no IDs at present: its state is not preloaded.";
    assert_eq!(plan(&mut client, "plan", "'orders'").notes, [note]);
    let (_database, mut client) = database();
    client
        .batch_execute("CREATE TABLE orders (id bigserial); INSERT INTO orders VALUES (9223372036854775807)")
        .expect("an ID");
    let note = "The greatest ID, 9223372036854775807, is too far ahead of new ones. If these are IDs of another layout, \
        set snowflake_pg.layout to that. If they are not Snowflake IDs, give these rows lower numbers, or add another column.";
    assert_eq!(plan(&mut client, "plan", "'orders'").notes, [note]);
    assert_eq!(value(&mut client, "SELECT count(*) FROM orders"), "1");
}
