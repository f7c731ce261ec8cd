//! Functions that depend on the layout, in the clauses for which Citus wants them IMMUTABLE.

use super::nodes::{COLUMNAR, Citus, KINDS, Kind, NODES, OURS, SENT_TO, fill};
use super::servers::message;
use libtest_mimic::Failed;
use testbed::postgres::Error;

const MARK: &str = "clauses";

/// Statements that each concern three rows.
const STATEMENTS: &[&str] = &[
    "DELETE FROM {table} WHERE snowflake_within(id, now() - interval '1 min', 'infinity') AND note = '{mark}'",
    "DELETE FROM {table} WHERE snowflake_timestamp(id) > now() - interval '1 min' AND note = '{mark}'",
    "DELETE FROM {table} WHERE note = '{mark}' RETURNING snowflake_timestamp(id)",
    "UPDATE {table} SET note = '' WHERE snowflake_timestamp(id) > now() - interval '1 min' AND note = '{mark}'",
    "UPDATE {table} SET made = snowflake_timestamp(id) WHERE note = '{mark}'",
    "UPDATE {table} SET note = '' WHERE note = '{mark}' RETURNING snowflake_timestamp(id)",
    "WITH gone AS (DELETE FROM {table} WHERE note = '{mark}' RETURNING snowflake_timestamp(id)) SELECT * FROM gone",
    "INSERT INTO {table} (tenant) VALUES (1), (2), (3) RETURNING snowflake_timestamp(id)",
    "INSERT INTO {table} (tenant, id) VALUES (1, 1), (2, 2), (3, 3)
     ON CONFLICT ({key}) DO UPDATE SET made = snowflake_timestamp(excluded.id)",
];

/// Sends each statement to each node, for each kind of table.
pub fn run(citus: &Citus) -> Result<(), Failed> {
    let mut wrong = Vec::new();
    // Citus updates and deletes no rows of columnar tables, which most clauses do.
    let kinds = KINDS.iter().filter(|kind| kind.name != COLUMNAR);
    for (kind, to) in kinds.flat_map(|kind| SENT_TO.map(|node| (kind, node))) {
        for text in STATEMENTS {
            let complaint = match rows(citus, kind, to, text) {
                Ok(3) => continue,
                Ok(rows) => format!("{rows} rows instead of 3"),
                Err(error) => message(&error),
            };
            wrong.push(format!("{}, sent to {}: {complaint}: {text}", kind.name, NODES[to]));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// How many rows a statement finds, in a transaction that inserts three and is rolled back.
fn rows(citus: &Citus, kind: &Kind, to: usize, text: &str) -> Result<u64, Error> {
    let fill = |text| fill(text, kind, OURS, MARK);
    let mut client = citus.nodes[to].connect();
    let mut transaction = client.transaction()?;
    transaction.batch_execute(&fill(
        "INSERT INTO {table} (tenant, note) VALUES (1, '{mark}'), (2, '{mark}'), (3, '{mark}')",
    ))?;
    transaction.execute(&fill(text), &[])
}
