//! Filters by a `created_at` that is not stored use the key, unchanged, as docs/time.md shows.

use super::program;
use testbed::{Cluster, postgresql, test};

pub const PYTHON: [&str; 2] = ["python/created_at_django.py", "python/created_at_sqlalchemy.py"];

#[test]
fn filters_and_orders_of_frameworks_by_created_at_use_the_key() {
    for program in PYTHON {
        let server = Cluster::builder().worker(7).start();
        let stored = postgresql() < 18;
        let rows = format!(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
             SELECT snowflake_add_time('orders', stored => {stored});
             INSERT INTO orders
             VALUES (snowflake_min_id(now() - interval '2 hours'), 1), (snowflake_min_id(now() - interval '30 minutes'), 2);
             INSERT INTO orders (n) VALUES (3)"
        );
        server.connect().batch_execute(&rows).expect("rows");
        let printed = program::run(program, &server);
        assert_eq!(printed["found"], serde_json::json!({ "since": [2, 3], "until": [1] }), "{program}");
        for plan in printed["plans"].as_array().expect("plans") {
            let plan = plan.as_str().expect("a plan");
            assert!(plan.contains("Index Scan Backward using orders_pkey"), "{program}: {plan}");
            assert!(plan.contains("Index Cond: (id >= ") && !plan.contains("Sort"), "{program}: {plan}");
        }
    }
}
