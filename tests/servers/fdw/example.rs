//! The schemas of examples/sql.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use testbed::postgres::{Client, Config, NoTls};
use testbed::{Cluster, error, need_extension, plan, project, test, value};

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

/// A shop on shards 1 and 2.
pub struct Shop {
    pub shards: Vec<Cluster>,
    pub router: Cluster,
}

impl Shop {
    pub fn open() -> Self {
        need_extension("postgres_fdw");
        let router = Cluster::builder().start();
        router.connect().batch_execute("CREATE DATABASE shop").expect("a database");
        let mut shop = Self { shards: Vec::new(), router };
        shop.add_shard(1, 1);
        shop.add_shard(2, 2);
        shop
    }

    /// Adds a shard, whose server has this worker.
    fn add_shard(&mut self, number: u8, worker: u16) {
        let shard = new_shard(number, worker);
        let (number, host) = (number.to_string(), shard.host().to_str().expect("a path").to_owned());
        let variables = [("shard", number.as_str()), ("host", &host), ("password", "of the shard")];
        run(&self.router, "shop", "sharded_orders_router.sql", &variables);
        self.shards.push(shard);
    }

    /// What an application is on the router: the role `shop`.
    fn application(&self) -> Client {
        self.as_application().connect(NoTls).expect("a session")
    }

    pub fn as_application(&self) -> Config {
        let mut config = self.router.config();
        config.user("shop").dbname("shop");
        config
    }

    /// In how many transactions of the router shards have taken part, each shard of its own.
    fn asked(&self) -> usize {
        self.shards.iter().map(|shard| shard.log().matches("START TRANSACTION ISOLATION LEVEL").count()).sum()
    }

    /// A session of a superuser on a shard.
    fn on(&self, shard: usize) -> Client {
        self.shards[shard].config().dbname("shop").connect(NoTls).expect("a session")
    }
}

fn new_shard(number: u8, worker: u16) -> Cluster {
    let shard = Cluster::builder().worker(worker).set("log_statement", "all").start();
    shard.connect().batch_execute("CREATE DATABASE shop").expect("a database");
    run(&shard, "shop", "sharded_orders_shard.sql", &[("shard", &number.to_string())]);
    shard.connect().batch_execute("ALTER ROLE shop PASSWORD 'of the shard'").expect("a password");
    let rules = "local all shop scram-sha-256\nlocal all,replication all trust\n";
    fs::write(shard.data().join("pg_hba.conf"), rules).expect("own file");
    shard.reload();
    shard
}

/// Adds customers of a shard, each with an order, as the end of the router's script shows.
fn order(client: &mut Client, shard: u8, count: u32) {
    let order = format!(
        "WITH customer AS (INSERT INTO customers_{shard} (name) SELECT 'Ada' FROM generate_series(1, {count}) RETURNING id)
         INSERT INTO orders (customer_id, item) SELECT id, 'tea' FROM customer RETURNING *"
    );
    client.batch_execute(&order).expect("an order");
}

#[test]
fn the_example_of_sharded_orders_gives_each_row_an_id_of_its_shard() {
    let shop = Shop::open();
    let mut client = shop.application();
    for number in [1, 2] {
        order(&mut client, number, 100);
    }
    for (shard, worker) in [(0, "1"), (1, "2")] {
        let issued = "SELECT string_agg(DISTINCT (snowflake_decode(id)).worker_id::text, ' ') FROM (
            SELECT id FROM customers UNION ALL SELECT id FROM orders UNION ALL SELECT customer_id FROM orders) i";
        assert_eq!(value(&mut shop.on(shard), issued), worker);
    }
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM orders"), "200");
}

