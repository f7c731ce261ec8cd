//! True time, and lengths of time.

/// Microseconds since 1970-01-01T00:00:00Z.
pub type Micros = u64;

pub const SECOND: Micros = 1_000_000;
pub const MINUTE: Micros = 60 * SECOND;
pub const HOUR: Micros = 60 * MINUTE;
pub const DAY: Micros = 24 * HOUR;

/// When the simulation begins, in true time: 2027-01-15.
pub const BEGIN: Micros = 1_800_000_000 * SECOND;
