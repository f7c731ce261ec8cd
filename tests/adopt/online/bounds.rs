//! Code of an owner can wait for ever, and would keep a worker from other migrations of whoever adopts the table.

use super::{call, server};
use testbed::{PATIENCE, error, test, value};

/// Waits for a lock that the session has.
const SLOW: &str = "
    CREATE ROLE bob; GRANT CREATE ON SCHEMA public TO bob; SET ROLE bob;
    CREATE FUNCTION waits(n integer) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        LOOP
            BEGIN
                PERFORM pg_advisory_xact_lock_shared(7);
                RETURN true;
            EXCEPTION WHEN {} THEN NULL;
            END;
        END LOOP;
    END $$;
    CREATE TABLE slow (id serial PRIMARY KEY, n integer CHECK (waits(n))); INSERT INTO slow (n) VALUES (1), (2); RESET ROLE;
    SELECT pg_advisory_lock(7)";

#[test]
fn a_step_that_takes_too_long_pauses_its_migration_and_gives_its_worker_back() {
    let (cluster, mut client) = server();
    client.batch_execute(&SLOW.replace("{}", "division_by_zero")).expect("a table");
    call(&mut client, "start('slow')");
    client.batch_execute(&format!("SET statement_timeout = {}", PATIENCE.as_millis())).expect("a setting");
    let refused = error(&mut client, "CALL snowflake_adopt.run('slow', max_step => '200 ms')");
    assert_eq!(refused.message(), "the migration of public.slow is paused");
    assert_eq!(refused.detail(), Some("a step took longer than max_step, which is 00:00:00.2"));
    cluster.wait_until("SELECT snowflake_adopt.carrier('slow'::regclass) IS NULL");
    client.batch_execute("SELECT pg_advisory_unlock(7)").expect("no lock");
    call(&mut client, "run('slow', max_step => '1 h')");
    call(&mut client, "finish('slow')");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM slow"), "bigint");
}

#[test]
fn code_that_catches_what_cancels_it_does_not_keep_a_worker() {
    let (cluster, mut client) = server();
    client.batch_execute(&SLOW.replace("{}", "query_canceled")).expect("a table");
    call(&mut client, "start('slow')");
    client.batch_execute(&format!("SET statement_timeout = {}", PATIENCE.as_millis())).expect("a setting");
    let refused = error(&mut client, "CALL snowflake_adopt.run('slow', max_step => '200 ms')");
    assert_eq!(refused.detail(), Some("the background worker has ended three times in phase rows"));
    cluster.wait_until("SELECT snowflake_adopt.carrier('slow'::regclass) IS NULL");
    call(&mut client, "undo('slow')");
}
