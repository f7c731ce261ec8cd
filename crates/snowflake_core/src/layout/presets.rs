//! Layouts with a name.

use super::FieldKind::{self, Datacenter, Sequence, Timestamp, Worker};
use crate::UnixMs;

/// A layout that can be asked for by name.
pub(super) struct Preset {
    /// What to write in `snowflake_pg.layout`.
    pub name: &'static str,
    /// Fields from the highest bits to the lowest, with their widths.
    pub fields: &'static [(FieldKind, u32)],
    /// Milliseconds per tick.
    pub unit_ms: u32,
    /// Where tick 0 lies.
    pub epoch: UnixMs,
}

/// Twitter's epoch, 2010-11-04T01:42:54.657Z. Source: `twepoch` in `IdWorker.scala` of twitter-archive/snowflake.
const TWITTER_EPOCH: UnixMs = 1_288_834_974_657;

/// Every preset, in the order in which messages list them.
pub(super) const PRESETS: &[Preset] = &[
    // Source: `IdWorker.scala` of twitter-archive/snowflake (41 + 5 + 5 + 12 bits).
    Preset {
        name: "twitter",
        fields: &[(Timestamp, 41), (Datacenter, 5), (Worker, 5), (Sequence, 12)],
        unit_ms: 1,
        epoch: TWITTER_EPOCH,
    },
    // Twitter's with data center and worker joined to one number of 10 bits, for fleets without data centers.
    Preset { name: "flat", fields: &[(Timestamp, 41), (Worker, 10), (Sequence, 12)], unit_ms: 1, epoch: TWITTER_EPOCH },
];
