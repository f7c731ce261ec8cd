//! The horizon as an ID, and on the [page](snowflake_core::mark::wal_page) that takes it to standbys.
//!
//! A transaction that has ended has its record in WAL. So what a standby has replayed up to the page is complete below
//! the horizon that was read before the page was logged.

use crate::config::gucs;
use crate::shared::{Shared, holders, shared};
use crate::trusted_clock;
use crate::worker;
use snowflake_core::id::layout::{Layout, Series};
use snowflake_core::mark::wal_page::PageHorizon;
use snowflake_core::{Position, UnixMs};
use std::sync::atomic::Ordering;

/// Lets no more IDs into the tick of the last one, if the clock has passed it. In layouts with the tag above the
/// sequence, the ID at a position has no tag, and so is below the IDs of its tick that have one.
pub fn close_past_tick(layout: &Layout) {
    let generator = &shared().generator;
    let last = generator.last_tick();
    if !layout.sorts_within_ticks() && layout.tick_at(trusted_clock::now_ms(layout)).is_ok_and(|now| last < now) {
        // Covered by the mark, since an ID of it was issued.
        generator.advance(last);
    }
}

/// Whether readers may have been further than this position, by a horizon of another worker.
pub fn is_below_others(layout: &Layout, position: Position) -> bool {
    let first = layout.first_tick_from(shared().mark.horizon_from());
    first > layout.last_tick() || position < layout.position(layout.min_id(first))
}

/// The horizon at a position; the greatest ID for the position after the last. Never above the mark, where another
/// worker begins after a failover.
pub fn id_at(layout: &Layout, series: &Series, position: Position) -> i64 {
    let mark = layout.min_id(shared().generator.covered_until());
    // mutant: horizon-within-mark
    let id = series.id_at(position).min(mark);
    i64::try_from(id).unwrap_or(i64::MAX)
}

/// What a page says of the horizon. Made before the page is locked and logged.
pub struct ForPage {
    pub horizon: PageHorizon,
    position: Position,
}

impl ForPage {
    /// `None` if the page is to say what it said before: that remains right.
    pub fn read() -> Option<Self> {
        let Shared { generator, mark, .. } = shared();
        let withheld = Self { horizon: PageHorizon::Withheld, position: 0 };
        if !generator.is_started() {
            // The first mark of a start that begins below what readers may have passed.
            // mutant: withheld-at-start
            return (mark.horizon_from() > 0).then_some(withheld);
        }
        if !is_read() {
            return None;
        }
        let (layout, series) = worker::layout_and_series().ok()?;
        // mutant: page-before-horizon
        let position = holders::horizon()?;
        // mutant: withheld-below-other-workers
        if is_below_others(&layout, position) {
            return Some(withheld);
        }
        let id = id_at(&layout, &series, position).cast_unsigned();
        Some(Self { horizon: PageHorizon::Below(id), position })
    }

    /// The page is in WAL.
    pub fn is_logged(&self) {
        shared().horizon_in_wal.store(self.position, Ordering::Relaxed);
    }

    /// Whether the page in WAL says less.
    pub fn is_news(&self) -> bool {
        self.position > shared().horizon_in_wal.load(Ordering::Relaxed)
    }
}

/// Whether the server knows its horizon.
pub fn is_read() -> bool {
    gucs::track_writers() && gucs::clock_regression().keeps_order()
}

/// Whether the page in WAL says less than it will, or IDs can be issued of which the keeper is not told: those below
/// the mark.
pub fn is_awaited(layout: &Layout, mark: UnixMs) -> bool {
    if !gucs::wal_mark().is_written() || !is_read() {
        return false;
    }
    // mutant: last-page
    let is_behind = shared().horizon_in_wal.load(Ordering::Relaxed) <= last_position(layout);
    // mutant: last-page-below-mark
    is_behind || mark > trusted_clock::now_ms(layout)
}

/// The last position that the horizon must pass: where its tick has to be closed for that, the last one of the tick.
fn last_position(layout: &Layout) -> Position {
    let last = shared().generator.last_position();
    // mutant: last-page-of-tick
    if layout.sorts_within_ticks() { last } else { last | (layout.ids_per_tick() - 1) }
}
