//! Code of the owner of a table runs while its rows are copied. It finds the session as any other command does.

use super::{call, server};
use testbed::{test, value};

/// A bank that lets everybody pay and charge, but writes it down, wants an account, and limits charges by a rule.
const BANK: &str = "
    CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; GRANT pg_execute_server_program TO mallory;
    CREATE TABLE account (id integer PRIMARY KEY); INSERT INTO account VALUES (1);
    CREATE TABLE payment (account integer REFERENCES account); CREATE TABLE audit (who name);
    CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
        'BEGIN INSERT INTO public.audit VALUES (session_user); RETURN NEW; END';
    CREATE TRIGGER audit AFTER INSERT ON payment FOR EACH ROW EXECUTE FUNCTION audit();
    CREATE TABLE charge (most integer); INSERT INTO charge VALUES (0); CREATE VIEW charges AS SELECT most FROM charge;
    CREATE RULE no_more AS ON UPDATE TO charges DO INSTEAD UPDATE charge SET most = least(NEW.most, 100);
    GRANT INSERT ON payment TO mallory; GRANT SELECT, UPDATE ON charges TO mallory";

/// What she calls, from everywhere: directly, and in all ways by which one command runs another one.
const MALLORY: &str = "
    SET SESSION AUTHORIZATION mallory;
    CREATE TABLE seen (place text, who name, mode text); CREATE TABLE later (place text);
    CREATE PROCEDURE pay(place text) LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.seen VALUES (place, current_user, current_setting('session_replication_role'));
        INSERT INTO public.payment VALUES (1);
        UPDATE public.charges SET most = 5000;
        BEGIN
            INSERT INTO public.payment VALUES (99);
        EXCEPTION WHEN foreign_key_violation THEN
        END;
    END $$;
    CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN CALL public.pay('deferred in ' || NEW.place); RETURN NEW; END $$;
    CREATE CONSTRAINT TRIGGER later AFTER INSERT ON later DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION later();
    CREATE FUNCTION probe(place text) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        CALL public.pay(place);
        EXECUTE format('DO %L', format('BEGIN CALL public.pay(%L); END', place || ' in DO'));
        COPY public.payment FROM PROGRAM 'echo 1';
        BEGIN
            SET CONSTRAINTS ALL DEFERRED;
            INSERT INTO public.later VALUES (place);
        EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
            -- PostgreSQL refuses what would run when the restricted operation is over.
        END;
        SET CONSTRAINTS ALL IMMEDIATE;
        INSERT INTO public.later VALUES (place);
        RETURN true;
    END $$;
    CREATE FUNCTION number(place text, n integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN PERFORM public.probe(place); RETURN n; END';
    CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.probe(TG_NAME); RETURN NEW; END';
    CREATE DOMAIN odd AS integer CHECK (probe('domain'));
    CREATE TABLE orders_of_mine (id serial PRIMARY KEY, n integer DEFAULT 1, CHECK (probe('check')), CHECK (id::odd IS NOT NULL),
        g integer GENERATED ALWAYS AS (number('generated', n)) STORED,
        wide text DEFAULT repeat('x', 3000)) WITH (autovacuum_enabled = off);
    -- A page has room for two rows, so a new version of a row needs entries in all indexes.
    ALTER TABLE orders_of_mine ALTER wide SET STORAGE PLAIN;
    CREATE INDEX expression ON orders_of_mine (number('index', n));
    CREATE INDEX predicate ON orders_of_mine (n) WHERE number('predicate', n) > 0;
    CREATE TRIGGER fired_always BEFORE UPDATE ON orders_of_mine FOR EACH ROW EXECUTE FUNCTION fired();
    CREATE TRIGGER fired_as_replica AFTER UPDATE ON orders_of_mine FOR EACH ROW EXECUTE FUNCTION fired();
    CREATE TRIGGER fired_for_all AFTER UPDATE ON orders_of_mine REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION fired();
    ALTER TABLE orders_of_mine ENABLE ALWAYS TRIGGER fired_always, ENABLE REPLICA TRIGGER fired_as_replica, ENABLE ALWAYS TRIGGER fired_for_all;
    CREATE RULE also AS ON UPDATE TO orders_of_mine DO ALSO SELECT probe('rule');
    ALTER TABLE orders_of_mine ENABLE ALWAYS RULE also;
    CREATE POLICY all_rows ON orders_of_mine USING (probe('policy')); ALTER TABLE orders_of_mine ENABLE ROW LEVEL SECURITY";

#[test]
fn code_of_the_owner_gets_around_no_trigger_foreign_key_or_rule_of_others_while_rows_are_copied() {
    let (cluster, mut client) = server();
    client.batch_execute(BANK).expect("a bank");
    let mut mallory = cluster.connect();
    mallory.batch_execute(MALLORY).expect("a table");
    mallory.batch_execute("INSERT INTO orders_of_mine (n) VALUES (1), (1), (1)").expect("rows");
    call(&mut mallory, "start('orders_of_mine')");
    mallory.batch_execute("DELETE FROM seen").expect("nothing seen");
    call(&mut mallory, "run('orders_of_mine', share => 100)");
    let seen = value(&mut mallory, "SELECT string_agg(DISTINCT place, ', ' ORDER BY place) FROM seen");
    let all = "check, check in DO, deferred in check";
    assert!(
        seen.starts_with(all) && ["index", "predicate", "domain"].iter().all(|place| seen.contains(place)),
        "{seen}"
    );
    assert!(!["fired", "rule", "policy"].iter().any(|place| seen.contains(place)), "{seen}");
    assert_eq!(value(&mut mallory, "SELECT string_agg(DISTINCT who || ' ' || mode, ', ') FROM seen"), "mallory origin");
    assert_eq!(value(&mut client, "SELECT count(*) FILTER (WHERE account = 99) FROM payment"), "0");
    assert_eq!(value(&mut client, "SELECT (SELECT count(*) FROM payment) - (SELECT count(*) FROM audit)"), "0");
    assert_eq!(value(&mut client, "SELECT most FROM charge"), "100");
    let left = "SELECT count(*) FROM orders_of_mine WHERE snowflake_adopt_id IS DISTINCT FROM id";
    assert_eq!(value(&mut client, left), "0");
}

/// Whoever may refer to the column beside a key has a foreign key that holds.
#[test]
fn a_foreign_key_of_others_to_the_column_beside_a_key_holds_while_rows_are_copied() {
    let (cluster, mut client) = server();
    client.batch_execute(BANK).expect("roles");
    let mut mallory = cluster.connect();
    mallory
        .batch_execute("SET SESSION AUTHORIZATION mallory; CREATE TABLE mine (id serial PRIMARY KEY); GRANT REFERENCES ON mine TO PUBLIC; INSERT INTO mine DEFAULT VALUES")
        .expect("a table");
    call(&mut mallory, "start('mine')");
    mallory
        .batch_execute(
            "ALTER TABLE mine DISABLE TRIGGER \"~snowflake_adopt\"; UPDATE mine SET snowflake_adopt_id = 99;
             ALTER TABLE mine ADD UNIQUE (snowflake_adopt_id), ENABLE ALWAYS TRIGGER \"~snowflake_adopt\"",
        )
        .expect("another number");
    client
        .batch_execute(
            "CREATE TABLE theirs (mine bigint REFERENCES mine (snowflake_adopt_id)); INSERT INTO theirs VALUES (99)",
        )
        .expect("a reference");
    super::launch(&mut client, "mine", "copied", "100");
    cluster.wait_until("SELECT failures > 0 FROM snowflake_adopt.migration");
    assert_eq!(value(&mut client, "SELECT count(*) FROM theirs JOIN mine ON mine = snowflake_adopt_id"), "1");
}
