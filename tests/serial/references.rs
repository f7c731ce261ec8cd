//! Columns that refer to Snowflake IDs, and must have room for them.

use super::{Session, database, gets_ids};
use testbed::test;

const BECOMES: &str = "NOTICE: column \"customer\" of table \"orders\" becomes bigint \
    (It refers to column \"id\" of table \"public.customers\", which is a bigint.)";

fn with_customers() -> (testbed::Database, Session) {
    let (database, mut session) = database();
    session.run("CREATE TABLE customers (id serial PRIMARY KEY, UNIQUE (id))");
    (database, session)
}

#[test]
fn a_new_column_that_refers_to_snowflake_ids_has_room_for_them() {
    let (_database, mut session) = with_customers();
    for statement in [
        "CREATE TABLE orders (customer integer REFERENCES customers)",
        "CREATE TABLE orders (customer smallint CONSTRAINT named REFERENCES customers (id) ON DELETE CASCADE)",
        "CREATE TABLE orders (customer integer, FOREIGN KEY (customer) REFERENCES customers)",
        "CREATE TEMPORARY TABLE all_customers (id bigint PRIMARY KEY); CREATE TABLE orders (customer integer REFERENCES customers)",
        "CREATE TABLE orders (customer integer REFERENCES customers) PARTITION BY HASH (customer)",
        "CREATE TABLE orders (); ALTER TABLE orders ADD customer integer REFERENCES customers",
        // As Django does.
        "CREATE TABLE orders (customer integer NOT NULL); CREATE INDEX ON orders (customer);
         ALTER TABLE orders ADD CONSTRAINT named FOREIGN KEY (customer) REFERENCES customers (id) DEFERRABLE INITIALLY DEFERRED",
    ] {
        let told = session.run(statement);
        let is_key = statement.contains("HASH");
        assert_eq!(told.contains(&BECOMES.to_owned()), !is_key, "{statement}: {told:?}");
        let of_type = if is_key { "customer integer" } else { "customer bigint" };
        assert!(session.columns("orders").starts_with(of_type), "{statement}: {}", session.columns("orders"));
        if !is_key {
            session.run("WITH made AS (INSERT INTO customers DEFAULT VALUES RETURNING id) SELECT * FROM made");
            session.run("INSERT INTO orders SELECT max(id) FROM customers");
        }
        session.run("DROP TABLE orders");
    }
}

#[test]
fn a_column_that_refers_to_its_own_table_has_room_too() {
    let (_database, mut session) = database();
    let told = session.run("CREATE TABLE orders (id serial PRIMARY KEY, customer integer REFERENCES orders)");
    assert_eq!(told[0], gets_ids("orders"));
    assert_eq!(session.columns("orders"), "id bigint NOT NULL ids.snowflake_id(), customer bigint");
    // And one that refers to a column that refers.
    session.run(
        "CREATE TABLE special (id integer PRIMARY KEY REFERENCES orders);
         CREATE TABLE more (special integer, orders integer, FOREIGN KEY (special) REFERENCES special, FOREIGN KEY (orders) REFERENCES orders)",
    );
    assert_eq!(session.columns("more"), "special bigint, orders bigint");
}

#[test]
fn a_table_with_rows_is_not_rewritten_and_a_warning_says_what_to_run() {
    let (_database, mut session) = with_customers();
    session.run("CREATE TABLE orders (customer integer); INSERT INTO orders VALUES (NULL)");
    let warning = "WARNING: column \"customer\" of table \"orders\" is too narrow for Snowflake IDs \
        (It refers to column \"id\" of table \"public.customers\", which is a bigint. It remains as it is: the table has rows.)";
    let told = session.run("ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers");
    assert_eq!(told, [warning]);
    assert_eq!(session.columns("orders"), "customer integer");
}

#[test]
fn what_keeps_a_column_narrow_keeps_no_statement_from_running() {
    let (_database, mut session) = with_customers();
    session.run("CREATE TABLE orders (customer integer); CREATE VIEW names AS SELECT customer FROM orders");
    let told = session.run("ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers");
    let warning = "WARNING: column \"customer\" of table \"orders\" is too narrow for Snowflake IDs \
        (It refers to column \"id\" of table \"public.customers\", which is a bigint. \
        It remains as it is: cannot alter type of a column used by a view or rule.)";
    assert_eq!(told, [warning]);
    let keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid = 'orders'::regclass";
    assert_eq!((&*session.columns("orders"), &*session.value(keys)), ("customer integer", "1"));
}

#[test]
fn columns_without_a_foreign_key_and_those_with_numbers_elsewhere_stay() {
    let (_database, mut session) = with_customers();
    session.run("CREATE TABLE kinds (id integer PRIMARY KEY)");
    assert_eq!(session.run("CREATE TABLE orders (customer integer, kind integer REFERENCES kinds)"), [""; 0]);
    assert_eq!(session.columns("orders"), "customer integer, kind integer");
}
