//! The parameters of a server: its worker and its layout.

use super::checks::{check_datacenter, check_layout, check_worker};
use super::parameter::{Define, Parameter, Text};
use super::raw_setting;
use crate::config::{layout_cache, preload};
use once_cell::sync::OnceCell;
use pgrx::pg_sys::GucContext::{PGC_INTERNAL, PGC_POSTMASTER};
use pgrx::pg_sys::{GUC_NO_SHOW_ALL, GUC_NOT_IN_SAMPLE};
use snowflake_core::id::layout::{Layout, LayoutError};
use std::ffi::{CStr, CString};

pub(super) static PARAMETERS: &[&dyn Define] = &[&WORKER_ID, &DATACENTER_ID, &LAYOUT, &CITUS_DATABASE, &OWN_WORKER];

static WORKER_ID: Parameter<Text> = Parameter {
    name: c"snowflake_pg.worker_id",
    short: c"Sets the worker ID of this server, or where it comes from.",
    long: c"A number, or hostname, env:VARIABLE, file:/path, ipv4, ipv4:network/bits, citus or registry. No two servers of \
        a data center may have the same number. If it is empty, no ID is issued.",
    // mutant: worker-fixed
    context: PGC_POSTMASTER,
    flags: 0,
    value: Text::checked(c"", check_worker),
};

/// The worker ID, or where it comes from: a text of [`snowflake_core::server::number_source`].
pub fn worker_id() -> String {
    WORKER_ID.get_lossy()
}

static DATACENTER_ID: Parameter<Text> = Parameter {
    name: c"snowflake_pg.datacenter_id",
    short: c"Sets the data center of this server, or where it comes from.",
    long: c"A number, or a source as for worker_id. Only for layouts with this field.",
    context: PGC_POSTMASTER,
    flags: 0,
    value: Text::checked(c"0", check_datacenter),
};

/// The data center, or where it comes from.
pub fn datacenter_id() -> String {
    DATACENTER_ID.get_lossy()
}

static LAYOUT: Parameter<Text> = Parameter {
    name: c"snowflake_pg.layout",
    short: c"Sets which bits of an ID are its timestamp, data center, worker and sequence.",
    long: c"A name in snowflake_layouts, or fields from the highest bits to the lowest (t41 d5 w5 s12), then unit= \
        and epoch=. Must be the same on all servers of a fleet.",
    context: PGC_POSTMASTER,
    flags: 0,
    value: Text::checked(DEFAULT_LAYOUT, check_layout),
};

const DEFAULT_LAYOUT: &CStr = c"flat";

/// The text of the layout. Without preload the parameter is not defined, but PostgreSQL keeps its text.
pub fn layout_text() -> CString {
    if preload::is_done() {
        LAYOUT.get()
    } else {
        raw_setting(LAYOUT.name).unwrap_or_else(|| DEFAULT_LAYOUT.to_owned())
    }
}

/// The layout in force.
pub fn layout() -> Result<Layout, LayoutError> {
    static PRELOADED: OnceCell<Layout> = OnceCell::new();
    if preload::is_done() {
        PRELOADED.get_or_try_init(|| layout_cache::by_text(layout_text().to_bytes())).copied()
    } else {
        layout_cache::by_text(layout_text().to_bytes())
    }
}

static CITUS_DATABASE: Parameter<Text> = Parameter {
    name: c"snowflake_pg.citus_database",
    short: c"Sets the database with the metadata of Citus, for worker_id = citus.",
    long: c"The number of this node is read from it.",
    context: PGC_POSTMASTER,
    flags: 0,
    value: Text::new(c"postgres"),
};

/// The database with the metadata of Citus.
pub fn citus_database() -> CString {
    CITUS_DATABASE.get()
}

/// For the script of a registry in plain SQL, in a database that may lack the extension.
static OWN_WORKER: Parameter<Text> = Parameter {
    name: c"snowflake_pg.own_worker_id",
    short: c"Shows the worker that this server has without a registry, as a registry numbers it.",
    long: c"\"registry\" if a registry leases it. Empty: none, or not known when the server starts.",
    context: PGC_INTERNAL,
    flags: GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
    value: Text::new(c""),
};

/// Shows which worker this server has. Only in the postmaster, while it preloads.
pub fn show_own_worker(worker: &CStr) {
    OWN_WORKER.show(worker);
}
