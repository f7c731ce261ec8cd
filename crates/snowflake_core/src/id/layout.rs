//! Where the bits of an ID are.
//!
//! A layout is up to five groups of bits, in any order, a tick length and an epoch. The preset `flat`:
//!
//! ```text
//! bit 63 62                                        22 21               12 11          0
//!     ┌─┬───────────────────────────────────────────┬────────────────────┬────────────┐
//!     │0│ timestamp: ticks since the epoch, 41 bits │ worker, 10         │ sequence,  │
//!     │ │                                           │                    │ 12         │
//!     └─┴───────────────────────────────────────────┴────────────────────┴────────────┘
//! ```

use crate::{Tick, UnixMs, display_time};
use std::fmt;
use std::ops::RangeInclusive;

mod explain;
mod flat;
mod parse;
mod parts;
mod presets;
mod replacement;
mod series;

pub use parse::LayoutError;
pub use parts::{OutOfRange, Parts, PartsError};
pub use presets::{PRESETS, Preset};
pub use replacement::Replacement;
pub use series::{DecodeOnly, Series, SeriesError};

/// The latest time that a layout may reach, about the year 287,000: PostgreSQL's timestamps end in 294276.
const END_OF_TIME: UnixMs = 1 << 53;

/// Milliseconds in a year of the Gregorian calendar, on average.
const YEAR_MS: f64 = 365.2425 * 86_400_000.0;

/// What a group of bits means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Ticks since the epoch.
    Timestamp,
    /// The data center, if the layout has one.
    Datacenter,
    /// The worker: the number of a server, unique in its data center.
    Worker,
    /// A number of the application's, if the layout has one.
    Tag,
    /// Numbers the IDs of one worker within one tick.
    Sequence,
}

impl FieldKind {
    const ALL: [Self; 5] = [Self::Timestamp, Self::Datacenter, Self::Worker, Self::Tag, Self::Sequence];

    /// The letter of the field in the text of a layout: `t`, `d`, `w`, `h` or `s`.
    pub const fn letter(self) -> char {
        match self {
            Self::Timestamp => 't',
            Self::Datacenter => 'd',
            Self::Worker => 'w',
            Self::Tag => 'h',
            Self::Sequence => 's',
        }
    }

    /// The name of the field, in full.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::Datacenter => "data center",
            Self::Worker => "worker",
            Self::Tag => "tag",
            Self::Sequence => "sequence",
        }
    }

    /// The widest that such a field can be. The numbers of all but the timestamp are SQL's integers.
    const fn max_bits(self) -> u32 {
        match self {
            Self::Timestamp => 63,
            Self::Datacenter | Self::Worker | Self::Tag | Self::Sequence => 31,
        }
    }
}

/// A group of adjacent bits. In few bytes, since the functions that read IDs copy layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u8,
    shift: u8,
}

impl Field {
    /// A field that the layout does not have: it holds only 0.
    const ABSENT: Self = Self { bits: 0, shift: 0 };

    const fn bits(self) -> u32 {
        self.bits as u32
    }

    const fn shift(self) -> u32 {
        self.shift as u32
    }

    const fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    const fn get(self, id: u64) -> u64 {
        (id >> self.shift) & self.max()
    }
}

/// Where the bits of an ID are, how long a tick is, and when the ticks began.
///
/// Its [`Display`](fmt::Display) form spells everything out: `t41 d5 w5 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z`.
/// It has a timestamp and 64 bits at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    timestamp: Field,
    datacenter: Field,
    worker: Field,
    tag: Field,
    sequence: Field,
    tick_ms: u32,
    epoch: UnixMs,
}

/// Why a point in time has no tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// The time is before tick 0.
    #[error("the layout's epoch is {}", display_time(*epoch))]
    BeforeEpoch {
        /// When tick 0 begins.
        epoch: UnixMs,
    },
    /// The time is after the last tick.
    #[error("the layout's last timestamp is {}", display_time(*last))]
    AfterEnd {
        /// When the last tick begins.
        last: UnixMs,
    },
}

