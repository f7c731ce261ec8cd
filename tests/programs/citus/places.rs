//! IDs whose shards are on the node that issues them, or beside another row. Where a shard is, Citus's own function
//! says.

use super::servers::{address, builder, execute, form_cluster, start};
use libtest_mimic::Failed;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write;
use std::process::{Command, Stdio};
use testbed::postgres::{Client, Error};
use testbed::{Cluster, Load, Signal, default_layout, value};

/// The default has a text: on the other nodes, Citus creates the shards before the table.
const TABLES: &str = "
    CREATE EXTENSION snowflake_pg;
    CREATE TABLE anywhere (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval_for('public.orders'::text), n integer);
    CREATE TABLE items (id bigint PRIMARY KEY, order_id bigint NOT NULL)";

/// A coordinator without shards, and two nodes, which have 32 of each table.
fn cluster(layout: &str) -> [Cluster; 3] {
    let nodes = [(); 3].map(|()| start(builder().set("snowflake_pg.layout", layout).set("citus.shard_count", 32)));
    form_cluster(&nodes);
    let mut client = nodes[0].connect();
    execute(&mut client, TABLES);
    for table in ["anywhere", "orders", "items"] {
        execute(&mut client, &format!("SELECT create_distributed_table('{table}', 'id')"));
    }
    nodes
}

/// The IDs that a query returns.
pub fn ids(client: &mut Client, query: &str) -> Vec<i64> {
    client.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}")).iter().map(|row| row.get(0)).collect()
}

/// How many of these IDs fall into shards of each node.
pub fn nodes_of(client: &mut Client, table: &str, ids: &[i64]) -> Result<BTreeMap<i32, usize>, Error> {
    let query = format!(
        "SELECT groupid FROM (SELECT get_shard_id_for_distribution_column('{table}', id) AS shardid FROM unnest($1::bigint[]) id) ids
         JOIN pg_dist_placement USING (shardid)"
    );
    let mut nodes = BTreeMap::new();
    for row in client.query(&query, &[&ids])? {
        *nodes.entry(row.get(0)).or_default() += 1;
    }
    Ok(nodes)
}

