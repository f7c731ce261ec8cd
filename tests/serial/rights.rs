//! Who can do what: nobody gets a right that he did not have.

use super::{CHANGED, Session, database, gets_ids};
use testbed::{Cluster, error, test};

#[test]
fn who_owns_a_database_or_a_role_chooses_for_it() {
    let cluster = Cluster::builder().worker(7).start();
    for statement in ["CREATE ROLE app LOGIN", "CREATE DATABASE app OWNER app", "CREATE DATABASE other OWNER app"] {
        cluster.connect().batch_execute(statement).expect("a role and its databases");
    }
    let connect = |database: &str| {
        let mut config = cluster.config();
        config.dbname(database);
        config
    };
    for database in ["app", "other"] {
        Session::of(connect(database))
            .run("CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids; GRANT USAGE ON SCHEMA ids TO PUBLIC");
    }
    let of_app = |database: &str| {
        let mut config = connect(database);
        Session::of(config.user("app").clone())
    };
    let is_changed = |database: &str| {
        let mut session = of_app(database);
        session.run("CREATE TABLE orders (id serial)");
        let is_changed = session.columns("orders") == CHANGED;
        session.run("DROP TABLE orders");
        is_changed
    };
    of_app("app").run("ALTER DATABASE app SET snowflake_pg.serial_schemas = '*'");
    assert_eq!(["app", "other"].map(is_changed), [true, false]);
    of_app("app").run("ALTER DATABASE app RESET snowflake_pg.serial_schemas; ALTER ROLE app SET snowflake_pg.serial_schemas = 'public'");
    assert_eq!(["app", "other"].map(is_changed), [true, true]);
}

/// A CHECK with constants is evaluated when a table is rewritten, though it is empty.
#[test]
fn a_superuser_who_adds_a_foreign_key_runs_no_code_of_the_owner_with_more_rights_than_the_owner_has() {
    let (_database, mut session) = database();
    session.run(
        "DROP ROLE IF EXISTS fk_owner; CREATE ROLE fk_owner; CREATE SCHEMA theirs AUTHORIZATION fk_owner; GRANT USAGE ON SCHEMA ids TO fk_owner;
         CREATE TABLE customers (id serial PRIMARY KEY); GRANT REFERENCES ON customers TO fk_owner;
         SET ROLE fk_owner; SET search_path = theirs, public;
         CREATE TABLE seen (who text);
         CREATE FUNCTION look(bigint) RETURNS integer LANGUAGE plpgsql IMMUTABLE
             AS 'BEGIN RAISE WARNING ''run as %'', current_user; RETURN 1; END';
         CREATE TABLE orders (customer integer CHECK (look(1) = 1), UNIQUE (customer));
         CREATE INDEX ON orders ((look(1) + customer))",
    );
    let add = "ALTER TABLE theirs.orders ADD FOREIGN KEY (customer) REFERENCES public.customers";
    let ran_as =
        |told: &[String], who: &str| told.iter().filter(|line| **line == format!("WARNING: run as {who}")).count();
    // PostgreSQL's own ALTER TABLE evaluates constants in the expressions of an index.
    session.run("RESET ROLE; SET snowflake_pg.serial_schemas = ''");
    let plain = session.run(&format!("BEGIN; {add}; ROLLBACK"));
    let told = session.run(&format!("SET snowflake_pg.serial_schemas = '*'; {add}"));
    assert!(told.iter().any(|line| line.contains("becomes bigint")), "{told:?}");
    assert!(ran_as(&told, "fk_owner") > ran_as(&plain, "fk_owner"), "{plain:?} {told:?}");
    assert!(ran_as(&told, "postgres") <= ran_as(&plain, "postgres"), "{plain:?} {told:?}");
    session.run("DROP OWNED BY fk_owner; DROP ROLE fk_owner");
}

#[test]
fn who_does_not_own_a_table_changes_nothing_of_it() {
    let (_database, mut session) = database();
    session.run(
        "DROP ROLE IF EXISTS passer_by; CREATE ROLE passer_by; GRANT USAGE ON SCHEMA ids TO passer_by;
         CREATE TABLE customers (id serial PRIMARY KEY); GRANT ALL ON customers TO passer_by; CREATE TABLE orders (customer integer);
         SET ROLE passer_by",
    );
    for statement in [
        "ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers",
        "ALTER TABLE orders ADD id serial",
        "SELECT ids.snowflake_finish_table('orders', true, true)",
    ] {
        // The last one has nothing to do.
        if statement.starts_with("SELECT") {
            session.run(statement);
        } else {
            let error = error(&mut session.client, statement);
            assert_eq!(error.message(), "must be owner of table orders", "{statement}");
        }
        assert_eq!(session.columns("orders"), "customer integer", "{statement}");
    }
    session.run("RESET ROLE; ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers");
    session.run("ALTER TABLE orders ALTER customer TYPE integer; SET ROLE passer_by");
    let told = session.run("SELECT ids.snowflake_finish_table('orders', true, true)");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("WARNING: column \"customer\" of table \"orders\" is too narrow"), "{told:?}");
    assert_eq!(session.columns("orders"), "customer integer");
    session.run("RESET ROLE; DROP OWNED BY passer_by; DROP ROLE passer_by");
}

#[test]
fn a_table_that_its_maker_gives_away_has_the_rights_of_its_maker() {
    let (_database, mut session) = database();
    session.run("DROP ROLE IF EXISTS table_maker; CREATE ROLE table_maker; GRANT USAGE ON SCHEMA ids TO table_maker; GRANT CREATE ON SCHEMA public TO table_maker; SET ROLE table_maker");
    assert_eq!(session.run("CREATE TABLE orders (id serial)"), [gets_ids("orders")]);
    assert_eq!(session.value("SELECT relowner::regrole FROM pg_class WHERE oid = 'orders'::regclass"), "table_maker");
    session.run("INSERT INTO orders DEFAULT VALUES; RESET ROLE; DROP OWNED BY table_maker; DROP ROLE table_maker");
}
