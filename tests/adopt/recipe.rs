//! The recipe for large tables, examples/sql/adopt_in_batches.sql.

use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use testbed::postgres::Client;
use testbed::{Cluster, project, test, value};

fn recipe(cluster: &Cluster) -> Output {
    let file = project().join("examples/sql/adopt_in_batches.sql");
    cluster.psql().arg("--file").arg(file).output().expect("psql")
}

fn server_with_orders() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; SELECT snowflake_nextval();
             CREATE TABLE orders (id serial PRIMARY KEY, n integer);
             CREATE TABLE items (order_id integer REFERENCES orders);
             CREATE TABLE notes (order_id integer REFERENCES orders);
             INSERT INTO orders (n) SELECT 0 FROM generate_series(1, 50000);
             INSERT INTO items SELECT id FROM orders; INSERT INTO notes SELECT id FROM orders",
        )
        .expect("tables");
    (cluster, client)
}

const JOINED: &str =
    "SELECT count(*) FROM orders o JOIN items i ON i.order_id = o.id JOIN notes n ON n.order_id = o.id";

/// Writers that insert, update and delete.
#[test]
fn a_table_is_widened_in_batches_beside_writers_and_no_row_is_lost_or_changed() {
    let (cluster, mut client) = server_with_orders();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (mut client, stop) = (cluster.connect(), Arc::clone(&stop));
            thread::spawn(move || {
                let mut written = 0;
                while !stop.load(Ordering::Relaxed) {
                    let insert = format!(
                        "WITH o AS (INSERT INTO orders (n) VALUES ({writer}) RETURNING id),
                              i AS (INSERT INTO items SELECT id FROM o)
                         INSERT INTO notes SELECT id FROM o;
                         UPDATE orders SET n = n WHERE id = {}",
                        written * 7 + 1
                    );
                    client.batch_execute(&insert).unwrap_or_else(|error| panic!("{error:?}"));
                    written += 1;
                }
                written
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(200));
    // The last step may not get its locks at once.
    let done = (0..20).any(|_| {
        let output = recipe(&cluster);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || said.contains("lock timeout"), "{said}");
        output.status.success()
    });
    assert!(done);
    thread::sleep(Duration::from_millis(200));
    stop.store(true, Ordering::Relaxed);
    let written: i32 = writers.into_iter().map(|writer| writer.join().expect("a writer")).sum();
    assert_eq!(value(&mut client, JOINED), (50_000 + written).to_string());
    assert_eq!(value(&mut client, "SELECT count(*) FROM orders WHERE id <= 50000"), "50000");
    assert_eq!(value(&mut client, "SELECT pg_typeof(id) FROM orders LIMIT 1"), "bigint");
    assert_eq!(value(&mut client, "SELECT snowflake_timestamp(max(id)) > now() - interval '1 min' FROM orders"), "t");
    assert_eq!(value(&mut client, "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated"), "2");
    // And back.
    for command in super::plan(&mut client, "revert_plan", "'orders'").commands {
        client.batch_execute(&command).expect("a command");
    }
    let next: i32 =
        value(&mut client, "INSERT INTO orders (n) VALUES (1) RETURNING id").parse().expect("a small number");
    assert!(next > 50_000, "{next}");
}

#[test]
fn the_recipe_goes_on_after_its_last_step_got_no_lock() {
    let (cluster, mut client) = server_with_orders();
    let mut reader = cluster.connect();
    reader.batch_execute("BEGIN; SELECT count(*) FROM notes").expect("a transaction");
    let output = recipe(&cluster);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("lock timeout"), "{said}");
    client.batch_execute("INSERT INTO orders (n) VALUES (1)").expect("the table still works");
    reader.batch_execute("COMMIT").expect("the end of the reader");
    let output = recipe(&cluster);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(value(&mut client, JOINED), "50000");
}
