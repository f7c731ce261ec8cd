//! Whatever a role does, migrations of others go on, also in other databases.

use super::{builder, call, server};
use std::time::Instant;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, PATIENCE, Signal, error, test, value};

const MALLORY: &str = "CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory";

/// Starts a migration of a role whose others do nothing. The worker of `start` may be about to end: it would be taken
/// for one that waits.
fn start(cluster: &Cluster, session: &mut Client, role: &str, table: &str) {
    call(session, &format!("start('{table}')"));
    let workers = format!("FROM pg_stat_activity WHERE backend_type = 'snowflake_adopt' AND usename = '{role}'");
    cluster.wait_until(&format!("SELECT NOT EXISTS (SELECT {workers})"));
}

/// Has a worker copy the rows of a table, or wait for others, and says for what it waits.
fn copy(session: &mut Client, table: &str) -> String {
    session.batch_execute(&format!("SELECT snowflake_adopt.aim('{table}', 'copied', 100, NULL)")).expect("a goal");
    let waits_for = format!("SELECT waits_for FROM snowflake_adopt.progress WHERE relation = '{table}'::regclass");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = value(session, &waits_for);
        if seen == "rows that others have locked" || seen.starts_with("other migrations") {
            return seen;
        }
        assert!(Instant::now() < deadline, "no worker for {table}: {seen}");
        // There may be no slot for one until that one has ended.
        let _ = session.batch_execute(&format!("SELECT snowflake_adopt.has_reached('{table}', 'copied', 'id')"));
    }
}

