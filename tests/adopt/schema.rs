//! A whole schema goes over by one plan, and back by another.

use super::{Plan, database, is_new, plan, run_all};
use testbed::postgres::Client;
use testbed::{Database, error, test, value};

const TABLES: &str = "
    CREATE TABLE customers (id serial PRIMARY KEY, name text);
    CREATE TABLE orders (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id integer REFERENCES customers, place serial);
    CREATE TABLE items (order_id integer REFERENCES orders, nr integer, customer_id smallint REFERENCES customers, PRIMARY KEY (order_id, nr));
    CREATE TABLE notes (id bigserial PRIMARY KEY, order_id integer);
    CREATE TABLE parts (id bigserial, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
    CREATE TABLE part PARTITION OF parts DEFAULT;
    CREATE TABLE names (name text PRIMARY KEY);
    CREATE VIEW all_items AS SELECT customers.name, orders.id, items.nr FROM customers JOIN orders ON customer_id = customers.id JOIN items ON order_id = orders.id;
    CREATE FUNCTION total(integer) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM orders WHERE id = $1';
    CREATE PUBLICATION changes FOR TABLE orders;
    INSERT INTO customers (name) VALUES ('Ada'); INSERT INTO orders (customer_id) VALUES (1); INSERT INTO items VALUES (1, 1, 1)";

/// What a plan is made for, with narrow keys.
const WIDEN: &str = "'public', widen => true";

/// A database with these tables.
fn tables() -> (Database, Client) {
    let (database, mut client) = database();
    client.batch_execute(&format!("SET client_min_messages = error; {TABLES}")).expect("tables");
    (database, client)
}

#[test]
fn every_key_of_a_schema_goes_over_and_what_the_plan_leaves_is_named() {
    let (_database, mut client) = tables();
    let Plan { commands, notes } = plan(&mut client, "schema_plan", WIDEN);
    assert_eq!(
        notes,
        [
            "These columns become bigint: id of public.customers, customer_id of public.items, order_id of \
             public.items, customer_id of public.orders, id of public.orders. The application must declare them with \
             64 bits before the plan runs. To leave their keys unchanged, make a plan without widen.",
            "place of public.orders is numbered by a sequence, and not in the primary key: it is not changed.",
            "public.orders is published by changes: make the column a bigint on the subscribers first.",
            "order_id of public.notes is of type integer, and may reference public.orders without a foreign key: it is not changed.",
            "public.total(integer) has a parameter or a result of 32 bits or less, and mentions public.orders: check \
             whether these are its IDs.",
        ]
    );
    let widenings: Vec<_> = commands.iter().filter(|command| command.contains(" TYPE bigint")).collect();
    assert_eq!(
        widenings,
        [
            "ALTER TABLE public.items ALTER COLUMN customer_id TYPE bigint, ALTER COLUMN order_id TYPE bigint",
            "ALTER TABLE public.customers ALTER COLUMN id TYPE bigint",
            "ALTER TABLE public.orders ALTER COLUMN customer_id TYPE bigint, ALTER COLUMN id TYPE bigint",
        ]
    );
    run_all(&mut client, &commands);
    for (table, columns) in [
        ("customers", "(name) VALUES ('Grace')"),
        ("orders", "(customer_id) SELECT max(id) FROM customers"),
        ("notes", "(order_id) VALUES (1)"),
        ("parts", "(day) VALUES (now())"),
    ] {
        let id = value(&mut client, &format!("INSERT INTO {table} {columns} RETURNING id"));
        assert!(is_new(&mut client, &id), "{table}: {id}");
    }
    client.batch_execute("INSERT INTO items SELECT max(id), 1, max(customer_id) FROM orders").expect("a row");
    assert_eq!(value(&mut client, "SELECT count(*) FROM all_items"), "2");
    let Plan { commands, notes } = plan(&mut client, "schema_plan", WIDEN);
    assert_eq!((commands.len(), notes.len()), (0, 2), "{notes:?}");
    assert!(notes[1].starts_with("There is nothing to do"), "{notes:?}");
}

#[test]
fn a_plan_of_which_a_part_has_failed_gives_no_table_snowflake_ids() {
    let (_database, mut client) = tables();
    let commands = plan(&mut client, "schema_plan", WIDEN).commands;
    // As psql does, which goes on after an error.
    let mut failed = Vec::new();
    for command in commands {
        let command = command.replace("ALTER TABLE public.items", "ALTER TABLE public.items_gone");
        if let Err(error) = client.batch_execute(&command) {
            failed.push(error.as_db_error().expect("an error of the server").message().to_owned());
        }
    }
    assert_eq!(failed[0], "relation \"public.items_gone\" does not exist");
    assert!(failed.contains(&"columns are not bigint yet".to_owned()), "{failed:?}");
    let defaults = "SELECT count(*) FROM pg_attrdef WHERE pg_get_expr(adbin, adrelid) LIKE '%snowflake%'";
    assert_eq!(value(&mut client, defaults), "0");
    assert_eq!(value(&mut client, "SELECT count(*) FROM all_items"), "1");
    // The next plan does the rest.
    let commands = plan(&mut client, "schema_plan", WIDEN).commands;
    run_all(&mut client, &commands);
    // With that of the partition.
    assert_eq!(value(&mut client, defaults), "5");
}

#[test]
fn a_plan_for_a_schema_leaves_narrow_keys_their_numbers_unless_it_is_told_to_widen_them() {
    let (_database, mut client) = tables();
    // What new columns become is another matter.
    client.batch_execute("SET snowflake_pg.widen_serial = on").expect("a parameter");
    client
        .batch_execute(
            "CREATE DOMAIN small AS integer; CREATE TABLE wide (id bigserial PRIMARY KEY); CREATE TABLE uses (of small REFERENCES wide)",
        )
        .expect("a bigint to which an integer refers");
    let Plan { commands, notes } = plan(&mut client, "schema_plan", "'public'");
    assert_eq!(
        notes,
        [
            "id of public.customers keeps its numbers, since widen is false. Narrower than bigint: id of public.customers, customer_id of public.items, customer_id of public.orders.",
            "id of public.orders keeps its numbers, since widen is false. Narrower than bigint: order_id of public.items, id of public.orders.",
            "id of public.wide keeps its numbers, since widen is false. Narrower than bigint: of of public.uses.",
            "place of public.orders is numbered by a sequence, and not in the primary key: it is not changed.",
        ]
    );
    run_all(&mut client, &commands);
    let narrow =
        "SELECT string_agg(attrelid::regclass || '.' || attname, ', ' ORDER BY attrelid::regclass::text, attname)
        FROM pg_attribute WHERE atttypid IN ('integer'::regtype, 'smallint'::regtype) AND attnum > 0
            AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r')";
    assert_eq!(
        value(&mut client, narrow),
        "customers.id, items.customer_id, items.nr, items.order_id, notes.order_id, orders.customer_id, orders.id, orders.place"
    );
    for (table, columns, gets) in [
        ("customers", "(name) VALUES ('Grace')", "2"),
        ("orders", "(customer_id) SELECT max(id) FROM customers", "2"),
        ("wide", "DEFAULT VALUES", "1"),
    ] {
        assert_eq!(value(&mut client, &format!("INSERT INTO {table} {columns} RETURNING id")), gets, "{table}");
    }
    for (table, columns) in [("notes", "(order_id) VALUES (1)"), ("parts", "(day) VALUES (now())")] {
        let id = value(&mut client, &format!("INSERT INTO {table} {columns} RETURNING id"));
        assert!(is_new(&mut client, &id), "{table}: {id}");
    }
    // Nothing but remarks is left.
    let again = plan(&mut client, "schema_plan", "'public'");
    assert_eq!(again, Plan { commands: vec![], notes });
}

#[test]
fn a_schema_goes_back_to_its_own_numbers_by_one_plan_which_names_what_it_leaves() {
    let (_database, mut client) = tables();
    client
        .batch_execute(
            "CREATE SCHEMA other; CREATE TABLE other.away (id bigint PRIMARY KEY DEFAULT ids.snowflake_id());
             CREATE TABLE made (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval(), request bigint DEFAULT ids.snowflake_id());
             CREATE TABLE seen (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval());
             CREATE VIEW all_seen AS SELECT id FROM seen; INSERT INTO made DEFAULT VALUES",
        )
        .expect("tables that are made with Snowflake IDs");
    let commands = plan(&mut client, "schema_plan", WIDEN).commands;
    run_all(&mut client, &commands);
    let insert = |client: &mut Client| {
        [
            ("customers", "(name) VALUES ('Grace')"),
            ("orders", "DEFAULT VALUES"),
            ("notes", "DEFAULT VALUES"),
            ("parts", "(day) VALUES (now())"),
        ]
        .map(|(table, columns)| value(client, &format!("INSERT INTO {table} {columns} RETURNING id")))
    };
    for id in insert(&mut client) {
        assert!(is_new(&mut client, &id), "{id}");
    }
    let Plan { commands, notes } = plan(&mut client, "revert_schema_plan", "'public'");
    assert_eq!(
        notes,
        [
            "request of public.made has Snowflake IDs, and is not in the primary key: it is not changed.",
            "id of public.seen cannot become an identity: it is of type ids.snowflake, and must remain so for: rule _RETURN on view public.all_seen. Change that, or set a default of your own, such as nextval() of a sequence above the greatest ID.",
        ]
    );
    run_all(&mut client, &commands);
    assert_eq!(insert(&mut client), ["2", "2", "1", "1"]);
    assert_eq!(value(&mut client, "INSERT INTO made DEFAULT VALUES RETURNING id - (SELECT max(id) FROM made)"), "1");
    for table in ["other.away", "seen"] {
        let id = value(&mut client, &format!("INSERT INTO {table} DEFAULT VALUES RETURNING id"));
        assert!(is_new(&mut client, &id), "{table}: {id}");
    }
    client.batch_execute("DROP TABLE seen CASCADE").expect("the end of an obstacle");
    let again = plan(&mut client, "revert_schema_plan", "'public'");
    assert_eq!(again, Plan { commands: vec![], notes: vec![notes[0].clone()] });
}

#[test]
fn a_schema_without_numbered_keys_has_nothing_to_do_and_one_that_is_not_there_is_an_error() {
    let (_database, mut client) = database();
    client.batch_execute("CREATE TABLE names (name text PRIMARY KEY)").expect("a table");
    for (which, nothing) in [
        ("schema_plan", "There is nothing to do: no primary key in schema public is numbered by a sequence."),
        ("revert_schema_plan", "There is nothing to do: no primary key in schema public has Snowflake IDs."),
    ] {
        let plan = plan(&mut client, which, "'public'");
        assert_eq!(plan, Plan { commands: vec![], notes: vec![nothing.to_owned()] });
        assert_eq!(error(&mut client, &format!("SELECT snowflake_adopt.{which}('none')")).code().code(), "3F000");
    }
}
