//! The schemas of examples/sql.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, error, need_extension, project, test, value};

/// Runs a script in a database, as a superuser.
fn run(server: &Cluster, database: &str, script: &str, variables: &[(&str, &str)]) {
    let file: PathBuf = project().join("examples/sql").join(script);
    let mut psql = server.psql();
    for (name, value) in variables {
        psql.arg(format!("--set={name}={value}"));
    }
    let output =
        psql.arg(format!("--dbname={database}")).arg("--file").arg(file).stdin(Stdio::null()).output().expect("psql");
    assert!(output.status.success(), "{script}: {output:?}");
}

/// The shards, by region, and what an application is on the router: the role `shop`, everywhere with a password.
fn shop() -> (Vec<(&'static str, Cluster)>, Cluster, Client) {
    need_extension("postgres_fdw");
    let create_database =
        |server: &Cluster| server.connect().batch_execute("CREATE DATABASE shop").expect("a database");
    let shards = [("eu", 1), ("us", 2)].map(|(region, worker)| {
        let shard = Cluster::builder().worker(worker).start();
        create_database(&shard);
        run(&shard, "shop", "sharded_orders_shard.sql", &[("region", region)]);
        shard.connect().batch_execute("ALTER ROLE shop PASSWORD 'of the shard'").expect("a password");
        let rules = "local all shop scram-sha-256\nlocal all all trust\n";
        fs::write(shard.data().join("pg_hba.conf"), rules).expect("own file");
        shard.reload();
        (region, shard)
    });
    let router = Cluster::builder().start();
    create_database(&router);
    let [eu, us] = shards.each_ref().map(|(_, shard)| shard.host().to_str().expect("a path"));
    run(&router, "shop", "sharded_orders_router.sql", &[("eu", eu), ("us", us), ("password", "of the shard")]);
    let client = router.config().user("shop").dbname("shop").connect(NoTls).expect("a session");
    (shards.into(), router, client)
}

/// Adds a customer with an order, as the end of the router's script shows.
fn order(client: &mut Client, region: &str) {
    let order = format!(
        "WITH customer AS (INSERT INTO customers (region, name) VALUES ('{region}', 'Ada') RETURNING id, region)
         INSERT INTO orders (region, customer_id, item) SELECT region, id, 'tea' FROM customer RETURNING *"
    );
    client.batch_execute(&order).expect("an order");
}

#[test]
fn the_example_of_sharded_orders_gives_each_order_an_id_of_its_shard() {
    let (shards, _router, mut client) = shop();
    for (region, _) in &shards {
        order(&mut client, region);
    }
    for ((_, shard), worker) in shards.iter().zip(["1", "2"]) {
        let of_order =
            "SELECT (snowflake_decode(o.id)).worker_id FROM orders o JOIN customers c ON c.id = o.customer_id";
        let mut of_shard = shard.config().dbname("shop").connect(NoTls).expect("a session");
        assert_eq!(value(&mut of_shard, of_order), worker);
    }
}

/// PostgreSQL does not check the bounds of partitions that are foreign tables.
#[test]
fn the_example_of_sharded_orders_leaves_no_row_on_the_shard_of_another_region() {
    let (shards, _router, mut client) = shop();
    for (region, _) in &shards {
        order(&mut client, region);
    }
    for table in ["customers", "orders"] {
        let refused = error(&mut client, &format!("UPDATE {table} SET region = 'eu' WHERE region = 'us'"));
        let constraint = format!("new row for relation \"{table}\" violates check constraint \"{table}_region_check\"");
        assert_eq!(refused.message(), constraint);
        let regions = format!("SELECT string_agg(region, ' ' ORDER BY region) FROM {table}");
        assert_eq!(value(&mut client, &regions), "eu us");
    }
}

#[test]
fn the_example_of_events_reads_the_last_hour_by_id() {
    let server = Cluster::builder().worker(0).start();
    run(&server, "postgres", "events_by_time.sql", &[]);
    let mut client = server.connect();
    client.batch_execute("INSERT INTO events (what) VALUES ('login')").expect("an event");
    assert_eq!(value(&mut client, "SELECT what FROM events_of_last_hour"), "login");
}
