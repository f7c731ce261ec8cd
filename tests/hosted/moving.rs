//! From the extension to the functions in plain SQL and back, with the schema of the application as it is.

use std::collections::HashSet;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::postgres::{Client, NoTls};
use testbed::{Builder, Cluster, Load, PATIENCE, hosted_script, project, test, value};

/// An application that uses what there is, with the functions in a schema of their own.
const APPLICATION: &str = "CREATE TABLE orders (
        id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), n integer, code text DEFAULT ids.snowflake_to_text(ids.snowflake_id(), 'base62'),
        at timestamptz GENERATED ALWAYS AS (ids.snowflake_timestamp(id, 'flat')) STORED);
    CREATE INDEX ON orders (ids.snowflake_timestamp(id, 'flat'));
    CREATE TABLE notes (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval(), order_id bigint REFERENCES orders);
    CREATE VIEW recent AS SELECT o.id, (ids.snowflake_decode(o.id)).worker_id AS worker FROM orders o
        WHERE ids.snowflake_within(o.id, now() - interval '1 day');
    CREATE TABLE events (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval()) PARTITION BY RANGE (id);
    DO $$ BEGIN EXECUTE format('CREATE TABLE events_now PARTITION OF events FOR VALUES FROM (%s) TO (%s)',
        ids.snowflake_min_id(now() - interval '1 day'), ids.snowflake_min_id(now() + interval '2 days')); END $$;
    CREATE FUNCTION newest() RETURNS bigint BEGIN ATOMIC SELECT max(id) FROM orders WHERE id <= ids.snowflake_bound('infinity', '<'); END;
    CREATE TABLE outside (id bigint);
    CREATE TRIGGER fill BEFORE INSERT ON outside FOR EACH ROW EXECUTE FUNCTION ids.snowflake_fill('id')";

/// Rows by every way to an ID.
const ROWS: &str = "INSERT INTO orders (n) SELECT generate_series(1, 500); INSERT INTO notes (order_id) SELECT id FROM orders ORDER BY id DESC LIMIT 10;
    INSERT INTO events SELECT FROM generate_series(1, 100); INSERT INTO outside VALUES (NULL), (NULL)";

/// The block of docs/hosted.md that has this.
fn commands(with: &str) -> String {
    let document = fs::read_to_string(project().join("docs/hosted.md")).expect("a document");
    let block = document.split("```text\n").find(|block| block.contains(with)).expect("commands");
    block.split("```").next().expect("commands").to_owned()
}

