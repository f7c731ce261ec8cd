//! A copy of a database has its worker ID, and must not issue its IDs.

use super::{install, server};
use std::process::Command;
use testbed::postgres::Client;
use testbed::{Cluster, Installation, error, hosted_script, test, value};

fn is_refused_as_a_copy(client: &mut Client) {
    let refused = error(client, "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "55000", "{refused:?}");
    assert_eq!(refused.message(), "this database is a copy of another one with the same worker ID");
    let status = "SELECT state || ': ' || split_part(problem, '.', 1) FROM snowflake_status";
    assert_eq!(value(client, status), "not started: This database is a copy of another one with the same worker ID");
}

/// Restores a dump of the database `from` into the database `to` of another server or the same.
fn restore(from: &Cluster, to: &Cluster, name: &str) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut pg_dump = Command::new(from.bindir().join("pg_dump"));
    let dumped =
        pg_dump.arg("--file").arg(file.path()).arg("postgres").envs(from.environment()).output().expect("pg_dump");
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    let restored = to.psql().args(["--set=ON_ERROR_STOP=1", "--dbname", name, "--file"]).arg(file.path()).output();
    let restored = restored.expect("psql");
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
}

fn connect_to(cluster: &Cluster, name: &str) -> Client {
    cluster.config().dbname(name).connect(testbed::postgres::NoTls).expect("a session")
}

#[test]
fn a_restored_dump_and_a_database_made_from_a_template_issue_no_id_until_they_have_a_worker() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer,
                 at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'flat')) STORED);
             CREATE INDEX ON orders (snowflake_timestamp(id, 'flat'));
             CREATE VIEW today AS SELECT * FROM orders WHERE snowflake_within(id, now() - interval '1 day');
             INSERT INTO orders (n) SELECT generate_series(1, 100)",
        )
        .expect("tables");
    client.batch_execute("CREATE DATABASE restored").expect("a database");
    let other = Cluster::builder().start();
    restore(&cluster, &other, "postgres");
    restore(&cluster, &cluster, "restored");
    let highest: i64 = value(&mut client, "SELECT max(id) FROM orders").parse().expect("an ID");
    drop(client);
    let mut admin = connect_to(&cluster, "restored");
    admin.batch_execute("CREATE DATABASE made TEMPLATE postgres").expect("a database");
    let copies = [other.connect(), connect_to(&cluster, "restored"), connect_to(&cluster, "made")];
    for (mut copy, worker) in copies.into_iter().zip(8..) {
        assert_eq!(value(&mut copy, "SELECT count(*) FROM today"), "100");
        is_refused_as_a_copy(&mut copy);
        copy.execute(&format!("SELECT snowflake_set_worker_id({worker})"), &[]).expect("a worker");
        let id: i64 = value(&mut copy, "INSERT INTO orders (n) VALUES (101) RETURNING id").parse().expect("an ID");
        assert!(id > highest);
        assert_eq!(value(&mut copy, &format!("SELECT worker_id FROM snowflake_decode({id})")), worker.to_string());
    }
    value(&mut cluster.connect(), "SELECT snowflake_nextval()");
}

#[test]
fn the_script_can_run_again_and_in_any_schema_and_loses_nothing() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client
        .batch_execute("CREATE ROLE builder LOGIN; CREATE SCHEMA \"My IDs\"; SET search_path = \"My IDs\"")
        .expect("a schema");
    client.batch_execute("CREATE DATABASE shop OWNER builder").expect("a database");
    let before = value(&mut client, "SHOW search_path");
    install(&mut client, 5);
    let id = value(&mut client, "SELECT snowflake_nextval()");
    let objects = "SELECT string_agg(pg_describe_object(classid, objid, 0), ', ' ORDER BY classid, objid) FROM pg_depend WHERE refobjid = '\"My IDs\"'::regnamespace";
    let all = value(&mut client, objects);
    client.batch_execute(&hosted_script()).expect("once more");
    assert_eq!(value(&mut client, objects), all);
    assert_eq!(value(&mut client, "SHOW search_path"), before);
    client.batch_execute("RESET search_path").expect("a setting");
    let next = "SELECT \"My IDs\".snowflake_nextval()";
    assert!(value(&mut client, next) > id);
    assert_eq!(value(&mut client, "SELECT worker_id FROM \"My IDs\".snowflake_status"), "5");
    // By the owner of a database, who is no superuser, and in one transaction with other things.
    let mut owner =
        cluster.config().dbname("shop").user("builder").connect(testbed::postgres::NoTls).expect("a session");
    owner
        .batch_execute(&format!(
            "CREATE SCHEMA ids; SET search_path = ids; BEGIN; CREATE TABLE a (); {}; CREATE TABLE b (); COMMIT",
            hosted_script()
        ))
        .expect("a migration");
    owner.batch_execute("SELECT snowflake_set_worker_id(6)").expect("a worker");
    value(&mut owner, "SELECT snowflake_nextval()");
}

