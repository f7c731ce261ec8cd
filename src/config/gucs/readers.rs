//! The parameter of readers by ID.

use super::parameter::{Define, Parameter, Switch};
use pgrx::pg_sys::GucContext::PGC_POSTMASTER;

pub(super) static PARAMETERS: &[&dyn Define] = &[&TRACK_WRITERS];

static TRACK_WRITERS: Parameter<Switch> = Parameter {
    name: c"snowflake_pg.track_writers",
    short: c"Tracks the first ID of each transaction until the transaction ends, for readers by ID.",
    long: c"snowflake_horizon(), snowflake_poll() and snowflake_writers need it.",
    context: PGC_POSTMASTER,
    flags: 0,
    value: Switch::new(true),
};

/// Whether the first ID of each transaction is kept until it ends.
pub fn track_writers() -> bool {
    TRACK_WRITERS.get()
}