/// Moves the application by the document's commands, as the owner of both databases.
fn move_over(from: &Cluster, to: &Cluster, schema_only: bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let commands = commands("pg_dump --format=custom");
    let kind = if schema_only { "--schema-only" } else { "--format=custom" };
    let commands = format!(
        "set -e
        pg_dump() {{ PGHOST='{}' '{}/pg_dump' {kind} \"$@\"; }}
        pg_restore() {{ PGHOST='{}' '{}/pg_restore' \"$@\"; }}
        {commands}",
        from.host().display(),
        from.bindir().display(),
        to.host().display(),
        to.bindir().display(),
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &commands]).current_dir(directory.path()).envs(from.environment()).env("PGUSER", "shop");
    let output = shell.output().expect("sh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A server with a database of an owner who is no superuser, who prepares it; and the superuser's session.
fn server(builder: Builder, prepare: &str) -> (Cluster, Client, Client) {
    let cluster = builder.set("wal_level", "logical").start();
    let mut dba = cluster.connect();
    for command in ["CREATE ROLE shop LOGIN", "CREATE DATABASE app OWNER shop"] {
        dba.batch_execute(command).expect("a database");
    }
    let mut dba = cluster.config().dbname("app").connect(NoTls).expect("a session");
    dba.batch_execute(prepare).expect("the functions");
    let owner = cluster.config().dbname("app").user("shop").connect(NoTls).expect("a session");
    (cluster, owner, dba)
}

fn with_extension(worker: u32) -> (Cluster, Client, Client) {
    server(Cluster::builder().worker(worker), &commands("CREATE EXTENSION snowflake_pg SCHEMA ids;\nGRANT"))
}

fn hosted(worker: u32) -> (Cluster, Client, Client) {
    let (cluster, mut owner, dba) = server(Cluster::builder(), "");
    owner.batch_execute("CREATE SCHEMA ids; SET search_path = ids").expect("a schema");
    owner.batch_execute(&hosted_script()).expect("the script");
    owner.batch_execute(&format!("SELECT snowflake_set_worker_id({worker}); RESET search_path")).expect("a worker");
    (cluster, owner, dba)
}

fn wait_until(client: &mut Client, condition: &str) {
    let deadline = Instant::now() + PATIENCE;
    while value(client, condition) != "t" {
        assert!(Instant::now() < deadline, "never true: {condition}");
        sleep(Duration::from_millis(50));
    }
}

/// All IDs, each once, and the workers that issued them.
fn seen(client: &mut Client) -> (String, String) {
    let all = "(SELECT id FROM orders UNION ALL SELECT id FROM notes UNION ALL SELECT id FROM events UNION ALL SELECT id FROM outside
        UNION ALL SELECT ids.snowflake_from_text(code, 'base62') FROM orders)";
    let count = format!("SELECT count(*) || ' IDs, ' || count(*) - count(DISTINCT id) || ' twice' FROM {all} ids");
    let workers = "SELECT string_agg(DISTINCT worker::text, ', ') FROM recent";
    (value(client, &count), value(client, workers))
}

#[test]
fn an_application_moves_to_a_server_without_the_extension_and_back_and_no_id_comes_twice() {
    let (first, mut client, _) = with_extension(3);
    client.batch_execute(APPLICATION).expect("an application");
    client.batch_execute(ROWS).expect("rows");
    assert_eq!(seen(&mut client), ("1112 IDs, 0 twice".to_owned(), "3".to_owned()));
    let (second, mut client, _) = hosted(4);
    move_over(&first, &second, false);
    client.batch_execute(ROWS).expect("rows");
    assert_eq!(seen(&mut client), ("2224 IDs, 0 twice".to_owned(), "3, 4".to_owned()));
    assert_eq!(value(&mut client, "SELECT count(*) FROM orders WHERE at <> ids.snowflake_timestamp(id)"), "0");
    // What the extension refuses, a query finds before.
    client
        .batch_execute(
            "CREATE INDEX lacking ON orders (id) WHERE ids.snowflake_within(id, '2026-01-01Z', '2027-01-01Z')",
        )
        .expect("an index");
    assert_eq!(value(&mut client, commands("pg_describe_object").trim_end()), "index lacking");
    client.batch_execute("DROP INDEX lacking").expect("no index");
    let (third, mut client, _) = with_extension(5);
    move_over(&second, &third, false);
    client.batch_execute("SELECT ids.snowflake_create_partitions('events', '1 day', 3)").expect("partitions");
    client.batch_execute(ROWS).expect("rows");
    assert_eq!(seen(&mut client), ("3336 IDs, 0 twice".to_owned(), "3, 4, 5".to_owned()));
    assert_eq!(value(&mut client, "SELECT newest() = max(id) FROM orders"), "t");
}

/// By logical replication; only while it is cut over, nobody writes.
#[test]
fn an_application_moves_while_it_writes_and_all_new_ids_are_above_the_old_ones() {
    for to_extension in [true, false] {
        let ((old, mut old_client, _), (new, _, mut new_client)) =
            if to_extension { (hosted(4), with_extension(5)) } else { (with_extension(5), hosted(4)) };
        old_client.batch_execute(APPLICATION).expect("an application");
        let writing = Load::start_at(
            old.config().dbname("app").user("shop"),
            4,
            "INSERT INTO orders (n) SELECT generate_series(1, 5) RETURNING id",
        );
        writing.wait_for_some(1000);
        move_over(&old, &new, true);
        let publish = commands("CREATE PUBLICATION app");
        let publish = publish.lines().find(|line| line.starts_with("CREATE PUBLICATION")).expect("a command");
        old_client.batch_execute(publish).expect("a publication");
        let subscribe = format!(
            "CREATE SUBSCRIPTION app CONNECTION 'host={} user=postgres dbname=app' PUBLICATION app",
            old.host().display()
        );
        new_client.batch_execute(&subscribe).expect("a subscription");
        wait_until(&mut new_client, "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel");
        writing.wait_for_some(1000);
        // The other server issues IDs already.
        value(&mut new_client, "SELECT count(id) FROM ids.snowflake_nextvals(5000) id");
        let before = writing.finish();
        let end = value(&mut old_client, "SELECT pg_current_wal_lsn()");
        old.wait_until(&format!("SELECT bool_and(replay_lsn >= '{end}') FROM pg_stat_replication"));
        let cut_over = "DROP SUBSCRIPTION app; SELECT ids.snowflake_advance((SELECT max(id) FROM orders))";
        cut_over.split("; ").for_each(|command| new_client.batch_execute(command).expect("the cutover"));
        let writing = Load::start_at(
            new.config().dbname("app").user("shop"),
            4,
            "INSERT INTO orders (n) SELECT generate_series(1, 5) RETURNING id",
        );
        writing.wait_for_some(1000);
        let after = writing.finish();
        assert!(before.errors().is_empty() && after.errors().is_empty(), "{:?} {:?}", before.errors(), after.errors());
        assert!(after.range().expect("IDs").0 > before.range().expect("IDs").1, "not above");
        let kept: HashSet<i64> =
            new_client.query("SELECT id FROM orders", &[]).expect("rows").iter().map(|row| row.get(0)).collect();
        assert_eq!(before.received().chain(after.received()).filter(|id| !kept.contains(id)).count(), 0, "are lost");
        assert_eq!(kept.len(), before.ids() + after.ids(), "each once");
    }
}