impl Layout {
    /// Places fields from the highest bits to the lowest. The fields must be distinct and fill at most 64 bits.
    fn new(fields: &[(FieldKind, u32)], tick_ms: u32, epoch: UnixMs) -> Self {
        let mut layout = Self {
            timestamp: Field::ABSENT,
            datacenter: Field::ABSENT,
            worker: Field::ABSENT,
            tag: Field::ABSENT,
            sequence: Field::ABSENT,
            tick_ms,
            epoch,
        };
        let mut shift = 0;
        for &(kind, bits) in fields.iter().rev() {
            let narrow = |bits: u32| u8::try_from(bits).expect("at most 64 bits");
            *layout.field_mut(kind) = Field { bits: narrow(bits), shift: narrow(shift) };
            shift += bits;
        }
        layout
    }

    fn field(&self, kind: FieldKind) -> Field {
        match kind {
            FieldKind::Timestamp => self.timestamp,
            FieldKind::Datacenter => self.datacenter,
            FieldKind::Worker => self.worker,
            FieldKind::Tag => self.tag,
            FieldKind::Sequence => self.sequence,
        }
    }

    fn field_mut(&mut self, kind: FieldKind) -> &mut Field {
        match kind {
            FieldKind::Timestamp => &mut self.timestamp,
            FieldKind::Datacenter => &mut self.datacenter,
            FieldKind::Worker => &mut self.worker,
            FieldKind::Tag => &mut self.tag,
            FieldKind::Sequence => &mut self.sequence,
        }
    }

    /// The fields the layout has, from the highest bits to the lowest.
    fn fields(&self) -> Vec<(FieldKind, Field)> {
        let mut fields: Vec<_> = FieldKind::ALL
            .map(|kind| (kind, self.field(kind)))
            .into_iter()
            .filter(|(_, field)| field.bits() > 0)
            .collect();
        fields.sort_by_key(|(_, field)| std::cmp::Reverse(field.shift()));
        fields
    }

    /// The fields in the text of a layout: `t41 d5 w5 s12`.
    pub fn fields_text(&self) -> String {
        let fields: Vec<_> =
            self.fields().iter().map(|(kind, field)| format!("{}{}", kind.letter(), field.bits())).collect();
        fields.join(" ")
    }

    /// How many bits all fields have together, 64 at most.
    pub const fn bits(&self) -> u32 {
        self.timestamp.bits() + self.datacenter.bits() + self.worker.bits() + self.tag.bits() + self.sequence.bits()
    }

