//! The schema of examples/sql for Citus.

use super::nodes::Citus;
use super::places::{ids, nodes_of};
use super::servers::execute;
use libtest_mimic::Failed;
use std::collections::BTreeMap;
use std::process::Stdio;
use testbed::{project, value};

pub fn run(citus: &Citus) -> Result<(), Failed> {
    let coordinator = &citus.nodes[0];
    let script = project().join("examples/sql/sharded_orders_citus.sql");
    let output = coordinator.psql().arg("--file").arg(script).stdin(Stdio::null()).output().expect("psql");
    assert!(output.status.success(), "{output:?}");
    let mut client = citus.nodes[1].connect();
    client
        .batch_execute(
            "INSERT INTO customers (name) SELECT 'Ada' FROM generate_series(1, 100);
             INSERT INTO orders (customer_id, item) SELECT id, 'tea' FROM customers",
        )
        .expect("orders");
    assert_eq!(value(&mut client, "SELECT count(*) || ' ' || count(DISTINCT id) FROM orders"), "100 100");
    let customers = ids(&mut client, "SELECT customer_id FROM orders");
    assert_eq!(nodes_of(&mut client, "orders", &customers)?, BTreeMap::from([(1, 100)]), "the orders' nodes");
    execute(&mut coordinator.connect(), "DROP TABLE orders, customers");
    Ok(())
}
