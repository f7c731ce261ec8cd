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
        session.run("CREATE TABLE orders (id bigserial)");
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
fn a_superuser_who_adds_a_foreign_key_runs_no_code_of_others_with_more_rights_than_they_have() {
    let (_database, mut session) = database();
    session.run(
        "DROP ROLE IF EXISTS fk_owner; CREATE ROLE fk_owner; CREATE SCHEMA theirs AUTHORIZATION fk_owner; GRANT USAGE ON SCHEMA ids TO fk_owner;
         CREATE TABLE customers (id serial PRIMARY KEY); CREATE TABLE parent (customer integer); CREATE TABLE child () INHERITS (parent);
         CREATE TABLE parts (customer integer) PARTITION BY LIST (customer); CREATE TABLE part PARTITION OF parts DEFAULT;
         CREATE TABLE special (id integer PRIMARY KEY);
         ALTER TABLE child OWNER TO fk_owner; ALTER TABLE part OWNER TO fk_owner; GRANT REFERENCES ON customers, special TO fk_owner;
         SET ROLE fk_owner; SET search_path = theirs, public;
         CREATE FUNCTION look(bigint) RETURNS integer LANGUAGE plpgsql IMMUTABLE
             AS 'BEGIN RAISE WARNING ''run as %'', current_user; RETURN 1; END';
         CREATE TABLE orders (customer integer CHECK (look(1) = 1 OR customer > 0), UNIQUE (customer));
         ALTER TABLE child ADD CHECK (look(1) = 1 OR customer > 0); ALTER TABLE part ADD CHECK (look(1) = 1 OR customer > 0);
         CREATE TABLE source (customer integer CHECK (look(4) = 1 OR customer > 0));
         CREATE TABLE attached (customer integer NOT NULL CHECK (look(6) = 1 OR customer > 0));
         CREATE TABLE refers (x integer REFERENCES special); CREATE INDEX ON refers ((look(5) + x))",
    );
    session.run("RESET ROLE; RESET search_path; CREATE TABLE whole (customer serial)");
    for statement in [
        "ALTER TABLE theirs.attached INHERIT whole",
        "ALTER TABLE theirs.orders ADD FOREIGN KEY (customer) REFERENCES customers",
        "ALTER TABLE parent ADD FOREIGN KEY (customer) REFERENCES customers",
        "ALTER TABLE parts ADD FOREIGN KEY (customer) REFERENCES customers",
        "ALTER TABLE special ADD FOREIGN KEY (id) REFERENCES customers",
        "CREATE TABLE mine (LIKE theirs.source INCLUDING CONSTRAINTS, FOREIGN KEY (customer) REFERENCES customers)",
    ] {
        let told = session.run(statement);
        assert!(!told.contains(&"WARNING: run as postgres".to_owned()), "{statement}: {told:?}");
        let is_widened = told.iter().any(|line| line.contains("becomes bigint"));
        assert_eq!(
            is_widened,
            statement.contains("theirs.orders") || statement.contains("theirs.attached"),
            "{statement}: {told:?}"
        );
        assert_eq!(is_widened, told.contains(&"WARNING: run as fk_owner".to_owned()), "{statement}: {told:?}");
    }
    session.run("DROP OWNED BY fk_owner CASCADE; DROP ROLE fk_owner");
}

