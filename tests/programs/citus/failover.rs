//! A node whose standby takes its place in the cluster: it has the same group, and so the same worker.

use super::servers::{address, builder, execute, form_cluster, node, start};
use libtest_mimic::Failed;
use std::collections::BTreeSet;
use testbed::{Load, Signal, default_layout, value};

const TABLES: &str = "
    CREATE EXTENSION snowflake_pg;
    CREATE TABLE orders (tenant integer, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (tenant, id));
    CREATE TABLE source (tenant integer PRIMARY KEY);
    INSERT INTO source SELECT generate_series(1, 10);
    SELECT create_distributed_table('orders', 'tenant');
    SELECT create_distributed_table('source', 'tenant', colocate_with => 'orders')";

/// IDs by the nodes of the shards.
const PUSHED_DOWN: &str = "INSERT INTO orders (tenant) SELECT tenant FROM source RETURNING id";

/// Also of the node itself, which goes on until it is killed.
const CALL: &str = "SELECT snowflake_nextval()";

pub fn run() -> Result<(), Failed> {
    let mirrored = || builder().set("snowflake_pg.wal_mark", "prefer");
    let mut nodes = [node(), start(mirrored()), node()];
    form_cluster(&nodes);
    let mut client = nodes[0].connect();
    execute(&mut client, TABLES);
    let standby = mirrored().standby_of(&nodes[1]);
    standby.configure("citus.local_hostname", standby.host().display());
    standby.reload();
    let loads = [(&nodes[0], PUSHED_DOWN), (&nodes[1], CALL)].map(|(node, query)| Load::start(node, 1, query));
    loads.iter().for_each(|load| load.wait_for_some(500));
    let id = value(
        &mut client,
        &format!("SELECT nodeid FROM pg_dist_node WHERE (nodename, nodeport) = ({})", address(&nodes[1])),
    );
    nodes[1].stop(Signal::KILL);
    standby.promote();
    execute(&mut client, &format!("SELECT citus_update_node({id}, {})", address(&standby)));
    let after = Load::start(&standby, 1, CALL);
    after.wait_for_some(500);
    loads[0].wait_for_some(500);
    let mut report = after.finish();
    // The old primary's IDs are all below.
    let (first, _) = report.range().expect("IDs of the promoted node");
    let [pushed_down, of_old] = loads.map(Load::finish);
    let by_promoted = pushed_down.received().filter(|&id| worker(id) == 1 && id > first).count();
    report.merge(pushed_down);
    report.merge(of_old);
    let workers: BTreeSet<_> = report.received().map(worker).collect();
    println!("{} IDs, {} of them twice, by workers {workers:?}", report.ids(), report.duplicates());
    println!("{by_promoted} IDs of rows that were pushed down to the promoted node");
    println!("errors: {:?}", report.errors());
    let own = value(&mut standby.connect(), "SELECT worker_id FROM snowflake_status");
    if report.duplicates() == 0 && by_promoted > 0 && own == "1" {
        return Ok(());
    }
    let twice = report.duplicates();
    Err(format!("{twice} IDs twice, {by_promoted} pushed down, as worker {own}: {}", standby.log()).into())
}

fn worker(id: i64) -> u64 {
    default_layout().unpack(id.cast_unsigned()).worker.expect("a worker ID")
}
