//! The schema of examples/sql for Citus.

use super::nodes::Citus;
use libtest_mimic::Failed;
use std::process::Stdio;
use testbed::{project, value};

pub fn run(citus: &Citus) -> Result<(), Failed> {
    let coordinator = &citus.nodes[0];
    let script = project().join("examples/sql/sharded_orders_citus.sql");
    let output = coordinator.psql().arg("--file").arg(script).stdin(Stdio::null()).output().expect("psql");
    assert!(output.status.success(), "{output:?}");
    let mut client = coordinator.connect();
    client
        .batch_execute(
            "INSERT INTO customers (name) SELECT 'Ada' FROM generate_series(1, 100);
             INSERT INTO orders (customer_id, item) SELECT id, 'tea' FROM customers",
        )
        .expect("orders");
    assert_eq!(value(&mut client, "SELECT count(*) || ' ' || count(DISTINCT id) FROM orders"), "100 100");
    client.batch_execute("DROP TABLE orders, customers").expect("no tables");
    Ok(())
}
