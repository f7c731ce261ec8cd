//! Clients that read rows within rows. Most have the server make JSON of the inner rows, and parse that as JavaScript
//! does.

use super::program;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use testbed::{Cluster, project, test};

/// A row of the table in docs/clients.md.
struct Client {
    name: &'static str,
    /// In tests/programs/clients, with an argument.
    program: &'static str,
    argument: &'static str,
    /// The type of the key, which the server has.
    key: &'static str,
    layout: &'static str,
    outcome: Outcome,
}

/// The keys of inner rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Right,
    Rounded,
}

use Outcome::{Right, Rounded};

const CLIENTS: [Client; 8] = [
    of("Drizzle 0.45.4, `db.query` and `with`", "node/nested_drizzle.js", "bigint", "bigint", Rounded),
    of("Drizzle 0.45.4, `db.query` and `with`", "node/nested_drizzle.js", "snowflake", "snowflake", Right),
    // The model may keep `mode: "bigint"`.
    of("Drizzle 0.45.4, `db.query` and `with`", "node/nested_drizzle.js", "bigint", "snowflake", Right),
    of("Kysely 0.28.19, `jsonArrayFrom`", "node/nested_kysely.js", "", "bigint", Rounded),
    of("Kysely 0.28.19, `jsonArrayFrom`", "node/nested_kysely.js", "", "snowflake", Right),
    of("Prisma 7.10.0, `include`", "prisma/nested.js", "query", "bigint", Right),
    of("Prisma 7.10.0, `include` by `join`", "prisma/nested.js", "join", "bigint", Right),
    Client {
        layout: "js",
        ..of("Drizzle 0.45.4, `db.query` and `with`", "node/nested_drizzle.js", "bigint", "bigint", Right)
    },
];

const fn of(
    name: &'static str,
    program: &'static str,
    argument: &'static str,
    key: &'static str,
    outcome: Outcome,
) -> Client {
    Client { name, program, argument, key, layout: "flat", outcome }
}

impl Client {
    fn run(&self) {
        let what = format!("{}, {} in layout {}", self.name, self.key, self.layout);
        let cluster = Cluster::builder().worker(7).set("snowflake_pg.layout", self.layout).start();
        let mut client = cluster.connect();
        client
            .batch_execute(&format!(
                "CREATE EXTENSION snowflake_pg;
                 CREATE TABLE customers (id {0} PRIMARY KEY DEFAULT snowflake_nextval());
                 CREATE TABLE orders (
                     id {0} PRIMARY KEY DEFAULT snowflake_nextval(), n integer NOT NULL,
                     customer_id {0} NOT NULL REFERENCES customers);
                 INSERT INTO customers DEFAULT VALUES;
                 INSERT INTO orders (n, customer_id) SELECT n, id FROM customers, generate_series(1, 100) n",
                self.key
            ))
            .expect("rows");
        let mut command = program::command(self.program);
        let output = command.arg(self.argument).envs(cluster.environment()).output().expect("Node.js");
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");

        let rows = client.query("SELECT n, id::text, customer_id::text FROM orders", &[]).expect("rows");
        let rows: HashMap<String, [String; 2]> =
            rows.iter().map(|row| (row.get::<_, i32>(0).to_string(), [row.get(1), row.get(2)])).collect();
        assert_eq!(printed["customers"], serde_json::json!([rows["1"][1]]), "{what}");
        let printed = printed["orders"].as_object().expect("orders");
        assert_eq!(printed.len(), 100, "{what}");
        let right = rows.iter().filter(|(n, keys)| printed[*n][0] == keys[0]).count();
        match self.outcome {
            Right => assert!(rows.iter().all(|(n, keys)| printed[n] == serde_json::json!(keys)), "{what}: {printed:?}"),
            // Every 256th number is a float.
            Rounded => assert!(right < 10, "{what}: {right}"),
        }
    }
}

#[test(By("make suite NAME=clients"))]
fn clients_read_the_ids_of_rows_within_rows_as_documented() {
    CLIENTS.iter().for_each(Client::run);
}

#[test]
fn the_document_on_clients_says_what_becomes_of_rows_within_rows() {
    let document = fs::read_to_string(project().join("docs/clients.md")).expect("a document");
    let outcome = |name: &str, key: &str| {
        let found = CLIENTS.iter().find(|client| (client.name, client.key, client.layout) == (name, key, "flat"));
        found.map_or("cannot use it", |client| if client.outcome == Right { "right" } else { "rounded" })
    };
    for client in &CLIENTS {
        let row =
            format!("| {} | {} | {} |", client.name, outcome(client.name, "bigint"), outcome(client.name, "snowflake"));
        assert!(document.contains(&row), "docs/clients.md lacks {row}");
    }
}

pub const PROGRAMS: [&str; 3] = ["node/nested_drizzle.js", "node/nested_kysely.js", "node/snowflake_type.js"];
