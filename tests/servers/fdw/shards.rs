//! A table whose partitions are on two other servers: which server issues an ID, by which statement.

use testbed::postgres::Client;
use testbed::{Cluster, error, need_extension, plan, test, value};

/// Where rows go: the worker of the server is the key here.
const REGIONS: [(&str, u8); 2] = [("eu", 1), ("us", 2)];

/// A router, worker 0, and a shard for each region.
pub struct Shards {
    pub router: Cluster,
    pub shards: Vec<Cluster>,
}

impl Shards {
    pub fn start() -> Self {
        need_extension("postgres_fdw");
        let start = |worker| {
            let cluster = Cluster::builder().worker(worker).start();
            cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
            cluster
        };
        let (router, shards) = (start(0), REGIONS.map(|(_, worker)| start(worker)).into());
        let fleet = Self { router, shards };
        let mut client = fleet.router.connect();
        client.batch_execute("CREATE EXTENSION postgres_fdw").expect("postgres_fdw");
        for ((region, _), shard) in REGIONS.iter().zip(&fleet.shards) {
            client
                .batch_execute(&format!(
                    "CREATE SERVER {region} FOREIGN DATA WRAPPER postgres_fdw
                         OPTIONS (host '{}', dbname 'postgres', extensions 'snowflake_pg');
                     CREATE USER MAPPING FOR PUBLIC SERVER {region} OPTIONS (user 'postgres')",
                    shard.host().display()
                ))
                .expect("a server");
        }
        fleet
    }

    /// A table `orders`, partitioned by region, whose column `id` has this default at the router. Returns the router's
    /// client.
    fn orders(&self, default: &str, batch_size: u32) -> Client {
        for shard in &self.shards {
            shard
                .connect()
                .batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY, region text NOT NULL, item text)")
                .expect("a table");
        }
        let mut router = self.router.connect();
        router
            .batch_execute(&format!(
                "CREATE TABLE orders (id bigint {default}, region text NOT NULL, item text) PARTITION BY LIST (region)"
            ))
            .expect("a table");
        for (region, _) in REGIONS {
            router
                .batch_execute(&format!(
                    "CREATE FOREIGN TABLE {region}_orders PARTITION OF orders FOR VALUES IN ('{region}')
                         SERVER {region} OPTIONS (table_name 'orders', batch_size '{batch_size}')"
                ))
                .expect("a partition");
        }
        router
    }

    fn create_triggers(&self) {
        for shard in &self.shards {
            shard
                .connect()
                .batch_execute(
                    "CREATE TRIGGER fill_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id')",
                )
                .expect("a trigger");
        }
    }
}

/// Each inserts rows for both regions.
const STATEMENTS: &[&str] = &[
    "INSERT INTO orders (region) VALUES ('eu'); INSERT INTO orders (region) VALUES ('us')",
    "INSERT INTO orders (region, item) SELECT r, i FROM unnest(ARRAY['eu', 'us']) r, generate_series(1, 500) i",
    "INSERT INTO orders (region) VALUES ('eu'), ('us'), ('eu'), ('us') RETURNING id",
    "INSERT INTO orders (region) VALUES ('eu'), ('us') ON CONFLICT DO NOTHING",
    "WITH new AS (INSERT INTO orders (region) VALUES ('eu'), ('us') RETURNING *) SELECT count(*) FROM new",
    "PREPARE one(text) AS INSERT INTO orders (region) VALUES ($1); EXECUTE one('eu'); EXECUTE one('us'); DEALLOCATE one",
    "COPY orders (region, item) FROM PROGRAM $$awk 'BEGIN { for (i = 0; i < 500; i++) print \"eu\\t1\\nus\\t2\" }'$$",
    "DO $$ BEGIN FOR i IN 1..10 LOOP INSERT INTO orders (region) VALUES ('eu'), ('us'); END LOOP; END $$",
];

/// Executes all statements, and returns how many rows of each region which workers have issued.
fn issued_by(router: &mut Client) -> String {
    for statement in STATEMENTS {
        router.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    value(
        router,
        "SELECT string_agg(format('%s %s: %s rows, %s IDs', region, worker, rows, ids), '; ' ORDER BY region, worker) FROM (
             SELECT region, (snowflake_decode(id)).worker_id AS worker, count(*) AS rows, count(DISTINCT id) AS ids
             FROM orders GROUP BY 1, 2) s",
    )
}

#[test]
fn the_router_issues_where_its_table_has_the_default() {
    for batch_size in [1, 100] {
        let fleet = Shards::start();
        let mut router = fleet.orders("DEFAULT snowflake_nextval()", batch_size);
        assert_eq!(issued_by(&mut router), "eu 0: 1016 rows, 1016 IDs; us 0: 1016 rows, 1016 IDs");
        assert_eq!(value(&mut router, "SELECT count(DISTINCT id) FROM orders"), "2032");
    }
}

#[test]
fn each_shard_issues_where_it_has_the_trigger_and_the_router_no_default() {
    for batch_size in [1, 100] {
        let fleet = Shards::start();
        let mut router = fleet.orders("", batch_size);
        fleet.create_triggers();
        assert_eq!(issued_by(&mut router), "eu 1: 1016 rows, 1016 IDs; us 2: 1016 rows, 1016 IDs");
        assert_eq!(value(&mut router, "SELECT count(DISTINCT id) FROM orders"), "2032");
        let returned = "INSERT INTO orders (region) VALUES ('us') RETURNING (snowflake_decode(id)).worker_id";
        assert_eq!(value(&mut router, returned), "2", "the client gets the ID of the shard");
    }
}

/// The router sends NULL for the column, so that the default does not count.
#[test]
fn a_default_of_the_shard_gives_no_id_to_rows_from_the_router() {
    let fleet = Shards::start();
    let mut router = fleet.orders("", 1);
    fleet.shards[0]
        .connect()
        .batch_execute("ALTER TABLE orders ALTER id SET DEFAULT snowflake_nextval()")
        .expect("a default");
    let refused = error(&mut router, "INSERT INTO orders (region) VALUES ('eu')");
    assert_eq!(refused.message(), "null value in column \"id\" of relation \"orders\" violates not-null constraint");
}

#[test]
fn a_range_of_time_is_sent_to_the_shards() {
    let fleet = Shards::start();
    let mut router = fleet.orders("", 100);
    fleet.create_triggers();
    router.batch_execute("INSERT INTO orders (region) SELECT 'eu' FROM generate_series(1, 1000)").expect("rows");
    let constants = "snowflake_within(id, '2020-01-01Z', '2021-01-01Z')";
    let subquery = "id >= (SELECT snowflake_min_id(now() - interval '1 hour'))";
    let of_now = "snowflake_within(id, now() - interval '1 hour', 'infinity')";
    for (condition, remote, count) in [
        (constants, "WHERE ((id >= 1212161512043446272::bigint)) AND ((id <= 1344795470853046271::bigint))", "0"),
        (subquery, "WHERE ((id >= $1::bigint))", "1000"),
        (of_now, "orders WHERE ((id <= 9223372036854775807::bigint))\n", "1000"),
    ] {
        let query = format!("SELECT count(id) FROM orders WHERE {condition}");
        let plan = plan(&mut router, &format!("EXPLAIN (VERBOSE, COSTS OFF) {query}"));
        assert!(plan.contains(remote), "{plan}");
        assert_eq!(value(&mut router, &query), count);
    }
}
