//! A whole schema goes over by one plan.

use super::{database, is_new};
use testbed::postgres::{Client, SimpleQueryMessage};
use testbed::{error, test, value};

/// The steps of a plan for the schema public: commands, and remarks without a command.
fn plan(client: &mut Client) -> (Vec<String>, Vec<String>) {
    let (mut commands, mut remarks) = (Vec::new(), Vec::new());
    for message in
        client.simple_query("SELECT command, note FROM ids.snowflake_adopt_schema_plan('public')").expect("a plan")
    {
        if let SimpleQueryMessage::Row(row) = message {
            match row.get(0) {
                Some(command) => commands.push(command.to_owned()),
                None => remarks.push(row.get(1).expect("a remark").to_owned()),
            }
        }
    }
    (commands, remarks)
}

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

#[test]
fn every_key_of_a_schema_goes_over_and_what_the_plan_leaves_is_named() {
    let (_database, mut client) = database();
    client.batch_execute(&format!("SET client_min_messages = error; {TABLES}")).expect("tables");
    let (commands, remarks) = plan(&mut client);
    assert_eq!(
        remarks,
        [
            "place of public.orders is numbered by a sequence, and not in the primary key: it remains as it is.",
            "public.orders is published by changes: make the column a bigint on the subscribers first.",
            "order_id of public.notes is of type integer, and may refer to public.orders without a foreign key: it remains as it is.",
            "public.total(integer) has a parameter or a result of 32 bits or less, and mentions public.orders: see whether these are its IDs.",
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
    for command in &commands {
        client.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
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
    let (commands, remarks) = plan(&mut client);
    assert_eq!((commands.len(), remarks.len()), (0, 2), "{remarks:?}");
    assert!(remarks[1].starts_with("Nothing is to be done"), "{remarks:?}");
}

#[test]
fn a_plan_of_which_a_part_has_failed_gives_no_table_snowflake_ids() {
    let (_database, mut client) = database();
    client.batch_execute(&format!("SET client_min_messages = error; {TABLES}")).expect("tables");
    let (commands, _) = plan(&mut client);
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
    for command in plan(&mut client).0 {
        client.batch_execute(&command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
    // With that of the partition.
    assert_eq!(value(&mut client, defaults), "5");
}

#[test]
fn a_schema_without_numbered_keys_has_nothing_to_do_and_one_that_is_not_there_is_an_error() {
    let (_database, mut client) = database();
    client.batch_execute("CREATE TABLE names (name text PRIMARY KEY)").expect("a table");
    let nothing = "Nothing is to be done: no primary key in schema public is numbered by a sequence.";
    assert_eq!(plan(&mut client), (vec![], vec![nothing.to_owned()]));
    assert_eq!(error(&mut client, "SELECT ids.snowflake_adopt_schema_plan('none')").code().code(), "3F000");
}