#[test]
fn who_does_not_own_a_table_changes_nothing_of_it() {
    let (_database, mut session) = database();
    session.run(
        "DROP ROLE IF EXISTS passer_by; CREATE ROLE passer_by; GRANT USAGE ON SCHEMA ids TO passer_by;
         CREATE TABLE customers (id serial PRIMARY KEY); GRANT ALL ON customers TO passer_by; CREATE TABLE orders (customer integer);
         CREATE SCHEMA theirs AUTHORIZATION passer_by; SET ROLE passer_by;
         CREATE TABLE theirs.parts (customer serial) PARTITION BY RANGE (customer)",
    );
    for statement in [
        "ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers",
        "ALTER TABLE orders ADD id serial",
        "ALTER TABLE theirs.parts ATTACH PARTITION orders DEFAULT",
    ] {
        let error = error(&mut session.client, statement);
        assert_eq!(error.message(), "must be owner of table orders", "{statement}");
        assert_eq!(session.columns("orders"), "customer integer", "{statement}");
    }
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

/// Without the error that PostgreSQL would raise, and without one of ours.
#[test]
fn what_the_extension_lacks_keeps_no_statement_from_running() {
    let (_database, mut session) = database();
    session.run(
        "CREATE SCHEMA extra; ALTER EXTENSION snowflake_pg SET SCHEMA extra; CREATE TABLE big (id bigint PRIMARY KEY)",
    );
    session.run("DROP ROLE IF EXISTS lacking; CREATE ROLE lacking; GRANT USAGE ON SCHEMA extra TO lacking; GRANT REFERENCES ON big TO lacking; CREATE SCHEMA lacking AUTHORIZATION lacking");
    let tables = "CREATE TABLE t (id serial, big integer REFERENCES public.big); DROP TABLE t";
    for (before, after, detail) in [
        (
            "CREATE FUNCTION extra.snowflake_id(x integer DEFAULT 1) RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
            "DROP FUNCTION extra.snowflake_id(integer)",
            "This database does not have extension snowflake_pg, or has another snowflake_id() beside the extension's.",
        ),
        (
            "REVOKE EXECUTE ON FUNCTION extra.snowflake_id() FROM PUBLIC",
            "GRANT EXECUTE ON FUNCTION extra.snowflake_id() TO PUBLIC",
            "You lack USAGE on the schema of the extension, or EXECUTE on its functions.",
        ),
        (
            "REVOKE USAGE ON SCHEMA extra FROM lacking",
            "GRANT USAGE ON SCHEMA extra TO lacking",
            "You lack USAGE on the schema of the extension, or EXECUTE on its functions.",
        ),
    ] {
        session.run(before);
        let told = session.run(&format!("SET ROLE lacking; SET search_path = lacking; {tables}"));
        let warning = format!("WARNING: column \"id\" of table \"t\" gets no Snowflake IDs ({detail})");
        assert_eq!(told, [warning], "{before}");
        session.run(&format!("RESET ROLE; RESET search_path; {after}"));
    }
    let told = session.run(&format!("SET ROLE lacking; SET search_path = lacking; {tables}"));
    assert_eq!(
        told,
        [gets_ids("t"), "NOTICE: column \"big\" of table \"t\" becomes bigint (It references a bigint.)".to_owned()]
    );
    session.run("RESET ROLE; DROP OWNED BY lacking; DROP ROLE lacking");
}

#[test]
fn nothing_is_said_of_columns_where_postgresql_refuses_the_statement() {
    let (_database, mut session) = database();
    session.run(
        "DROP ROLE IF EXISTS refused; CREATE ROLE refused; GRANT USAGE ON SCHEMA ids TO refused; CREATE SCHEMA secret;
         CREATE SCHEMA mine AUTHORIZATION refused; CREATE TABLE secret.customers (id serial PRIMARY KEY);
         CREATE TABLE customers (id serial PRIMARY KEY); CREATE TABLE orders (customer integer);
         SET ROLE refused; SET search_path = mine, public",
    );
    for (statement, message) in [
        ("CREATE TABLE t (customer integer REFERENCES secret.customers)", "permission denied for schema secret"),
        ("CREATE TABLE t (customer integer REFERENCES customers)", "permission denied for table customers"),
        ("CREATE TABLE t (id bigserial, customer integer REFERENCES nowhere)", "relation \"nowhere\" does not exist"),
        ("CREATE TABLE secret.t (id bigserial)", "permission denied for schema secret"),
        ("ALTER TABLE orders ADD id bigserial", "must be owner of table orders"),
    ] {
        let error = error(&mut session.client, statement);
        assert_eq!(error.message(), message, "{statement}");
        assert_eq!(session.run("SELECT"), [""; 0], "{statement}");
    }
    session.run("RESET ROLE; RESET search_path; DROP OWNED BY refused CASCADE; DROP ROLE refused");
}
