//! Layouts with a name.

use super::FieldKind::{self, Datacenter, Sequence, Timestamp, Worker};
use super::Layout;
use crate::UnixMs;

/// A layout that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What to write in `snowflake_pg.layout`.
    pub name: &'static str,
    /// Fields from the highest bits to the lowest, with their widths.
    pub(super) fields: &'static [(FieldKind, u32)],
    /// Milliseconds per tick.
    pub(super) tick_ms: u32,
    /// When tick 0 begins.
    pub(super) epoch: UnixMs,
    /// Where the layout was published.
    pub source: &'static str,
}

impl Preset {
    /// The layout.
    pub fn layout(&self) -> Layout {
        Layout::new(self.fields, self.tick_ms, self.epoch)
    }
}

/// Twitter's epoch, 2010-11-04T01:42:54.657Z.
const TWITTER_EPOCH: UnixMs = 1_288_834_974_657;

/// 2024-01-01T00:00:00Z, the epoch of layouts that were first published here.
const SNOWFLAKE_PG_EPOCH: UnixMs = 1_704_067_200_000;

/// 2025-11-26T19:13:15Z.
const PGDOG_EPOCH: UnixMs = 1_764_184_395_000;

/// Every preset, in the order in which messages list them. A preset never changes, since indexes and generated columns
/// name it. The first one's unit and epoch are the defaults. The page and docs/layouts.md have them, too: tests
/// compare.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "flat",
        fields: &[(Timestamp, 41), (Worker, 10), (Sequence, 12)],
        tick_ms: 1,
        epoch: TWITTER_EPOCH,
        source: "snowflake_pg: twitter, with data center and worker as one number",
    },
    Preset {
        name: "twitter",
        fields: &[(Timestamp, 41), (Datacenter, 5), (Worker, 5), (Sequence, 12)],
        tick_ms: 1,
        epoch: TWITTER_EPOCH,
        source: "twitter-archive/snowflake, IdWorker.scala",
    },
    Preset {
        name: "leaf",
        fields: &[(Timestamp, 41), (Worker, 10), (Sequence, 12)],
        tick_ms: 1,
        epoch: TWITTER_EPOCH,
        source: "Meituan-Dianping/Leaf, SnowflakeIDGenImpl.java",
    },
    Preset {
        name: "uid",
        fields: &[(Timestamp, 28), (Worker, 22), (Sequence, 13)],
        tick_ms: 1000,
        // 2016-05-20 in Beijing. Ended on 2024-11-20, so it needs a later epoch to issue IDs.
        epoch: 1_463_673_600_000,
        source: "baidu/uid-generator, DefaultUidGenerator.java and BitsAllocator.java",
    },
    Preset {
        // The worker is the low 24 bits of an IPv4 address.
        name: "k8s",
        fields: &[(Timestamp, 28), (Worker, 24), (Sequence, 11)],
        tick_ms: 1000,
        // 2021-09-16T08:14:08Z.
        epoch: 1_631_780_048_000,
        source: "\"Snowflake: the algorithm explained and applied\", an article in Chinese of 2021-09-22",
    },
    Preset {
        name: "game",
        fields: &[(Timestamp, 31), (Worker, 20), (Sequence, 12)],
        tick_ms: 1000,
        epoch: SNOWFLAKE_PG_EPOCH,
        source: "snowflake_pg: a million servers, each with 4096 IDs a second",
    },
    Preset {
        name: "js",
        fields: &[(Timestamp, 41), (Worker, 6), (Sequence, 6)],
        tick_ms: 1,
        epoch: SNOWFLAKE_PG_EPOCH,
        source: "snowflake_pg: below 2^53, so exact as a number of JavaScript's",
    },
    Preset {
        // From its code. In its documentation, the IDs of January 2024 have node and counter the other way round.
        name: "pgedge",
        fields: &[(Timestamp, 41), (Worker, 10), (Sequence, 12)],
        tick_ms: 1,
        // 2023-01-01T00:00:00Z.
        epoch: 1_672_531_200_000,
        source: "pgEdge/snowflake, snowflake.c",
    },
    Preset {
        // Signed, so IDs are negative from 2034-03-09 on.
        name: "pgactive",
        fields: &[(Timestamp, 40), (Worker, 10), (Sequence, 14)],
        tick_ms: 1,
        // 2016-10-06T23:22:19.634Z.
        epoch: 1_475_796_139_634,
        source: "aws/pgactive, src/pgactive_seq.c",
    },
    Preset {
        name: "pgdog",
        fields: &[(Timestamp, 41), (Worker, 10), (Sequence, 12)],
        tick_ms: 1,
        epoch: PGDOG_EPOCH,
        source: "pgdogdev/pgdog, pgdog/src/unique_id.rs",
    },
    Preset {
        name: "pgdog_compact",
        fields: &[(Timestamp, 41), (Worker, 6), (Sequence, 6)],
        tick_ms: 1,
        epoch: PGDOG_EPOCH,
        source: "pgdogdev/pgdog, pgdog/src/unique_id.rs, with unique_id_function = compact",
    },
    Preset {
        // The machine is a hash of the server's UUID.
        name: "clickhouse",
        fields: &[(Timestamp, 41), (Worker, 10), (Sequence, 12)],
        tick_ms: 1,
        epoch: 0,
        source: "ClickHouse/ClickHouse, src/Functions/generateSnowflakeID.cpp",
    },
    Preset {
        // The library's default. The counter begins at a random number.
        name: "tsid",
        fields: &[(Timestamp, 42), (Worker, 10), (Sequence, 12)],
        tick_ms: 1,
        // 2020-01-01T00:00:00Z.
        epoch: 1_577_836_800_000,
        source: "vladmihalcea/hypersistence-tsid and f4b6a3/tsid-creator, with 10 bits for the node",
    },
    Preset {
        name: "sonyflake",
        fields: &[(Timestamp, 39), (Sequence, 8), (Worker, 16)],
        tick_ms: 10,
        // 2014-09-01T00:00:00Z.
        epoch: 1_409_529_600_000,
        source: "sony/sonyflake, sonyflake.go",
    },
    Preset {
        name: "instagram",
        fields: &[(Timestamp, 41), (Worker, 13), (Sequence, 10)],
        tick_ms: 1,
        // 2011-08-24T21:07:01.721Z.
        epoch: 1_314_220_021_721,
        source: "\"Sharding & IDs at Instagram\", instagram-engineering.com",
    },
    Preset {
        // Discord calls the higher of the two the worker, and the lower the process.
        name: "discord",
        fields: &[(Timestamp, 42), (Datacenter, 5), (Worker, 5), (Sequence, 12)],
        tick_ms: 1,
        // 2015-01-01T00:00:00Z.
        epoch: 1_420_070_400_000,
        source: "discord/discord-api-docs, Reference.md",
    },
    Preset {
        // The lower bits are a hash plus a sequence.
        name: "mastodon",
        fields: &[(Timestamp, 48), (Sequence, 16)],
        tick_ms: 1,
        epoch: 0,
        source: "mastodon/mastodon, lib/mastodon/snowflake.rb",
    },
];