/// A project's migration is for servers with the extension and for others.
#[test]
fn the_script_does_nothing_beside_the_extension_in_its_schema_and_is_refused_in_another() {
    let database = Cluster::builder().worker(7).database();
    let mut client = database.connect();
    client
        .batch_execute("CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids; SET search_path = ids")
        .expect("the extension");
    let before = value(&mut client, "SELECT count(*) FROM pg_proc");
    client.batch_execute(&hosted_script()).expect("nothing");
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_proc"), before);
    assert_eq!(value(&mut client, "SHOW search_path"), "ids");
    client.batch_execute("SET search_path = public").expect("another schema");
    let refused = error(&mut client, &hosted_script());
    assert_eq!(
        (refused.code().code(), refused.message()),
        ("55000", "the extension snowflake_pg has these functions in schema ids")
    );
    client.batch_execute("ALTER EXTENSION snowflake_pg SET SCHEMA public").expect("as the HINT says");
    client.batch_execute(&hosted_script()).expect("nothing");
}

/// PostgreSQL would show the whole script as the context of its error.
#[test]
fn a_script_that_fails_says_in_a_few_lines_where_and_changes_nothing() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    for (in_the_way, code, said) in [
        (
            "FUNCTION ids.snowflake_nextval() RETURNS integer LANGUAGE sql RETURN 1",
            "42P13",
            [
                "ERROR:  cannot change return type of existing function",
                "DETAIL:  The script failed at: CREATE OR REPLACE FUNCTION ids.snowflake_nextval() RETURNS bigint",
                "HINT:  Use DROP FUNCTION ids.snowflake_nextval() first.",
            ],
        ),
        (
            "TABLE ids.snowflake_position ()",
            "42809",
            [
                "ERROR:  \"snowflake_position\" is not a sequence",
                "DETAIL:  The script failed at: CREATE SEQUENCE IF NOT EXISTS ids.snowflake_position",
                "HINT:  Nothing was changed. Correct this, and run the script again.",
            ],
        ),
    ] {
        client.batch_execute(&format!("CREATE SCHEMA ids; CREATE {in_the_way}")).expect("an object");
        for single in ["--single-transaction", "--no-psqlrc"] {
            let mut psql = cluster.psql();
            psql.env("PGOPTIONS", "-c search_path=ids").args(["--quiet", single, "--file"]);
            let output = psql.arg(Installation::shared().script("snowflake_hosted.sql")).output().expect("psql");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.len() < 1000 && said.iter().all(|line| text.contains(line)), "{text}");
        }
        client.batch_execute("SET search_path = ids").expect("a setting");
        assert_eq!(error(&mut client, &hosted_script()).code().code(), code);
        let left =
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'ids'::regnamespace AND proname <> 'snowflake_nextval'";
        assert_eq!(value(&mut client, left), "0");
        client.batch_execute("RESET search_path; DROP SCHEMA ids CASCADE").expect("no schema");
    }
}

#[test]
fn the_script_is_refused_without_a_schema() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.batch_execute("SET search_path = ''").expect("no schema");
    assert_eq!(error(&mut client, &hosted_script()).code().code(), "3F000");
}

/// The system identifier is another one afterwards.
#[test]
fn a_database_keeps_its_worker_through_pg_upgrade() {
    let mut old = Cluster::builder().old().start();
    install(&mut old.connect(), 7);
    let before: i64 = value(&mut old.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
    old.stop(testbed::Signal::INT);
    let mut new = Cluster::builder().upgrade_of(&old);
    new.start();
    let after: i64 = value(&mut new.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
    assert!(after > before, "{after} after {before}");
    assert_eq!(value(&mut new.connect(), "SELECT worker_id FROM snowflake_decode(snowflake_nextval())"), "7");
}
