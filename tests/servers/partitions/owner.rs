//! As whom it makes partitions: the owner of the table, whose code PostgreSQL evaluates meanwhile.

use super::{create, rows, server};
use testbed::postgres::Client;
use testbed::{Cluster, error, test, value};

/// Where the role `app` has code that writes down as whom it runs, whatever it says that it does.
fn server_with_a_spy() -> (Cluster, Client) {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE app;
             GRANT CREATE ON SCHEMA public TO app;
             CREATE TABLE seen (place text, role text, path text);
             GRANT INSERT ON seen TO PUBLIC;
             SET ROLE app;
             CREATE FUNCTION note(place text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
                 BEGIN
                     INSERT INTO public.seen VALUES (place, current_user, current_setting('search_path'));
                     PERFORM set_config('lock_timeout', '1h', false);
                     RETURN -1;
                 END $$;
             CREATE FUNCTION spy(place text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS
                 $$ BEGIN RETURN (SELECT public.note(place)); END $$",
        )
        .expect("a role with code of its own");
    (cluster, client)
}

#[test]
fn nothing_of_the_owners_runs_as_a_superuser_who_has_the_partitions_made() {
    let (cluster, mut client) = server_with_a_spy();
    let (mut seen, mut expected) = (Vec::new(), Vec::new());
    for (place, table) in [
        ("check", "CREATE TABLE orders (id bigint CHECK (id > spy('check'))) PARTITION BY RANGE (id)"),
        (
            "domain",
            "CREATE DOMAIN number AS bigint CHECK (value > spy('domain'));
             CREATE TABLE orders (id number) PARTITION BY RANGE (id)",
        ),
        (
            "expression",
            "CREATE TABLE orders (id bigint) PARTITION BY RANGE (id);
             CREATE INDEX ON orders ((id + spy('expression')))",
        ),
        (
            "predicate",
            "CREATE TABLE orders (id bigint) PARTITION BY RANGE (id);
             CREATE INDEX ON orders (id) WHERE id > spy('predicate')",
        ),
        (
            "default partition",
            "CREATE TABLE orders (id bigint) PARTITION BY RANGE (id);
             CREATE TABLE rest PARTITION OF orders DEFAULT;
             ALTER TABLE rest ADD CHECK (id > spy('default partition'))",
        ),
    ] {
        client.batch_execute(&format!("SET ROLE app; {table}; RESET ROLE; TRUNCATE seen")).expect(place);
        // What one session has evaluated, it may keep.
        let mut superuser = cluster.connect();
        assert_eq!(create(&mut superuser, "'orders', '1 day', 1").len(), 2, "{place}");
        seen.extend(rows(&mut client, "SELECT DISTINCT place, role, path FROM seen"));
        expected.push(format!("{place}|app|pg_catalog, pg_temp"));
        assert_eq!(value(&mut superuser, "SELECT current_user"), "postgres");
        assert_eq!(value(&mut superuser, "SHOW lock_timeout"), "0", "{place}");
        client.batch_execute("DROP TABLE orders").expect(place);
    }
    assert_eq!(seen, expected);
}

#[test]
fn the_owners_code_defers_nothing_and_an_error_restores_the_callers_rights() {
    let (_cluster, mut client) = server_with_a_spy();
    client
        .batch_execute(
            "CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM public.spy('later'); RETURN NULL; END $$;
             CREATE TABLE trap (n integer);
             CREATE CONSTRAINT TRIGGER later AFTER INSERT ON trap INITIALLY DEFERRED FOR EACH ROW
                 EXECUTE FUNCTION later();
             CREATE TABLE orders (id bigint CHECK (id > spy('check'))) PARTITION BY RANGE (id);
             CREATE OR REPLACE FUNCTION note(place text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS
                 $$ BEGIN INSERT INTO public.trap VALUES (1); RETURN -1; END $$;
             RESET ROLE",
        )
        .expect("a trap");
    let call = "snowflake_create_partitions('orders', '1 day', 0)";
    let refusal = error(&mut client, &format!("SELECT {call}"));
    assert_eq!(refusal.message(), "cannot fire deferred trigger within security-restricted operation");
    client
        .batch_execute(&format!(
            "CREATE TEMPORARY TABLE caught (role text);
             DO $$ BEGIN
                 PERFORM {call};
             EXCEPTION WHEN insufficient_privilege THEN
                 CREATE TEMPORARY TABLE another (n integer);
                 INSERT INTO caught VALUES (current_user);
             END $$"
        ))
        .expect("an error that is caught");
    assert_eq!(rows(&mut client, "SELECT role, current_user FROM caught"), ["postgres|postgres"]);
}

#[test]
fn the_owner_must_be_allowed_to_make_them_whoever_calls() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE app; CREATE SCHEMA shop;
             CREATE TABLE shop.orders (id bigint) PARTITION BY RANGE (id);
             ALTER TABLE shop.orders OWNER TO app;
             GRANT USAGE ON SCHEMA shop TO app",
        )
        .expect("a table in a schema of another role");
    let refusal = error(&mut client, "SELECT snowflake_create_partitions('shop.orders', '1 day', 0)");
    assert_eq!((refusal.code().code(), refusal.message()), ("42501", "permission denied for schema shop"));
    client.batch_execute("GRANT CREATE ON SCHEMA shop TO app").expect("what is missing");
    assert_eq!(create(&mut client, "'shop.orders', '1 day', 0").len(), 1);
}

