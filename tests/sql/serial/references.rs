//! Columns that refer to Snowflake IDs, and must have room for them.

use super::{CHANGED, Session, database, gets_ids};
use std::thread;
use testbed::postgres::error::SqlState;
use testbed::{error, test};

const BECOMES: &str = "NOTICE: column \"customer\" of table \"orders\" becomes bigint (It references a bigint.)";

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
        assert_eq!(told.last().map(String::as_str), Some(BECOMES), "{statement}: {told:?}");
        assert!(session.columns("orders").starts_with("customer bigint"), "{statement}: {}", session.columns("orders"));
        if !statement.contains("PARTITION") {
            session.run("INSERT INTO customers DEFAULT VALUES; INSERT INTO orders SELECT max(id) FROM customers");
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
    // Or has done so before that one did.
    session.run(
        "CREATE TABLE kinds (id integer PRIMARY KEY); CREATE TABLE uses (kind integer REFERENCES kinds);
         ALTER TABLE kinds ADD FOREIGN KEY (id) REFERENCES orders",
    );
    assert_eq!(session.columns("uses"), "kind bigint");
}

/// The column that it references is in the statement, or comes from a table that the statement names.
#[test]
fn a_column_that_references_a_new_key_of_its_own_table_becomes_a_bigint() {
    let (_database, mut session) = database();
    session.run("CREATE SCHEMA first; SET search_path = first, public; CREATE TABLE keyed (id serial PRIMARY KEY)");
    for statement in [
        "CREATE TABLE tree (); ALTER TABLE tree ADD id bigserial PRIMARY KEY, ADD parent integer REFERENCES tree",
        "CREATE TABLE tree (); ALTER TABLE tree ADD id bigserial, ADD UNIQUE (id), ADD parent integer, ADD FOREIGN KEY (parent) REFERENCES tree (id)",
        "CREATE TABLE tree (parent integer); ALTER TABLE tree ADD id bigserial PRIMARY KEY, ADD FOREIGN KEY (parent) REFERENCES tree",
        "CREATE TABLE tree (id integer PRIMARY KEY); ALTER TABLE tree ADD parent integer REFERENCES tree, ADD FOREIGN KEY (id) REFERENCES keyed",
        "CREATE TABLE tree (id bigserial PRIMARY KEY, parent integer REFERENCES first.tree)",
        "CREATE TABLE first.tree (id bigserial PRIMARY KEY, parent integer REFERENCES tree)",
        "CREATE TABLE pg_temp.tree (id bigserial PRIMARY KEY, parent integer REFERENCES tree)",
        "CREATE TEMPORARY TABLE tree (id bigserial PRIMARY KEY, parent integer REFERENCES pg_temp.tree)",
        "CREATE TABLE tree (LIKE keyed INCLUDING ALL, parent integer REFERENCES tree)",
        "CREATE TABLE tree (LIKE keyed, UNIQUE (id), parent integer REFERENCES tree (id))",
        "CREATE TABLE tree (UNIQUE (id), parent integer REFERENCES tree (id)) INHERITS (keyed)",
        "CREATE TABLE tree (parent integer); ALTER TABLE tree ADD COLUMN IF NOT EXISTS parent integer, ADD FOREIGN KEY (parent) REFERENCES keyed",
    ] {
        let told = session.run(statement);
        let becomes = "NOTICE: column \"parent\" of table \"tree\" becomes bigint (It references a bigint.)".to_owned();
        assert!(told.contains(&becomes), "{statement}: {told:?}");
        let columns = session.columns("tree");
        assert!(columns.contains("parent bigint"), "{statement}: {columns}");
        session.run("DROP TABLE tree");
    }
}

#[test]
fn a_name_that_means_a_table_in_another_schema_is_not_taken_for_the_new_table() {
    let (_database, mut session) = database();
    session.run("CREATE SCHEMA other; CREATE TABLE tree (id integer PRIMARY KEY)");
    let told = session.run("CREATE TABLE other.tree (id bigserial PRIMARY KEY, parent integer REFERENCES tree)");
    assert_eq!(told, [gets_ids("tree")]);
    assert_eq!(session.columns("other.tree"), format!("{CHANGED}, parent integer"));
}

