//! Each client finds rows by their time, as docs/clients.md shows.

use super::program;
use testbed::{Cluster, test};

/// A row each of two hours ago, of half an hour ago and of now.
fn server(addresses: &str) -> Cluster {
    let cluster = Cluster::builder().worker(7).set("listen_addresses", addresses).start();
    let rows = "CREATE EXTENSION snowflake_pg;
        CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
        INSERT INTO orders
        VALUES (snowflake_min_id(now() - interval '2 hours'), 1), (snowflake_min_id(now() - interval '30 minutes'), 2);
        INSERT INTO orders (n) VALUES (3)";
    cluster.connect().batch_execute(rows).expect("rows");
    cluster
}

/// Programs print the rows `since` an hour ago, and some those `until` then.
fn find(programs: &[&str], server: &Cluster) {
    for program in programs {
        let printed = program::run(program, server);
        let found = printed.as_object().expect("queries");
        assert!(found.keys().any(|query| query.starts_with("since")), "{program}");
        for (query, rows) in found {
            let expected: &[i32] = if query.starts_with("since") { &[2, 3] } else { &[1] };
            assert_eq!(*rows, serde_json::json!(expected), "{program}: {query}");
        }
    }
}

pub const PYTHON: [&str; 3] = ["python/within_sqlalchemy.py", "python/within_django.py", "python/within_drivers.py"];

pub const OTHERS: [&str; 7] = [
    "node/within.js",
    "prisma/within.js",
    "php/within.php",
    "ruby/within.rb",
    "go/within.go",
    "java/Within.java",
    "rust/within.rs",
];

#[test]
fn clients_of_python_find_rows_by_their_time() {
    find(&PYTHON, &server(""));
}

#[test(By("make suite NAME=clients"))]
fn clients_of_other_languages_find_rows_by_their_time() {
    find(&OTHERS, &server(program::address("java/Within.java")));
}
