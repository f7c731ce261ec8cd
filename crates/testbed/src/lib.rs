//! Throwaway PostgreSQL servers with the extension installed: for tests, the demonstration and benchmarks.
//!
//! Nothing is installed into the system and nothing is left behind: each server runs from a private copy of the
//! PostgreSQL installation, in a temporary directory, on Unix sockets only, and stops when its [`Cluster`] is dropped
//! or the process dies. PostgreSQL refuses to run as root, so root's servers run as the user `postgres`.

mod cluster;
mod copies;
mod disk;
mod faults;
mod host;
mod installation;
mod load;
mod overlay;
mod scratch;
mod state_file;

pub use cluster::{Builder, Cluster};
pub use disk::Disk;
pub use disk_faults_protocol::Order;
pub use faults::Frozen;
pub use installation::{Installation, library, make_install, pg_config, project};
pub use load::{Load, Report, Witness, real_time};
pub use postgres;
pub use rustix::process::Signal;
pub use scratch::shield;
pub use state_file::mark_in;

use postgres::Client;
use postgres::error::DbError;
use snowflake_core::UnixMs;
use snowflake_core::layout::Layout;

/// The server's error that a query must end with.
pub fn error(client: &mut Client, query: &str) -> DbError {
    match client.simple_query(query) {
        Ok(_) => panic!("{query} must fail"),
        Err(error) => error.as_db_error().unwrap_or_else(|| panic!("{query}: {error:?}")).clone(),
    }
}

/// The only value that a query returns, as psql would show it; "NULL" for NULL.
pub fn value(client: &mut Client, query: &str) -> String {
    let messages = client.simple_query(query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let values: Vec<_> = rows.map(|row| row.get(0).unwrap_or("NULL").to_owned()).collect();
    assert_eq!(values.len(), 1, "{query} must return one row: {values:?}");
    values.concat()
}

/// What an EXPLAIN shows.
pub fn plan(client: &mut Client, explain: &str) -> String {
    let rows = client.query(explain, &[]).unwrap_or_else(|error| panic!("{explain}: {error:?}"));
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// The layout of servers that were not told another one.
pub fn twitter() -> Layout {
    "twitter".parse().expect("a preset")
}

/// When an ID of that layout says that it was issued.
pub fn issued_at(id: i64) -> UnixMs {
    assert!(id > 0, "{id} has wrapped");
    twitter().issued_at(id.cast_unsigned())
}