#[test]
fn a_column_whose_type_another_table_determines_stays_narrow_with_a_warning() {
    let (_database, mut session) = with_customers();
    session.run(
        "CREATE TABLE base (customer integer); CREATE DOMAIN wide AS bigint; CREATE TABLE wide_base (customer wide);
         CREATE TABLE parts (customer integer) PARTITION BY LIST (customer)",
    );
    for (statement, other) in [
        ("CREATE TABLE orders (LIKE base, FOREIGN KEY (customer) REFERENCES customers)", "base"),
        ("CREATE TABLE orders (FOREIGN KEY (customer) REFERENCES customers) INHERITS (base)", "base"),
        ("CREATE TABLE orders (customer integer REFERENCES customers) INHERITS (base)", "base"),
        ("CREATE TABLE orders PARTITION OF parts (customer REFERENCES customers) DEFAULT", "parts"),
        (
            "CREATE TABLE orders (); CREATE TABLE child (customer integer) INHERITS (orders);
             ALTER TABLE orders ADD customer integer REFERENCES customers",
            "child",
        ),
        ("CREATE TABLE orders (LIKE wide_base, FOREIGN KEY (customer) REFERENCES customers)", ""),
    ] {
        let mut told = session.run(statement);
        told.retain(|line| line.starts_with("WARNING"));
        let warning = format!(
            "WARNING: column \"customer\" of table \"orders\" is narrower than the column that it references (It \
             is unchanged: it must have the same type as the column of \"public.{other}\".)"
        );
        assert_eq!(told, if other.is_empty() { vec![] } else { vec![warning] }, "{statement}");
        session.run("DROP TABLE orders CASCADE; DROP TABLE IF EXISTS child");
    }
}

/// What keeps the column narrow, with the reason that is told.
#[test]
fn what_keeps_a_column_narrow_is_told_and_keeps_no_statement_from_running() {
    let (_database, mut session) = with_customers();
    session.run("DROP ROLE IF EXISTS narrow_owner; CREATE ROLE narrow_owner; CREATE SCHEMA elsewhere");
    for (before, reason) in [
        ("INSERT INTO orders VALUES (NULL)", "public.orders is not empty"),
        ("CREATE VIEW names AS SELECT customer FROM orders", "cannot alter type of a column used by a view or rule"),
        (
            "CREATE TABLE part () INHERITS (orders); ALTER TABLE part OWNER TO narrow_owner",
            "public.orders or one of its children has another owner",
        ),
        (
            "ALTER TABLE orders ADD UNIQUE (customer); CREATE TABLE elsewhere.part (of integer REFERENCES orders (customer))",
            "elsewhere.part or one of its children is in another schema",
        ),
        (
            "ALTER TABLE orders ADD UNIQUE (customer); CREATE TABLE part (of integer REFERENCES orders (customer)); INSERT INTO part VALUES (NULL)",
            "public.part is not empty",
        ),
    ] {
        session.run("CREATE TABLE orders (customer integer)");
        session.run(before);
        let told = session.run("ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers");
        let warning = format!(
            "WARNING: column \"customer\" of table \"orders\" is narrower than the column that it references (It \
             is unchanged: {reason}.)"
        );
        assert_eq!(told, [warning], "{before}");
        assert_eq!(session.columns("orders"), "customer integer", "{before}");
        let keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid = 'orders'::regclass";
        assert_eq!(session.value(keys), "1", "{before}");
        session.run("DROP TABLE orders CASCADE; DROP TABLE IF EXISTS part, elsewhere.part");
    }
    session.run("DROP ROLE narrow_owner");
}

#[test]
fn only_the_columns_of_the_statement_are_looked_at() {
    let (_database, mut session) = with_customers();
    session.run(
        "SET snowflake_pg.serial_schemas = ''; CREATE TABLE orders (old integer REFERENCES customers, kind text);
         RESET snowflake_pg.serial_schemas; CREATE TABLE kinds (kind text PRIMARY KEY)",
    );
    assert_eq!(session.run("ALTER TABLE orders ADD FOREIGN KEY (kind) REFERENCES kinds"), [""; 0]);
    assert_eq!(session.columns("orders"), "old integer, kind text");
}

