//! The schemas of examples/sql.

use std::path::PathBuf;
use std::process::Stdio;
use testbed::{Cluster, project, value};

fn run(server: &Cluster, script: &str, variables: &[(&str, String)]) {
    let file: PathBuf = project().join("examples/sql").join(script);
    let mut psql = server.psql();
    for (name, value) in variables {
        psql.arg(format!("--set={name}={value}"));
    }
    let output = psql.arg("--file").arg(file).stdin(Stdio::null()).output().expect("psql");
    assert!(output.status.success(), "{script}: {output:?}");
}

#[test]
fn the_example_of_sharded_orders_gives_each_order_an_id_of_its_shard() {
    let shards = [1, 2].map(|worker| Cluster::builder().worker(worker).start());
    shards.iter().for_each(|shard| run(shard, "sharded_orders_shard.sql", &[]));
    let router = Cluster::builder().start();
    let [eu, us] = shards.each_ref().map(|shard| shard.host().display().to_string());
    let postgres = || "postgres".to_owned();
    let variables = [("eu", eu), ("us", us), ("database", postgres()), ("user", postgres())];
    run(&router, "sharded_orders_router.sql", &variables);
    let mut client = router.connect();
    for region in ["eu", "us"] {
        // The end of the script shows this statement.
        let order = format!(
            "WITH customer AS (INSERT INTO customers (region, name) VALUES ('{region}', 'Ada') RETURNING id, region)
             INSERT INTO orders (region, customer_id, item) SELECT region, id, 'tea' FROM customer"
        );
        client.batch_execute(&order).expect("an order");
    }
    for (shard, worker) in shards.iter().zip(["1", "2"]) {
        let of_order =
            "SELECT (snowflake_decode(o.id)).worker_id FROM orders o JOIN customers c ON c.id = o.customer_id";
        assert_eq!(value(&mut shard.connect(), of_order), worker);
    }
}

#[test]
fn the_example_of_events_reads_the_last_hour_by_id() {
    let server = Cluster::builder().worker(0).start();
    run(&server, "events_by_time.sql", &[]);
    let mut client = server.connect();
    client.batch_execute("INSERT INTO events (what) VALUES ('login')").expect("an event");
    assert_eq!(value(&mut client, "SELECT what FROM events_of_last_hour"), "login");
}