#[test]
fn partitions_belong_to_the_owner_of_their_table_whoever_of_those_who_may_has_them_made() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE app; CREATE ROLE member IN ROLE app; CREATE ROLE stranger;
             GRANT CREATE ON SCHEMA public TO app;
             CREATE TABLE orders (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
             CREATE INDEX ON orders (abs(id));
             ALTER TABLE orders OWNER TO app;
             GRANT ALL ON orders TO stranger",
        )
        .expect("roles");
    for (role, ahead) in [("postgres", 0), ("app", 1), ("member", 2)] {
        client.batch_execute(&format!("SET ROLE {role}")).expect("a role");
        assert_eq!(create(&mut client, &format!("'orders', '1 day', {ahead}")).len(), 1, "{role}");
        client.batch_execute("RESET ROLE").expect("the first role");
    }
    assert_eq!(
        rows(
            &mut client,
            "SELECT DISTINCT relowner::regrole FROM pg_class WHERE relname LIKE 'orders%' AND relkind IN ('r', 'p', 'i', 'I')"
        ),
        ["app"]
    );
    // Who may not, can't even wait for the lock.
    let mut locker = cluster.connect();
    locker.batch_execute("BEGIN; LOCK TABLE orders IN SHARE UPDATE EXCLUSIVE MODE").expect("a lock");
    client.batch_execute("SET ROLE stranger; SET lock_timeout = '30s'").expect("a role");
    let refusal = error(&mut client, "SELECT snowflake_create_partitions('orders', '1 day', 9)");
    assert_eq!((refusal.code().code(), refusal.message()), ("42501", "must be owner of table orders"));
}

/// Such a lock keeps the owner from ALTER TABLE and DROP TABLE.
#[test]
fn only_who_may_read_a_table_or_scan_all_can_hold_a_lock_on_it_by_looking_at_its_partitions() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE stranger; CREATE ROLE reader; CREATE ROLE monitor IN ROLE pg_monitor;
             CREATE TABLE orders (id bigint PRIMARY KEY) PARTITION BY RANGE (id); GRANT SELECT ON orders TO reader",
        )
        .expect("roles");
    let call = "SELECT snowflake_partitions('orders')";
    let mut locker = cluster.connect();
    locker.batch_execute("BEGIN; LOCK TABLE orders").expect("a lock");
    client.batch_execute("SET ROLE stranger; SET lock_timeout = '30s'").expect("a role");
    let refusal = error(&mut client, call);
    assert_eq!((refusal.code().code(), refusal.message()), ("42501", "permission denied for table orders"));
    locker.batch_execute("COMMIT").expect("the end of the lock");
    for role in ["reader", "monitor"] {
        client.batch_execute(&format!("SET ROLE {role}")).expect("a role");
        client.batch_execute(call).unwrap_or_else(|error| panic!("{role}: {error:?}"));
    }
    let missing = error(&mut client, "SELECT snowflake_partitions(1::oid)");
    assert_eq!((missing.code().code(), missing.message()), ("42P01", "relation with OID 1 does not exist"));
}