#[test]
fn the_example_of_sharded_orders_asks_one_shard_whatever_is_done_by_an_id() {
    let mut shop = Shop::open();
    // As of a standby of shard 3 that has been promoted.
    shop.add_shard(3, 64 + 3);
    let mut client = shop.application();
    for number in [1, 2, 3] {
        order(&mut client, number, 10);
    }
    let ids = |client: &mut Client, column: &str| -> Vec<i64> {
        let rows = client.query(&format!("SELECT {column} FROM orders WHERE item = 'tea'"), &[]).expect("orders");
        rows.iter().map(|row| row.get(0)).collect()
    };
    let customers = ids(&mut client, "customer_id");
    for mode in ["auto", "force_generic_plan"] {
        client.batch_execute(&format!("SET plan_cache_mode = {mode}")).expect("a setting");
        for (column, statement) in [
            ("customer_id", "SELECT name FROM customers WHERE id = $1"),
            ("customer_id", "SELECT item FROM orders WHERE customer_id = $1"),
            ("customer_id", "SELECT name, item FROM customers c JOIN orders ON customer_id = c.id WHERE c.id = $1"),
            ("id", "SELECT item FROM orders_by_id WHERE id = $1"),
            ("id", "UPDATE orders_by_id SET item = 'tea' WHERE id = $1 RETURNING item"),
            ("id", "DELETE FROM orders_by_id WHERE id = $1 RETURNING item"),
            ("customer_id", "INSERT INTO orders (customer_id, item) VALUES ($1, 'tea') RETURNING item"),
        ] {
            let ids = if column == "id" { ids(&mut client, column) } else { customers.clone() };
            let query = client.prepare(statement).expect(statement);
            let before = shop.asked();
            for id in &ids {
                assert_eq!(client.query(&query, &[id]).expect(statement).len(), 1, "{statement}: {id}");
            }
            // PostgreSQL prunes no join when it runs.
            if mode == "auto" || !statement.contains(" JOIN ") {
                assert_eq!((ids.len(), shop.asked() - before), (30, 30), "{mode}: {statement}");
            }
        }
    }
}

/// What the planner does without knowing how many rows there are.
#[test]
fn the_example_of_sharded_orders_joins_customers_and_orders_on_the_shards() {
    let shop = Shop::open();
    let join =
        "EXPLAIN (COSTS OFF) SELECT name, item FROM customers c JOIN orders ON customer_id = c.id WHERE name = 'Ada'";
    let shown = plan(&mut shop.application(), join);
    for joined in ["(customers_1 c_1) INNER JOIN (orders_1", "(customers_2 c_2) INNER JOIN (orders_2"] {
        assert!(shown.contains(joined), "{shown}");
    }
}

/// PostgreSQL does not check the bounds of partitions that are foreign tables.
#[test]
fn the_example_of_sharded_orders_leaves_no_row_where_its_id_does_not_lead() {
    let shop = Shop::open();
    let mut client = shop.application();
    for number in [1, 2] {
        order(&mut client, number, 1);
    }
    let of_other = value(&mut client, "SELECT snowflake_compose('2026-01-01Z', NULL, 2, 0)");
    for (statement, table) in [
        (format!("INSERT INTO customers_1 VALUES ({of_other}, 'Ada')"), "customers"),
        (format!("UPDATE customers_1 SET id = {of_other}"), "customers"),
        (format!("UPDATE orders_by_id SET id = {of_other}"), "orders"),
    ] {
        let refused = error(&mut client, &statement);
        let constraint = format!("new row for relation \"{table}\" violates check constraint \"{table}_id_check\"");
        assert_eq!(refused.message(), constraint, "{statement}");
    }
    let nowhere =
        error(&mut client, "INSERT INTO customers SELECT snowflake_compose('2026-01-01Z', NULL, 5, 0), 'Ada'");
    assert_eq!(nowhere.message(), "no partition of relation \"customers\" found for row");
}

#[test]
fn the_example_of_events_reads_the_last_hour_by_id() {
    let server = Cluster::builder().worker(0).start();
    run(&server, "postgres", "events_by_time.sql", &[]);
    let mut client = server.connect();
    client.batch_execute("INSERT INTO events (what) VALUES ('login')").expect("an event");
    assert_eq!(value(&mut client, "SELECT what FROM events_of_last_hour"), "login");
}
