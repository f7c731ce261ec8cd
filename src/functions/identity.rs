//! What this server is, as another one compares it.

use super::row::{Row, column};
use super::state::{Condition, is_in_recovery};
use super::time::timestamptz_us;
use crate::config::{gucs, preload};
use crate::postgres::clock;
use crate::postgres::server_encoding::displayable;
use crate::worker;
use pgrx::prelude::*;

/// What tells this server from others, in one row.
#[pg_extern(sql = false)]
fn snowflake_identity() -> Row {
    let numbers = preload::is_done().then(|| (worker::datacenter(), worker::worker()));
    let (datacenter, worker) = numbers.unwrap_or_default();
    let number = |number: u64| i32::try_from(number).ok();
    let layout = gucs::layout().ok();
    let datacenter = datacenter.filter(|_| layout.is_none_or(|layout| layout.has_datacenter()));
    Row::new([
        ("system_identifier", column(system_identifier().cast_signed())),
        ("datacenter_id", column(datacenter.and_then(|resolved| number(resolved.number)))),
        ("worker_id", column(worker.as_ref().and_then(|resolved| number(resolved.number)))),
        ("worker_id_source", column(worker.map(|resolved| displayable(&resolved.source)))),
        ("state", column(Condition::now().state)),
        ("layout", column(layout.map(|layout| layout.to_string()))),
        ("clock", column(timestamptz_us(clock::microseconds(clock::since_1970())))),
        ("library_version", column(env!("CARGO_PKG_VERSION"))),
        ("in_recovery", column(is_in_recovery())),
    ])
}

/// What all copies of a database cluster share. Its upper half is when initdb made the cluster, in seconds since 1970.
pub fn system_identifier() -> u64 {
    // SAFETY: read from the control file before the postmaster loads any library.
    unsafe { pg_sys::GetSystemIdentifier() }
}
