//! What a Snowflake ID is, apart from any database.
//!
//! - [`id`]: what an ID is: its layout, its other forms, and the times that its timestamps cover.
//! - [`issue`]: the lock-free state that the backends of a server share.
//! - [`server`]: which worker a server is, and which servers could issue the same IDs.
//! - [`mark`]: the durable mark: when it is written, where to, and where a server that finds it may begin.
//! - [`registry_client`]: when the registry is asked for a lease, and what is kept of its answer.
//! - [`formats`]: the bytes of what a server keeps, with their places.
//! - [`words`](mod@words): the words of parameters.
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

pub mod formats;
pub mod id;
pub mod issue;
pub mod mark;
pub mod registry_client;
pub mod server;
pub mod words;

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
