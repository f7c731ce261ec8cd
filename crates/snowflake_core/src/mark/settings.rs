//! How a server is configured, as far as the mark depends on it.

use crate::id::layout::Layout;

/// Whether the mark is in WAL before it is on disk: `snowflake_pg.wal_mark`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalMark {
    /// Marks are not written to WAL. A mark that is there counts.
    Off,
    /// Marks are written to WAL. A failure is reported, and IDs continue.
    Prefer,
    /// Marks are written to WAL, and no ID is issued before synchronous standbys have them.
    Require,
}

crate::words!(WalMark {
    Prefer = "prefer": "it is",
    Require = "require": "it is, and synchronous standbys must have it",
    Off = "off" | "false" | "no" | "0": "it is not",
});

impl WalMark {
    /// Whether marks are written to WAL.
    pub fn is_written(self) -> bool {
        match self {
            Self::Off => false,
            Self::Prefer | Self::Require => true,
        }
    }

    /// Whether no ID is issued without a mark in WAL.
    pub fn is_required(self) -> bool {
        match self {
            Self::Off | Self::Prefer => false,
            Self::Require => true,
        }
    }
}

/// How a server is configured.
#[derive(Clone, Copy, Debug)]
pub struct MarkSettings {
    /// The layout of the IDs.
    pub layout: Layout,
    /// `snowflake_pg.reserve_ahead`, in milliseconds.
    pub reserve_ahead_ms: u64,
    /// `snowflake_pg.max_borrow`, in milliseconds.
    pub max_borrow_ms: u64,
    /// Whether a full tick is followed by ticks that are ahead of the clock: `sequence_exhaustion = borrow`.
    pub borrows_ticks: bool,
    /// See [`start_wait_ms`](super::reservation::start_wait_ms).
    pub start_wait_ms: u64,
    /// How long a server waits in whose cluster nobody has issued an ID, in milliseconds: at most the start margin.
    pub first_wait_ms: u64,
    /// `snowflake_pg.wal_mark`.
    pub wal_mark: WalMark,
}

impl MarkSettings {
    /// How far above the clock, in milliseconds, a server begins that cannot know what was issued before: it finds no
    /// mark, or one of an earlier timeline. With a right clock, no server is further ahead than that.
    pub fn start_margin_ms(&self) -> u64 {
        self.start_wait_ms.max(self.max_borrow_ms)
    }

    /// How far ahead of its clock a server begins that has waited. `is_first` if nobody in its cluster has issued an
    /// ID.
    pub(super) fn ahead_after_wait_ms(&self, is_first: bool) -> u64 {
        self.start_margin_ms() - if is_first { self.first_wait_ms } else { self.start_wait_ms }
    }
}