    /// The greatest ID, all of whose fields are full.
    pub const fn max_id(&self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// Whether IDs sort by time: no field is above the timestamp.
    pub const fn sorts_by_time(&self) -> bool {
        self.timestamp.shift() + self.timestamp.bits() == self.bits()
    }

    /// How many years the timestamps last, from the epoch on.
    pub fn years(&self) -> f64 {
        years(self.timestamp.bits(), self.tick_ms)
    }

    /// When tick 0 begins.
    pub const fn epoch(&self) -> UnixMs {
        self.epoch
    }

    /// When the last tick begins.
    pub const fn last_time(&self) -> UnixMs {
        self.time_of(self.timestamp.max())
    }

    /// When the last tick ends. Every timestamp is below, so no durable mark needs to be above.
    pub const fn end(&self) -> UnixMs {
        self.time_of(self.timestamp.max() + 1)
    }

    /// The last tick that fits.
    pub const fn last_tick(&self) -> Tick {
        self.timestamp.max()
    }

    /// How many bits number the IDs of one tick.
    pub const fn sequence_bits(&self) -> u32 {
        self.sequence.bits()
    }

    /// How many IDs one worker has in a tick.
    pub const fn ids_per_tick(&self) -> u64 {
        self.sequence.max() + 1
    }

    /// Whether the IDs of a tick are consecutive numbers.
    pub const fn sequence_is_lowest(&self) -> bool {
        self.sequence.shift() == 0
    }

    /// The data centers that fit; only 0 if the layout has no such field.
    pub const fn datacenters(&self) -> RangeInclusive<u64> {
        0..=self.datacenter.max()
    }

    /// Whether IDs say in which data center they were issued.
    pub const fn has_datacenter(&self) -> bool {
        self.datacenter.bits() > 0
    }

    /// The workers that fit; only 0 if the layout has no such field.
    pub const fn workers(&self) -> RangeInclusive<u64> {
        0..=self.worker.max()
    }

    /// The tags that fit; only 0 if the layout has no such field.
    pub const fn tags(&self) -> RangeInclusive<u64> {
        0..=self.tag.max()
    }

    /// The lowest and the highest bit of a field; `None` if the layout does not have it.
    pub fn bits_of(&self, kind: FieldKind) -> Option<(u32, u32)> {
        let field = self.field(kind);
        (field.bits() > 0).then(|| (field.shift(), field.shift() + field.bits() - 1))
    }

    /// The bits that are the same in all IDs of a server: those of the data center and of the worker.
    pub const fn server_mask(&self) -> u64 {
        self.datacenter.max() << self.datacenter.shift() | self.worker.max() << self.worker.shift()
    }

    /// Whether IDs of one worker sort by their positions, whatever their tags: no tag is above the sequence.
    pub const fn sorts_within_ticks(&self) -> bool {
        self.tag.shift() <= self.sequence.shift()
    }

    /// When a tick begins.
    pub const fn time_of(&self, tick: Tick) -> UnixMs {
        self.epoch + tick * self.tick_ms as u64
    }

    /// Milliseconds in a tick.
    pub const fn tick_ms(&self) -> u64 {
        self.tick_ms as u64
    }

    /// The tick that contains a point in time; errors before the epoch and past the layout's end.
    #[inline]
    pub const fn tick_at(&self, at: UnixMs) -> Result<Tick, TimeError> {
        let Some(since_epoch) = at.checked_sub(self.epoch) else {
            return Err(TimeError::BeforeEpoch { epoch: self.epoch });
        };
        // A branch that is always taken the same way costs less than a division.
        let tick = if self.tick_ms <= 1 { since_epoch } else { since_epoch / self.tick_ms as u64 };
        if tick > self.timestamp.max() {
            return Err(TimeError::AfterEnd { last: self.last_time() });
        }
        Ok(tick)
    }

    /// The first tick that begins at or after a point in time: 0 for a time before the epoch, and one past
    /// [`last_tick`](Self::last_tick) at most, since no later tick exists.
    pub const fn first_tick_from(&self, at: UnixMs) -> Tick {
        // mutant: mark-rounds-up
        let tick = at.saturating_sub(self.epoch).div_ceil(self.tick_ms as u64);
        if tick > self.timestamp.max() { self.timestamp.max() + 1 } else { tick }
    }

    /// When the tick began in which an ID was issued.
    #[inline]
    pub const fn issued_at(&self, id: u64) -> UnixMs {
        self.time_of(self.timestamp.get(id))
    }

    /// The lowest ID of a tick, over all workers: all its other bits are 0.
    #[inline]
    pub const fn min_id(&self, tick: Tick) -> u64 {
        tick << self.timestamp.shift()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} unit={} epoch={}", self.fields_text(), display_unit(self.tick_ms), display_time(self.epoch))
    }
}

/// Writes the length of a tick as a layout's text has it: `10ms`, `1s`.
fn display_unit(tick_ms: u32) -> String {
    if tick_ms.is_multiple_of(1000) { format!("{}s", tick_ms / 1000) } else { format!("{tick_ms}ms") }
}

#[expect(clippy::cast_precision_loss, reason = "to be shown with one decimal")]
fn years(bits: u32, tick_ms: u32) -> f64 {
    (1_u64 << bits) as f64 * f64::from(tick_ms) / YEAR_MS
}

#[cfg(test)]
mod tests;
