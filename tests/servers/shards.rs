//! The main job: sharded tables, filled at the same time, whose rows never share an ID.

use std::collections::HashSet;
use std::thread;
use testbed::postgres::Client;
use testbed::{Cluster, test, value};

const SHARDS: i32 = 3;
const CONNECTIONS: usize = 8;
/// Far more than a connection gets in one turn.
const ROWS_PER_SHARD: usize = 300_000;

/// Fills a table from one connection, and returns the IDs as the client received them.
fn fill(mut client: Client, rows: usize) -> Vec<i64> {
    let mut ids = Vec::with_capacity(rows);
    let single = client.prepare("INSERT INTO orders (item) VALUES ('single') RETURNING id").expect("a statement");
    for _ in 0..500 {
        ids.push(client.query_one(&single, &[]).expect("a row").get(0));
    }
    let many = client
        .prepare("INSERT INTO orders (item) SELECT 'many' FROM generate_series(1, $1::integer) RETURNING id")
        .expect("a statement");
    while ids.len() < rows {
        let count = i32::try_from((rows - ids.len()).min(5000)).expect("at most 5000");
        ids.extend(client.query(&many, &[&count]).expect("rows").iter().map(|row| row.get::<_, i64>(0)));
    }
    ids
}

#[test]
fn three_shards_filled_at_once_by_eight_connections_each_never_share_an_id() {
    let shards: Vec<_> = (0..SHARDS).map(|worker| Cluster::builder().worker(worker).start()).collect();
    for shard in &shards {
        shard
            .connect()
            .batch_execute(
                "CREATE EXTENSION snowflake_pg;
                 CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL)",
            )
            .expect("a table");
    }
    let received: Vec<Vec<i64>> = thread::scope(|scope| {
        let fillers: Vec<_> = shards
            .iter()
            .flat_map(|shard| (0..CONNECTIONS).map(move |_| shard.connect()))
            .map(|client| scope.spawn(move || fill(client, ROWS_PER_SHARD / CONNECTIONS)))
            .collect();
        fillers.into_iter().map(|filler| filler.join().expect("a connection")).collect()
    });

    assert!(received.iter().all(|ids| ids.is_sorted_by(|a, b| a < b)), "each connection's IDs ascend");
    let distinct: HashSet<i64> = received.iter().flatten().copied().collect();
    let expected = ROWS_PER_SHARD * usize::try_from(SHARDS).expect("a few");
    assert_eq!((received.iter().flatten().count(), distinct.len()), (expected, expected));

    for (worker, shard) in shards.iter().enumerate() {
        let mut client = shard.connect();
        assert_eq!(value(&mut client, "SELECT count(*) FROM orders"), ROWS_PER_SHARD.to_string());
        let foreign = format!("SELECT count(*) FROM orders WHERE (snowflake_decode(id)).worker_id <> {worker}");
        assert_eq!(value(&mut client, &foreign), "0");
    }
}
