//! What this server is, as another one compares it.

use super::row::{Column, Row, column};
use super::status::{is_in_recovery, state};
use super::time::timestamptz_us;
use crate::clock;
use crate::config::{gucs, preload};
use crate::server_encoding::shown;
use crate::worker;
use pgrx::prelude::*;

/// What tells this server from others, in one row.
#[pg_extern(sql = false)]
fn snowflake_identity() -> Row<9> {
    let found = preload::is_done().then(|| (worker::datacenter(), worker::worker()));
    let (datacenter, worker) = found.unwrap_or_default();
    let number = |number: u64| i32::try_from(number).ok();
    Row([
        column(system_identifier().cast_signed()),
        column(datacenter.and_then(|found| number(found.number))),
        column(worker.as_ref().and_then(|found| number(found.number))),
        column(worker.map(|found| shown(&found.source))),
        column(state()),
        gucs::layout().map_or(Column::NULL, |layout| column(layout.to_string())),
        column(timestamptz_us(clock::microseconds(clock::since_1970()))),
        column(env!("CARGO_PKG_VERSION")),
        column(is_in_recovery()),
    ])
}

/// What all copies of a database cluster share. Its upper half is when initdb made the cluster, in seconds since 1970.
pub fn system_identifier() -> u64 {
    // SAFETY: read from the control file before the postmaster loads any library.
    unsafe { pg_sys::GetSystemIdentifier() }
}
