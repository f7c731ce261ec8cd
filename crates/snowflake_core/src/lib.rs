//! What a Snowflake ID is, apart from any database.
//!
//! - [`layout`]: where the bits are; composing, decoding and explaining an ID.
//! - [`generator`]: the lock-free state all backends of a server share.
//! - [`horizon`]: below which position no row can appear any more.
//! - [`mark`]: when the durable mark is written, where to and in which order; [`reservation`]: how far ahead of the clock.
//! - [`identity`], [`record`]: whose mark it is, and what is kept with it; [`state_file`], [`life`]: in which bytes.
//! - [`start_table`]: where a server that finds it may begin.
//! - [`lease`]: a worker that a registry has granted for a time; [`registry_client`]: when the registry is asked, and what
//!   is kept of its answer.
//! - [`fleet`]: which servers could issue the same IDs.
//! - [`number_source`]: where a server's worker ID comes from, so that a fleet can share one configuration.
//! - [`periods`]: the periods of time that partitions of a table hold.
//! - [`forward_jump`]: whether to trust a clock that has jumped ahead.
//! - [`encrypt`]: IDs that tell outsiders nothing.
//! - [`text`], [`uuid`]: other forms of an ID, which hold the same number.
//!
//! Time is always an argument, and nothing here sleeps or uses a file. So every promise can be tested with any clock,
//! any schedule and any crash.
//!
//! # Words
//!
//! - **Unix milliseconds**: milliseconds since 1970-01-01T00:00:00Z, without leap seconds; the unit of the durable
//!   mark.
//! - **Tick**: one step of an ID's timestamp, counted from the layout's epoch.
//! - **Position**: `tick << sequence_bits | sequence`: the place of an ID on the line of all the IDs that one worker
//!   can ever issue. Positions and IDs of one worker sort alike.
//! - **Durable mark**: a point in time that is on disk; every timestamp issued is below it.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod encrypt;
pub mod fleet;
pub mod forward_jump;
pub mod generator;
pub mod history;
pub mod horizon;
pub mod identity;
pub mod layout;
pub mod lease;
pub mod life;
pub mod mark;
pub mod number_source;
pub mod periods;
pub mod policy;
pub mod record;
pub mod registry_client;
pub mod reservation;
pub mod start_table;
pub mod state_file;
mod sync;
pub mod text;
pub mod uuid;
pub mod wal_page;

/// Milliseconds since 1970-01-01T00:00:00Z.
pub type UnixMs = u64;

/// A step of an ID's timestamp, counted from the layout's epoch in the layout's unit.
pub type Tick = u64;

/// `tick << sequence_bits | sequence`: the place of an ID on the line of all IDs of one worker.
pub type Position = u64;

/// The greatest ID that a `bigint` holds.
pub const MAX_ID: u64 = i64::MAX.cast_unsigned();

/// Writes a point in time as people read it, for messages: `2024-01-01T00:00:00.123Z`, or the bare number where
/// the calendar ends (after the year 9999).
pub fn display_time(at: UnixMs) -> String {
    i64::try_from(at)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| format!("{at} ms after 1970"), |timestamp| timestamp.to_string())
}
