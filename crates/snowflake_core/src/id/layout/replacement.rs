//! The layout to set instead of one that cannot issue IDs.

use super::parse::layout_of;
use super::{FieldKind, Layout, PRESETS, TimeError, display_unit};
use crate::{UnixMs, display_time};
use std::fmt;

/// A layout that can issue IDs, instead of one that cannot. Its [`Display`](fmt::Display) form says what is the same
/// and what is not: `Its IDs have the same bits until 2084-09-06T15:47:35.551Z.`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The layout to set.
    pub layout: Layout,
    difference: Difference,
}

/// How IDs of the two layouts differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    /// They do not, until the replacement ends.
    Nothing,
    /// The timestamp is the highest field.
    Order,
    /// The epoch is later.
    Epoch,
}

impl Layout {
    /// The layout most like this one that can issue IDs at this time. `None` if this one can, or if there is no such
    /// layout.
    pub fn replacement(&self, now: UnixMs) -> Option<Replacement> {
        let has_ended = |layout: &Self| matches!(layout.tick_at(now), Err(TimeError::AfterEnd { .. }));
        if self.check_issuing().is_ok() && !has_ended(self) {
            return None;
        }
        let mut fields: Vec<_> = self.fields().iter().map(|&(kind, field)| (kind, field.bits())).collect();
        fields.sort_by_key(|&(kind, _)| kind != FieldKind::Timestamp);
        // A timestamp of one bit less, from the same epoch, leaves all other bits where they are.
        let (_, timestamp_bits) = fields.first_mut()?;
        *timestamp_bits -= self.bits().saturating_sub(63);
        if *timestamp_bits == 0 {
            return None;
        }
        let difference = if self.sorts_by_time() { Difference::Nothing } else { Difference::Order };
        // mutant: replacement-keeps-epoch
        let layout = layout_of(&fields, self.tick_ms, self.epoch).ok()?;
        if !has_ended(&layout) {
            return Some(Replacement { layout, difference });
        }
        let layout = layout_of(&fields, self.tick_ms, start_of_year(now)?).ok()?;
        (!has_ended(&layout)).then_some(Replacement { layout, difference: Difference::Epoch })
    }

    /// The hint for a worker that is too great: the [flat layout](Self::flat) has greater ones.
    pub fn flat_layout_hint(&self) -> Option<String> {
        let flat = Some(self.flat()).filter(|flat| flat != self)?;
        let (text, last) = (flat.short_text(), flat.worker.max());
        Some(format!("Layout \"{text}\" has the same bits, and workers 0 to {last}."))
    }

    /// The shortest text of the layout: its name, or its fields and the settings that are not the default.
    pub fn short_text(&self) -> String {
        if let Some(preset) = PRESETS.iter().find(|preset| preset.layout() == *self) {
            return preset.name.to_owned();
        }
        let mut text = self.fields_text();
        if self.tick_ms != PRESETS[0].tick_ms {
            text += &format!(" unit={}", display_unit(self.tick_ms));
        }
        if self.epoch != PRESETS[0].epoch {
            text += &format!(" epoch={}", display_time(self.epoch));
        }
        text
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layout, difference } = self;
        let last = display_time(layout.last_time());
        match difference {
            Difference::Nothing => write!(f, "Its IDs have the same bits until {last}.")?,
            Difference::Order => f.write_str("Its timestamp is the highest field.")?,
            Difference::Epoch => write!(f, "Its timestamps last until {last}.")?,
        }
        if layout.datacenter.bits() + layout.worker.bits() == 0 {
            f.write_str(" It has no worker, so only one server can issue IDs.")?;
        }
        Ok(())
    }
}

/// The beginning of the year, in UTC.
fn start_of_year(now: UnixMs) -> Option<UnixMs> {
    let now = jiff::Timestamp::from_millisecond(now.try_into().ok()?).ok()?.to_zoned(jiff::tz::TimeZone::UTC);
    let start = now.first_of_year().ok()?.start_of_day().ok()?;
    start.timestamp().as_millisecond().try_into().ok()
}