#[test]
fn no_role_can_lock_what_migrations_of_others_need_or_write_into_it() {
    let (cluster, mut client) = server();
    client.batch_execute(MALLORY).expect("a role");
    let mut mallory = cluster.connect();
    mallory
        .batch_execute("SET SESSION AUTHORIZATION mallory; CREATE TABLE mine (id serial PRIMARY KEY)")
        .expect("a table");
    call(&mut mallory, "start('mine')");
    for table in ["migration", "beside", "copying", "made"] {
        for command in [
            format!("BEGIN; LOCK TABLE snowflake_adopt.{table} IN ACCESS SHARE MODE"),
            format!("SELECT FROM snowflake_adopt.{table} FOR KEY SHARE"),
            format!("DELETE FROM snowflake_adopt.{table}"),
        ] {
            assert_eq!(error(&mut mallory, &command).code().code(), "42501", "{command}");
            mallory.batch_execute("ROLLBACK").expect("the end");
        }
    }
    let foreign = "INSERT INTO snowflake_adopt.copying (migration, relation, filenode, blocks, todo) VALUES ('mine', 'orders', 0, 0, '{}')";
    assert_eq!(error(&mut mallory, foreign).code().code(), "42501");
    // Her own migration, as long as she likes, and what was the lock of a worker.
    mallory
        .batch_execute(
            "SELECT pg_advisory_lock('snowflake_adopt.migration'::regclass::oid::integer, 'orders'::regclass::oid::integer);
             BEGIN; LOCK TABLE mine; SELECT snowflake_adopt.aim('mine', 'copied', NULL, NULL); PREPARE TRANSACTION 'hers'",
        )
        .expect("locks");
    for step in ["start", "run", "finish"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM orders"), "bigint");
    client.batch_execute("ROLLBACK PREPARED 'hers'").expect("no lock");
}

#[test]
fn a_role_has_two_workers_at_most_and_its_migrations_take_turns() {
    let cluster = builder().set("max_worker_processes", 8).start();
    let mut client = cluster.connect();
    client
        .batch_execute(&format!(
            "{MALLORY}; CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; SELECT snowflake_nextval();
             CREATE TABLE orders (id serial PRIMARY KEY); INSERT INTO orders SELECT FROM generate_series(1, 100)"
        ))
        .expect("the extensions");
    let (mut mallory, mut locks) = (cluster.connect(), cluster.connect());
    for session in [&mut mallory, &mut locks] {
        session.batch_execute("SET SESSION AUTHORIZATION mallory").expect("a user");
    }
    let tables = ["m1", "m2", "m3", "m4"];
    for table in tables {
        mallory
            .batch_execute(&format!("CREATE TABLE {table} (id serial PRIMARY KEY); INSERT INTO {table} DEFAULT VALUES"))
            .expect("a table");
        start(&cluster, &mut mallory, "mallory", table);
    }
    // Rows that cannot be copied meanwhile.
    locks.batch_execute("BEGIN; SELECT FROM m1, m2, m3, m4 FOR UPDATE").expect("locks");
    for table in tables {
        copy(&mut mallory, table);
    }
    // Workers that take turns: for a moment there may be one less.
    cluster.wait_until(
        "SELECT count(*) = 2 FROM snowflake_adopt.progress WHERE waits_for = 'other migrations of the role'",
    );
    for step in ["start", "run", "finish"] {
        call(&mut client, &format!("{step}('orders')"));
    }
    // Nobody calls anything for her migrations any more.
    cluster.wait_until("SELECT count(*) = 4 FROM snowflake_adopt.copying");
    let workers = "SELECT count(*) <= 2 FROM pg_locks WHERE locktype = 'object' AND objsubid > 0 AND classid = 'pg_authid'::regclass";
    assert_eq!(value(&mut client, workers), "t");
    locks.batch_execute("COMMIT").expect("no locks");
    for table in tables {
        call(&mut mallory, &format!("finish('{table}')"));
    }
}

#[test]
fn migrations_of_many_roles_have_half_of_the_background_workers_at_most() {
    let cluster = builder().set("max_worker_processes", 6).start();
    let mut client = cluster.connect();
    client
        .batch_execute("CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; SELECT snowflake_nextval()")
        .expect("the extensions");
    let mut locks = cluster.connect();
    locks.batch_execute("BEGIN").expect("a transaction");
    for role in ["ada", "bob", "cyd", "dan"] {
        client
            .batch_execute(&format!(
                "CREATE ROLE {role} LOGIN; GRANT CREATE ON SCHEMA public TO {role}; SET SESSION AUTHORIZATION {role};
                 CREATE TABLE of_{role} (id serial PRIMARY KEY); INSERT INTO of_{role} DEFAULT VALUES"
            ))
            .expect("a table");
        if role != "dan" {
            start(&cluster, &mut client, role, &format!("of_{role}"));
            locks.batch_execute(&format!("SELECT FROM of_{role} FOR UPDATE")).expect("a lock");
        } else {
            client.batch_execute("SELECT snowflake_adopt.begin_migration('of_dan', 'id', false)").expect("a migration");
        }
        let expected = if role == "dan" { "other migrations" } else { "rows that others have locked" };
        assert_eq!(copy(&mut client, &format!("of_{role}")), expected, "{role}");
        client.batch_execute("RESET SESSION AUTHORIZATION").expect("a user");
    }
    cluster.wait_until("SELECT count(*) = 4 FROM snowflake_adopt.copying");
}

#[test]
fn a_prepared_transaction_of_one_database_holds_up_no_migration_of_another_one() {
    let mut cluster = builder().start();
    let mut client = cluster.connect();
    client
        .batch_execute(&format!("{MALLORY}; ALTER ROLE mallory CREATEDB"))
        .and_then(|()| client.batch_execute("CREATE DATABASE hers OWNER mallory"))
        .and_then(|()| client.batch_execute("CREATE DATABASE app"))
        .expect("databases");
    let mut app = cluster.config().dbname("app").connect(NoTls).expect("a session");
    app.batch_execute(
        "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; SELECT snowflake_nextval();
         CREATE TABLE orders (id serial PRIMARY KEY); INSERT INTO orders SELECT FROM generate_series(1, 100)",
    )
    .expect("a table");
    call(&mut app, "start('orders')");
    app.batch_execute("SELECT snowflake_adopt.aim('orders', 'adopted', 100, NULL)").expect("a goal");
    let mut mallory = cluster.connect();
    mallory
        .batch_execute("SET SESSION AUTHORIZATION mallory; BEGIN; ALTER DATABASE hers RENAME TO locked; PREPARE TRANSACTION 'hers'")
        .expect("a lock");
    drop((client, app, mallory));
    cluster.restart(Signal::INT);
    // By the worker alone.
    let mut app = cluster.config().dbname("app").connect(NoTls).expect("a session");
    let kind =
        "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'id'";
    let deadline = Instant::now() + PATIENCE;
    while value(&mut app, kind) != "bigint" {
        assert!(Instant::now() < deadline, "{}", value(&mut app, "SELECT waits_for FROM snowflake_adopt.progress"));
    }
    cluster.connect().batch_execute("ROLLBACK PREPARED 'hers'").expect("no lock");
}
