//! A function that Citus runs where the rows of its argument are.

use super::nodes::Citus;
use super::servers::execute;
use libtest_mimic::Failed;
use std::collections::BTreeSet;
use testbed::{default_layout, value};

/// Citus wants them in transactions of their own.
const SET_UP: [&str; 4] = [
    "CREATE TABLE delegated (tenant integer, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (tenant, id))",
    "SELECT create_distributed_table('delegated', 'tenant')",
    "CREATE FUNCTION put(tenant integer) RETURNS bigint LANGUAGE plpgsql AS
     'DECLARE made bigint;
      BEGIN
          INSERT INTO delegated (tenant) VALUES (put.tenant) RETURNING id INTO made;
          RETURN made;
      END'",
    "SELECT create_distributed_function('put(integer)', 'tenant', colocate_with => 'delegated')",
];

pub fn run(citus: &Citus) -> Result<(), Failed> {
    let mut client = citus.nodes[0].connect();
    SET_UP.iter().for_each(|statement| execute(&mut client, statement));
    let mut issuers = BTreeSet::new();
    for tenant in 1..=20 {
        let id: u64 = value(&mut client, &format!("SELECT put({tenant})")).parse()?;
        let node: u64 = value(
            &mut client,
            &format!(
                "SELECT groupid FROM pg_dist_placement
                 WHERE shardid = get_shard_id_for_distribution_column('delegated', {tenant})"
            ),
        )
        .parse()?;
        let issuer = default_layout().unpack(id).worker.expect("a worker ID");
        if issuer != node {
            return Err(format!("node {issuer} has issued ID {id} of tenant {tenant}, which is on node {node}").into());
        }
        issuers.insert(issuer);
    }
    execute(&mut client, "DROP FUNCTION put; DROP TABLE delegated");
    if issuers.len() == 2 { Ok(()) } else { Err(format!("issued by {issuers:?} alone").into()) }
}
