//! True time, and lengths of time.

/// Microseconds since 1970-01-01T00:00:00Z.
pub type Micros = u64;

/// A second.
pub const SECOND: Micros = 1_000_000;
/// A minute.
pub const MINUTE: Micros = 60 * SECOND;
/// An hour.
pub const HOUR: Micros = 60 * MINUTE;
/// A day.
pub const DAY: Micros = 24 * HOUR;

/// When the simulation begins, in true time: 2027-01-15.
pub const BEGIN: Micros = 1_800_000_000 * SECOND;
