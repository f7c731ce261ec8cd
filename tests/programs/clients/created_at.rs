//! Filters and orders by a `created_at` that the server computes use the key, as docs/clients.md shows.

use super::program;
use testbed::{Cluster, needed, pg_config, postgresql, test, value};

/// Programs, and the type that their column has.
const PYTHON: [(&str, &str); 2] =
    [("python/created_at_django.py", "timestamptz"), ("python/created_at_sqlalchemy.py", "timestamptz")];
const OTHERS: [(&str, &str); 5] = [
    ("node/created_at_drizzle.js", "timestamptz"),
    ("node/created_at_typeorm.js", "timestamptz"),
    ("node/created_at_sequelize.js", "timestamptz"),
    ("prisma/created_at.js", "timestamp"),
    ("ruby/created_at.rb", "timestamp"),
];

/// What docs/clients.md shows.
pub fn programs() -> impl Iterator<Item = &'static str> {
    PYTHON.iter().chain(&OTHERS).map(|(program, _)| *program).chain(["prisma/created_at/schema.prisma"])
}

/// A program finds the rows of two hours and of half an hour ago, and the new one, and makes a fourth.
fn run(program: &str, of_type: &str) {
    needed(pg_config("--pkglibdir").join("auto_explain.so"));
    let server = Cluster::builder()
        .worker(7)
        .set("shared_preload_libraries", "snowflake_pg,auto_explain")
        .set("auto_explain.log_min_duration", 0)
        // Some clients send times without a zone.
        .set("timezone", "Asia/Tokyo")
        .set("enable_seqscan", "off")
        .set("enable_bitmapscan", "off")
        .start();
    let stored = postgresql() < 18;
    let rows = format!(
        "CREATE EXTENSION snowflake_pg;
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
         SELECT snowflake_add_created_at('orders', of_type => '{of_type}', stored => {stored});
         INSERT INTO orders
         VALUES (snowflake_min_id(now() - interval '2 hours'), 1), (snowflake_min_id(now() - interval '30 minutes'), 2);
         INSERT INTO orders (n) VALUES (3)"
    );
    let mut client = server.connect();
    client.batch_execute(&rows).expect("rows");
    let before = server.log().len();
    let printed = program::run(program, &server);
    let log = server.log().split_off(before);
    let ms = value(
        &mut client,
        "SELECT (extract(epoch FROM snowflake_timestamp(id)) * 1000)::bigint FROM orders WHERE n = 4",
    );
    let created: i64 = ms.parse().expect("a number");
    let expected = serde_json::json!({ "since": [2, 3], "until": [1], "created": created, "latest": 4, "page": [3] });
    assert_eq!(printed, expected, "{program}");

    let mut seen = [0, 0];
    for entry in log.split("Query Text: ").skip(1) {
        let (query, plan) = entry.split_at(entry.find("(cost=").expect("a plan"));
        let (query, node) = query.rsplit_once('\n').expect("a query before its plan");
        let plan = format!("{node}{plan}");
        // Sequelize orders by the name of the attribute.
        let query = query.to_lowercase().replace("createdat", "created_at");
        let (of_rows, order) = query.split_once("order by").unwrap_or((&query, ""));
        let condition = of_rows.split_once("where").map_or("", |(_, condition)| condition);
        if condition.contains("created_at") {
            assert!(plan.contains("Index Cond: (") && plan.contains("(id >= "), "{program}: {query}\n{plan}");
            seen[0] += 1;
        }
        if order.contains("created_at") {
            assert!(plan.contains("Index Scan Backward using orders_pkey"), "{program}: {query}\n{plan}");
            seen[1] += 1;
        }
        let is_of_orders = query.contains("created_at");
        assert!(!is_of_orders || !plan.contains("Sort") && !plan.contains("Filter"), "{program}: {query}\n{plan}");
    }
    assert!(seen[0] >= 2 && seen[1] >= 3, "{program}: {seen:?}\n{log}");
}

#[test]
fn filters_and_orders_of_python_by_created_at_use_the_key() {
    PYTHON.iter().for_each(|(program, of_type)| run(program, of_type));
}

#[test(By("make suite NAME=clients"))]
fn filters_and_orders_of_other_clients_by_created_at_use_the_key() {
    OTHERS.iter().for_each(|(program, of_type)| run(program, of_type));
}
