//! What Citus does to a table with rows in it, and to its nodes, while clients insert.

use super::servers::{address, execute, form_cluster, node};
use libtest_mimic::Failed;
use std::collections::BTreeSet;
use testbed::postgres::Client;
use testbed::postgres::error::SqlState;
use testbed::{Load, Report, default_layout};

const TABLES: &str = "
    CREATE EXTENSION snowflake_pg;
    CREATE TABLE orders (tenant integer, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (tenant, id));
    CREATE TABLE source (tenant integer PRIMARY KEY);
    INSERT INTO source SELECT generate_series(1, 10);
    INSERT INTO orders SELECT generate_series(1, 500)";

/// IDs by the node to which it is sent.
const ROUTED: &str = "INSERT INTO orders (tenant) VALUES ((random() * 1000)::integer) RETURNING id";

/// IDs by the nodes of the shards, once both tables are distributed.
const PUSHED_DOWN: &str = "INSERT INTO orders (tenant) SELECT tenant FROM source RETURNING id";

/// What is done, in this order. `{mode}` is how shards are moved; `{new}` and `{old}` are addresses of nodes.
const STEPS: &[(&str, &str)] = &[
    ("create_distributed_table()", "SELECT create_distributed_table('orders', 'tenant')"),
    ("the same, colocated", "SELECT create_distributed_table('source', 'tenant', colocate_with => 'orders')"),
    ("citus_move_shard_placement(), force_logical", MOVE),
    ("citus_move_shard_placement(), block_writes", MOVE),
    ("citus_add_node()", "SELECT citus_add_node({new})"),
    ("rebalance_table_shards(), force_logical", "SELECT rebalance_table_shards(shard_transfer_mode => '{mode}')"),
    (
        "alter_distributed_table()",
        "SELECT alter_distributed_table('orders', shard_count => 6, cascade_to_colocated => true)",
    ),
    ("citus_drain_node(), block_writes", "SELECT citus_drain_node({old}, shard_transfer_mode => '{mode}')"),
    ("citus_remove_node()", "SELECT citus_remove_node({old})"),
    ("undistribute_table()", "SELECT undistribute_table('orders')"),
];

/// Of some shard to some node that does not have it.
const MOVE: &str = "
    SELECT citus_move_shard_placement(shardid, here.nodename, here.nodeport, other.nodename, other.nodeport, '{mode}')
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node here USING (groupid), pg_dist_node other
    WHERE logicalrelid = 'orders'::regclass AND other.groupid NOT IN (0, here.groupid) LIMIT 1";

pub fn run() -> Result<(), Failed> {
    let nodes = [node(), node(), node()];
    let new = node();
    form_cluster(&nodes);
    let mut client = nodes[0].connect();
    execute(&mut client, TABLES);
    let loads = [ROUTED, PUSHED_DOWN].map(|query| Load::start(&nodes[0], 1, query));
    for (name, step) in STEPS {
        let before = ids(&mut client);
        let mode = name.split(", ").nth(1).unwrap_or_default();
        let step = step.replace("{mode}", mode).replace("{new}", &address(&new)).replace("{old}", &address(&nodes[1]));
        run_at_last(&mut client, &step);
        let after = ids(&mut client);
        let lost = before.difference(&after).count();
        println!("{name:<45} {:>7} rows before, {:>7} after, {lost} IDs lost", before.len(), after.len());
        if lost > 0 {
            return Err(format!("{name}: {lost} IDs are lost").into());
        }
        loads.iter().for_each(|load| load.wait_for_some(200));
    }
    let mut report = Report::default();
    loads.into_iter().for_each(|load| report.merge(load.finish()));
    judge(&report, &ids(&mut client))
}

/// Runs a statement, again after a deadlock with the clients, which Citus may end on either side.
fn run_at_last(client: &mut Client, statement: &str) {
    let is_deadlock = |client: &mut Client| {
        client.batch_execute(statement).is_err_and(|error| error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED))
    };
    if (0..10).all(|_| is_deadlock(client)) {
        execute(client, statement);
    }
}

/// Each ID that a client has received is in the table, and nobody has received one twice. Each node that had shards has
/// issued some.
fn judge(report: &Report, stored: &BTreeSet<i64>) -> Result<(), Failed> {
    let missing = report.received().filter(|id| !stored.contains(id)).count();
    let worker = |id: i64| default_layout().unpack(id.cast_unsigned()).worker.expect("a worker ID");
    let workers: BTreeSet<_> = report.received().map(worker).collect();
    println!("{} IDs received, {} of them twice, by workers {workers:?}", report.ids(), report.duplicates());
    // Citus ends statements of clients where they meet what it does itself.
    let codes: BTreeSet<_> = report.errors().into_keys().filter_map(|error| error.split(' ').next()).collect();
    let ours = report.errors().into_keys().find(|error| error.contains("snowflake"));
    println!("errors of Citus: {codes:?}");
    let is_right = report.duplicates() == 0 && missing == 0 && workers.len() == 4 && ours.is_none();
    if is_right { Ok(()) } else { Err(format!("{missing} IDs are not in the table, {ours:?}").into()) }
}

/// All IDs of the table, no two of them equal.
fn ids(client: &mut Client) -> BTreeSet<i64> {
    let rows = client.query("SELECT id FROM orders", &[]).expect("orders");
    let ids: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(ids.len(), rows.len(), "an ID is in the table twice");
    ids
}