/// How often a second 4 clients of a node run a script.
fn rate(node: &Cluster, script: &str) -> f64 {
    let mut pgbench = Command::new(node.bindir().join("pgbench"))
        .args(["--no-vacuum", "--client=4", "--jobs=2", "--time=2", "--protocol=prepared", "--file=-"])
        .envs(node.environment())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("pgbench");
    pgbench.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("a script");
    let output = pgbench.wait_with_output().expect("pgbench");
    assert!(output.status.success(), "{script}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = printed.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.unwrap_or_else(|| panic!("no rate: {printed}"))
}

/// What clients repeat, with IDs that fall anywhere and with those for their places.
const SCRIPTS: [(&str, [&str; 2]); 2] = [
    ("one row", ["INSERT INTO anywhere (n) VALUES (1);\n", "INSERT INTO orders (n) VALUES (1);\n"]),
    (
        "an order and 3 items in a transaction",
        [
            "BEGIN;\nINSERT INTO anywhere (n) VALUES (2) RETURNING id \\gset\n\
             INSERT INTO items VALUES (snowflake_nextval(), :id);\nINSERT INTO items VALUES (snowflake_nextval(), :id);\n\
             INSERT INTO items VALUES (snowflake_nextval(), :id);\nEND;\n",
            "BEGIN;\nINSERT INTO orders (n) VALUES (2) RETURNING id \\gset\n\
             INSERT INTO items VALUES (snowflake_nextval_for('items', :id), :id);\n\
             INSERT INTO items VALUES (snowflake_nextval_for('items', :id), :id);\n\
             INSERT INTO items VALUES (snowflake_nextval_for('items', :id), :id);\nEND;\n",
        ],
    ),
];

pub fn local() -> Result<(), Failed> {
    let mut nodes = cluster("flat");
    // What it prints is no promise.
    for (name, scripts) in SCRIPTS {
        let mut rates = [0.0; 2];
        for _ in 0..3 {
            for (rate_of, script) in rates.iter_mut().zip(scripts) {
                *rate_of += rate(&nodes[1], script) / 3.0;
            }
        }
        let [anywhere, here] = rates;
        println!("{name}: {anywhere:.0}/s anywhere, {here:.0}/s for its place, {:.2} times", here / anywhere);
    }
    let mut client = nodes[1].connect();
    for table in ["anywhere", "orders"] {
        let all = ids(&mut client, &format!("SELECT id FROM {table}"));
        let here = nodes_of(&mut client, table, &all)?.get(&1).copied().unwrap_or(0);
        println!("{table}: {here} of {} rows are on the node to which the INSERTs were sent", all.len());
        for rows in ["SELECT generate_series(1, 1000)", "VALUES (1), (2), (3)", "SELECT n FROM anywhere LIMIT 100"] {
            execute(&mut client, &format!("INSERT INTO {table} (n) {rows}"));
        }
        execute(&mut client, &format!("COPY {table} (n) FROM PROGRAM 'seq 1000'"));
        // Issued by the nodes of the source's shards.
        execute(&mut client, &format!("INSERT INTO {table} (n) SELECT n FROM anywhere"));
        let mut all = ids(&mut client, &format!("SELECT id FROM {table}"));
        for node in [1, 2] {
            let worker = |id: &i64| default_layout().unpack(id.cast_unsigned()).worker;
            let issued: Vec<i64> = all.extract_if(.., |id| worker(id) == Some(node)).collect();
            let nodes: Vec<_> = nodes_of(&mut client, table, &issued)?.into_keys().collect();
            let expected = if table == "orders" { vec![i32::try_from(node)?] } else { vec![1, 2] };
            assert_eq!(nodes, expected, "{table}: the nodes of the rows whose IDs node {node} has issued");
        }
        assert!(all.is_empty(), "issued by other nodes: {all:?}");
    }
    // A node without shards issues any IDs.
    let of_coordinator =
        ids(&mut nodes[0].connect(), "INSERT INTO orders (n) SELECT generate_series(1, 1000) RETURNING id");
    assert_eq!(nodes_of(&mut client, "orders", &of_coordinator)?.len(), 2);
    // A node does not need the other one for its rows.
    nodes[2].stop(Signal::INT);
    (0..30).for_each(|_| execute(&mut client, "INSERT INTO orders (n) VALUES (4)"));
    let is_refused = |_| client.batch_execute("INSERT INTO anywhere (n) VALUES (4)").is_err();
    assert!((0..30).any(is_refused), "the other node is not needed");
    Ok(())
}

pub fn near() -> Result<(), Failed> {
    for layout in ["flat", "t41 w5 s9 h8"] {
        let nodes = cluster(layout);
        let [mut coordinator, mut client] = [0, 1].map(|node: usize| nodes[node].connect());
        execute(&mut coordinator, "INSERT INTO orders (n) SELECT generate_series(1, 300)");
        execute(&mut client, "INSERT INTO orders (n) SELECT generate_series(1, 300)");
        for id in &ids(&mut client, "SELECT id FROM orders")[..100] {
            execute(&mut client, &format!("INSERT INTO items VALUES (snowflake_nextval_for('items', {id}), {id})"));
        }
        // Issued by the nodes of the orders' shards.
        execute(&mut coordinator, "INSERT INTO items SELECT snowflake_nextval_for('items', id), id FROM orders");
        // Joins each shard of one table with the one beside it.
        let joined = "SELECT sum(result::bigint) FROM run_command_on_colocated_placements('orders', 'items',
            'SELECT count(*) FROM %s o JOIN %s i ON i.order_id = o.id')";
        assert_eq!(value(&mut client, joined), "700", "{layout}");
        assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM items"), "700", "{layout}");
        if layout != "flat" {
            // The tag is chosen, and no number is taken twice.
            let numbers = "SELECT count(DISTINCT id / 256) || ' ' || (count(DISTINCT id % 256) > 1) FROM items";
            assert_eq!(value(&mut client, numbers), "700 true");
            continue;
        }
        // Any ID, where none that comes soon falls into the shard, or where there is none.
        nodes[1].configure("snowflake_pg.max_wait", "100ms");
        nodes[1].reload();
        nodes[1].wait_until("SELECT current_setting('snowflake_pg.max_wait') = '100ms'");
        execute(
            &mut client,
            "DELETE FROM pg_dist_shard WHERE logicalrelid = 'items'::regclass AND shardid <> get_shard_id_for_distribution_column('items', 1);
             UPDATE pg_dist_shard SET shardminvalue = hashint8(1), shardmaxvalue = hashint8(1) WHERE logicalrelid = 'items'::regclass",
        );
        for near in [1, 2] {
            let issued = format!("SELECT snowflake_nextval_for('items', {near}) > 0");
            assert_eq!(value(&mut client, &issued), "t", "{near}");
        }
    }
    Ok(())
}