/// A key that is made anew would lock the table to which it refers against them.
#[test]
fn readers_of_the_table_to_which_a_new_column_refers_go_on() {
    let (database, mut session) = with_customers();
    session.run("CREATE TABLE empty (customer integer)");
    let mut reader = Session::of(database.config());
    for statement in [
        "CREATE TABLE orders (customer integer REFERENCES customers)",
        "ALTER TABLE empty ADD FOREIGN KEY (customer) REFERENCES customers",
    ] {
        reader.run("BEGIN; SELECT count(*) FROM customers");
        // Only to end a test that hangs.
        session.run(&format!("SET lock_timeout = '20s'; BEGIN; {statement}"));
        reader.run("SELECT count(*) FROM customers; COMMIT");
        session.run("COMMIT");
    }
    assert_eq!((&*session.columns("orders"), &*session.columns("empty")), ("customer bigint", "customer bigint"));
}

/// A column that becomes wider waits for who uses a table that refers to it. A cancel is no reason to keep it narrow.
#[test]
fn a_cancel_ends_a_statement_that_waits_until_a_column_can_become_wider() {
    let (database, mut session) = with_customers();
    session.run(
        "CREATE TABLE orders (customer integer UNIQUE); CREATE TABLE parts (of integer REFERENCES orders (customer))",
    );
    let mut user = Session::of(database.config());
    user.run("BEGIN; LOCK TABLE parts IN ACCESS SHARE MODE");
    // The block goes back to its beginning, and to nothing else.
    let statement = "CREATE TABLE kept (); DO $$ BEGIN
            CREATE TABLE undone (); ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers;
        EXCEPTION WHEN query_canceled THEN
            RAISE NOTICE 'canceled';
        END $$";
    let waiting = thread::spawn(move || (session.run(statement), session));
    let waits = "FROM pg_locks WHERE NOT granted AND relation = 'parts'::regclass";
    database.wait_until(&format!("SELECT count(*) = 1 {waits}"));
    user.run(&format!("SELECT pg_cancel_backend(pid) {waits}"));
    let (told, mut session) = waiting.join().expect("an end");
    assert_eq!(told, ["NOTICE: canceled"]);
    user.run("COMMIT");
    assert_eq!(session.columns("orders"), "customer integer");
    assert_eq!(session.value("SELECT concat(to_regclass('kept'), to_regclass('undone'))"), "kept");
}

#[test]
fn columns_without_a_foreign_key_and_those_with_numbers_elsewhere_stay() {
    let (_database, mut session) = with_customers();
    session.run("CREATE TABLE kinds (id integer PRIMARY KEY)");
    assert_eq!(session.run("CREATE TABLE orders (customer integer, kind integer REFERENCES kinds)"), [""; 0]);
    assert_eq!(session.columns("orders"), "customer integer, kind integer");
}

/// It waits for the one that drops the table, and then says that there is none, as PostgreSQL does.
#[test]
fn a_table_that_is_dropped_meanwhile_is_one_that_does_not_exist() {
    let (database, mut dropping) = with_customers();
    for (before, statement) in [
        ("", "CREATE TABLE orders (customer integer REFERENCES customers)"),
        (
            "CREATE TABLE orders (customer integer)",
            "ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers",
        ),
        ("", "CREATE TABLE orders (id integer) INHERITS (customers)"),
        ("CREATE TABLE orders (id integer)", "ALTER TABLE orders INHERIT customers"),
    ] {
        dropping.run(before);
        dropping.run("BEGIN; DROP TABLE customers");
        let mut session = Session::of(database.config());
        let refused = thread::spawn(move || error(&mut session.client, statement));
        database.wait_until("SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND relation = 'customers'::regclass");
        dropping.run("COMMIT");
        let refused = refused.join().expect("an error");
        assert_eq!(refused.code(), &SqlState::UNDEFINED_TABLE, "{statement}: {refused:?}");
        dropping.run("CREATE TABLE customers (id serial PRIMARY KEY); DROP TABLE IF EXISTS orders");
    }
}
