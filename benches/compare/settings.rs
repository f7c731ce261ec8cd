//! The configurations in which the extension is measured.

/// A configuration of the extension that changes the way of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// The default. All other contenders are there, too.
    Default,
    Wide,
    Borrow,
    Coarse,
    History,
    Clocked,
    Leased,
    Untracked,
    /// With a tag.
    Tagged,
    /// Not the extension, but its functions in plain SQL.
    Hosted,
}

/// What each of them sets.
pub const SETTINGS: [(Setting, &[(&str, &str)]); 10] = [
    (Setting::Default, &[]),
    (Setting::Wide, &[("snowflake_pg.layout", "t41 w2 s20")]),
    (Setting::Borrow, &[("snowflake_pg.sequence_exhaustion", "borrow")]),
    (Setting::Coarse, &[("snowflake_pg.layout", "t38 w5 s20 unit=10ms epoch=2024-01-01T00:00:00Z")]),
    (Setting::History, &[("snowflake_pg.clock_regression", "history")]),
    (Setting::Clocked, &[("snowflake_pg.time_stamp_counter", "off")]),
    (Setting::Leased, &[("snowflake_pg.worker_id", "registry")]),
    (Setting::Untracked, &[("snowflake_pg.track_writers", "off")]),
    (Setting::Tagged, &[("snowflake_pg.layout", "t41 w5 s9 h8")]),
    (Setting::Hosted, &[("shared_preload_libraries", "")]),
];