/// Of so many shards of a node, to another one.
const MOVE: &str = "
    SELECT citus_move_shard_placement(shardid, nodename, nodeport, {to}, '{mode}')
    FROM (SELECT shardid, groupid FROM pg_dist_shard JOIN pg_dist_placement USING (shardid)
        WHERE logicalrelid = 'orders'::regclass AND groupid = {from} ORDER BY shardid LIMIT {count}) moved
        JOIN pg_dist_node USING (groupid)";

pub fn moved() -> Result<(), Failed> {
    let nodes = cluster("flat");
    let [mut coordinator, mut client, mut observer] = [0, 1, 0].map(|node: usize| nodes[node].connect());
    let load = Load::start(&nodes[1], 2, "INSERT INTO orders (n) VALUES (1) RETURNING id");
    load.wait_for_some(200);
    let mut nodes_now = |client: &mut Client| {
        let ids = ids(client, "SELECT snowflake_nextval_for('orders') FROM generate_series(1, 500)");
        nodes_of(&mut observer, "orders", &ids).expect("nodes").into_keys().collect::<BTreeSet<i32>>()
    };
    assert_eq!(nodes_now(&mut client), BTreeSet::from([1]), "at first");
    let moves = [(1, 2, "14", "block_writes"), (2, 1, "1", "force_logical"), (1, 2, "3", "block_writes")];
    for (from, to, count, mode) in moves {
        // Its snapshot has the old shards, and it asks for the first time.
        let mut old = nodes[1].connect();
        execute(&mut old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class");
        let text = MOVE.replace("{to}", &address(&nodes[to])).replace("{from}", &from.to_string());
        execute(&mut coordinator, &text.replace("{mode}", mode).replace("{count}", count));
        // This node has no shards at last.
        let expected = if count == "3" { BTreeSet::from([2]) } else { BTreeSet::from([1]) };
        for client in [&mut client, &mut old] {
            assert_eq!(nodes_now(client), expected, "after a move of {count} shards to node {to}");
        }
    }
    load.wait_for_some(200);
    let report = load.finish();
    let stored: HashSet<i64> = ids(&mut coordinator, "SELECT id FROM orders").into_iter().collect();
    let lost = report.received().filter(|id| !stored.contains(id)).count();
    println!("{} IDs received, {} of them twice, {lost} not found", report.ids(), report.duplicates());
    println!("errors of Citus: {:?}", report.errors());
    let ours = report.errors().into_keys().find(|error| error.contains("snowflake") || error.contains("falls"));
    if lost == 0 && report.duplicates() == 0 && ours.is_none() { Ok(()) } else { Err(format!("{ours:?}").into()) }
}
