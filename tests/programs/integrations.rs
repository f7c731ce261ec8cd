//! Programs and extensions that many fleets have beside snowflake_pg. Each test is skipped where its package is
//! missing: `tools/setup integrations` installs Debian's.

mod cron;
mod decoding;
mod partman;
mod pgbouncer;
mod plpgsql_check;

use testbed::{needed, pg_config, postgres::Client};

/// A test that needs a library of PostgreSQL's is skipped without it.
fn need_library(name: &str) {
    needed(pg_config("--pkglibdir").join(format!("{name}.so")));
}

/// Every value of the only column that a query returns.
fn column(client: &mut Client, query: &str) -> Vec<String> {
    let rows = client.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}
