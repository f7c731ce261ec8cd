//! Programs and extensions that many fleets have beside snowflake_pg. Each test is skipped, aloud, where its package is
//! missing: `tools/setup integrations` installs Debian's.

mod cron;
mod decoding;
mod partman;
mod pgbouncer;

use testbed::{pg_config, postgres::Client};

/// Whether PostgreSQL has a library; says so if not.
fn has_library(name: &str) -> bool {
    let library = pg_config("--pkglibdir").join(format!("{name}.so"));
    if !library.exists() {
        println!("skipped: there is no {}", library.display());
    }
    library.exists()
}

/// Every value of the only column that a query returns.
fn column(client: &mut Client, query: &str) -> Vec<String> {
    let rows = client.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}
