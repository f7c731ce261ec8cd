//! Nodes that can issue no IDs, or the same IDs as another node.

use super::groups::FLEET;
use super::servers::{builder, execute, form_cluster, start};
use libtest_mimic::Failed;
use testbed::postgres::Client;
use testbed::postgres::error::DbError;
use testbed::{Builder, Cluster};

const TABLES: &str = "
    CREATE EXTENSION snowflake_pg;
    CREATE TABLE orders (tenant integer, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (tenant, id));
    CREATE TABLE source (tenant integer PRIMARY KEY);
    INSERT INTO source SELECT generate_series(1, 1000);
    SELECT create_distributed_table('orders', 'tenant');
    SELECT create_distributed_table('source', 'tenant', colocate_with => 'orders')";

/// A node, what a check says of it, and what an INSERT is refused with that runs there.
struct Misfit {
    configuration: fn() -> Builder,
    problem: &'static str,
    refusal: Option<&'static str>,
}

const MISFITS: [Misfit; 4] = [
    Misfit {
        configuration: || builder().set("shared_preload_libraries", "citus"),
        problem: "snowflake_pg is not loaded via shared_preload_libraries",
        refusal: Some("snowflake_pg must be loaded via shared_preload_libraries to issue IDs"),
    },
    Misfit {
        configuration: || builder().set("snowflake_pg.worker_id", ""),
        problem: "snowflake_pg.worker_id is not set",
        refusal: Some("this server has no worker ID"),
    },
    Misfit {
        configuration: || builder().set("snowflake_pg.layout", "sonyflake"),
        problem: "other layout than this server",
        refusal: None,
    },
    Misfit {
        configuration: || builder().set("snowflake_pg.worker_id", 0),
        problem: "same worker ID as this server",
        refusal: None,
    },
];

pub fn run() -> Result<(), Failed> {
    let builders = [builder()].into_iter().chain(MISFITS.map(|misfit| (misfit.configuration)()));
    let nodes: Vec<_> = builders.map(start).collect();
    form_cluster(&nodes);
    let mut client = nodes[0].connect();
    execute(&mut client, TABLES);
    // Those that fit, but for the layout, find their groups some time after the start.
    for node in [0, 3] {
        nodes[node].wait_until(&format!("SELECT worker_id = {node} FROM snowflake_status"));
    }
    let check = format!("SELECT address, problem FROM {FLEET} WHERE server > 0");
    let found: Vec<(String, Option<String>)> =
        client.query(&check, &[])?.iter().map(|row| (row.get(0), row.get(1))).collect();
    for (misfit, node) in MISFITS.iter().zip(&nodes[1..]) {
        let address = node.host().display().to_string();
        let said = found.iter().find(|(found, _)| found.starts_with(&address)).and_then(|(_, said)| said.as_deref());
        let refused = insert_on(&mut client, node);
        let named = refused.as_ref().map(|error| (error.message(), error.where_().unwrap_or_default()));
        println!("{}: {}", said.unwrap_or("no problem"), named.map_or("no error", |(_, context)| context));
        let is_named = match (named, misfit.refusal) {
            (Some((message, context)), Some(expected)) => message == expected && context.contains(&address),
            (none, expected) => none.is_none() && expected.is_none(),
        };
        if said != Some(misfit.problem) || !is_named {
            return Err(format!("{said:?} instead of {:?}, {refused:?}", misfit.problem).into());
        }
    }
    Ok(())
}

/// Inserts rows whose IDs this node issues.
fn insert_on(client: &mut Client, node: &Cluster) -> Option<DbError> {
    let of_node = format!(
        "SELECT string_agg(tenant::text, ',')
         FROM (SELECT tenant, get_shard_id_for_distribution_column('orders', tenant) AS shardid FROM source) tenants
             JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
         WHERE nodename = '{}'",
        node.host().display()
    );
    let tenants: String = client.query_one(&of_node, &[]).expect("tenants").get(0);
    let insert = format!("INSERT INTO orders (tenant) SELECT tenant FROM source WHERE tenant IN ({tenants})");
    client.batch_execute(&insert).err().map(|error| error.as_db_error().expect("an answer").clone())
}
