//! The parameters of queries.

use super::parameter::{Define, Parameter, Switch};
use pgrx::pg_sys;
use pgrx::pg_sys::GucContext::{PGC_POSTMASTER, PGC_USERSET};

pub(super) static PARAMETERS: &[&dyn Define] = &[&ENABLE_TIME_RANGES, &TRACK_WRITERS];

static ENABLE_TIME_RANGES: Parameter<Switch> = Parameter {
    name: c"snowflake_pg.enable_time_ranges",
    short: c"Lets conditions on the time of an ID use an index on the ID.",
    long: c"WHERE snowflake_timestamp(id) > now() - interval '1 hour' is planned as a range of IDs.",
    context: PGC_USERSET,
    flags: pg_sys::GUC_EXPLAIN,
    value: Switch::new(true),
};

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

/// Whether conditions on the time of an ID are planned as ranges of IDs.
pub fn enable_time_ranges() -> bool {
    ENABLE_TIME_RANGES.get()
}
