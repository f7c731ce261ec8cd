//! Where the bits of an ID are.
//!
//! A layout is four groups of bits, a tick length and an epoch. The preset `twitter`:
//!
//! ```text
//! bit 63 62                                        22 21     17 16     12 11          0
//!     ┌─┬───────────────────────────────────────────┬──────────┬─────────┬────────────┐
//!     │0│ timestamp: ticks since the epoch, 41 bits │ data     │ worker, │ sequence,  │
//!     │ │                                           │ center, 5│ 5       │ 12         │
//!     └─┴───────────────────────────────────────────┴──────────┴─────────┴────────────┘
//! ```

use crate::{Position, Tick, UnixMs, display_time};
use std::fmt;
use std::ops::RangeInclusive;

mod parse;
mod picture;
mod presets;

pub use parse::LayoutError;
use presets::PRESETS;

/// What a group of bits means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Ticks since the epoch.
    Timestamp,
    /// The data center, where a layout has one.
    Datacenter,
    /// The worker: the number of a server, unique in its data center.
    Worker,
    /// Numbers the IDs of one worker within one tick.
    Sequence,
}

impl FieldKind {
    /// The letter that stands for the field in a layout's text: `t`, `d`, `w` or `s`.
    pub const fn letter(self) -> char {
        match self {
            Self::Timestamp => 't',
            Self::Datacenter => 'd',
            Self::Worker => 'w',
            Self::Sequence => 's',
        }
    }

    fn from_letter(letter: char) -> Option<Self> {
        [Self::Timestamp, Self::Datacenter, Self::Worker, Self::Sequence]
            .into_iter()
            .find(|kind| kind.letter() == letter)
    }
}

/// A group of neighbouring bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u32,
    shift: u32,
}

impl Field {
    /// A field that the layout does not have: it holds only 0.
    const ABSENT: Self = Self { bits: 0, shift: 0 };

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    timestamp: Field,
    datacenter: Field,
    worker: Field,
    sequence: Field,
    unit_ms: u32,
    epoch: UnixMs,
}

/// What an ID says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// When the tick began in which the ID was issued.
    pub issued_at: UnixMs,
    /// The data center; `None` where the layout has no such field.
    pub datacenter: Option<u64>,
    /// The worker; `None` where the layout has no such field.
    pub worker: Option<u64>,
    /// The ID's number within its tick and worker.
    pub sequence: u64,
}

/// Why a point in time has no tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// The time lies before tick 0.
    #[error("the layout's epoch is {}", display_time(*epoch))]
    BeforeEpoch {
        /// When tick 0 begins.
        epoch: UnixMs,
    },
    /// The time lies after the last tick.
    #[error("the layout's last timestamp is {}", display_time(*last))]
    AfterEnd {
        /// When the last tick begins.
        last: UnixMs,
    },
}

/// A number that does not fit its field, or that the layout has no field for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value} is outside {}..{}", range.0, range.1)]
pub struct OutOfRange {
    /// The number that does not fit.
    pub value: i64,
    /// The least and the greatest number that do.
    pub range: (u64, u64),
}

impl Layout {
    /// Lays fields out from the highest bits to the lowest. The fields must be distinct and fill at most 64 bits.
    fn new(fields: &[(FieldKind, u32)], unit_ms: u32, epoch: UnixMs) -> Self {
        let mut layout = Self {
            timestamp: Field::ABSENT,
            datacenter: Field::ABSENT,
            worker: Field::ABSENT,
            sequence: Field::ABSENT,
            unit_ms,
            epoch,
        };
        let mut shift = 0;
        for &(kind, bits) in fields.iter().rev() {
            *layout.field_mut(kind) = Field { bits, shift };
            shift += bits;
        }
        layout
    }

    fn field(&self, kind: FieldKind) -> Field {
        match kind {
            FieldKind::Timestamp => self.timestamp,
            FieldKind::Datacenter => self.datacenter,
            FieldKind::Worker => self.worker,
            FieldKind::Sequence => self.sequence,
        }
    }

    fn field_mut(&mut self, kind: FieldKind) -> &mut Field {
        match kind {
            FieldKind::Timestamp => &mut self.timestamp,
            FieldKind::Datacenter => &mut self.datacenter,
            FieldKind::Worker => &mut self.worker,
            FieldKind::Sequence => &mut self.sequence,
        }
    }

    /// The fields the layout has, from the highest bits to the lowest.
    fn fields(&self) -> Vec<(FieldKind, Field)> {
        let mut fields: Vec<_> = [FieldKind::Timestamp, FieldKind::Datacenter, FieldKind::Worker, FieldKind::Sequence]
            .map(|kind| (kind, self.field(kind)))
            .into_iter()
            .filter(|(_, field)| field.bits > 0)
            .collect();
        fields.sort_by_key(|(_, field)| std::cmp::Reverse(field.shift));
        fields
    }

    /// Names of all presets.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|preset| preset.name)
    }

    /// When tick 0 begins.
    pub const fn epoch(&self) -> UnixMs {
        self.epoch
    }

    /// When the last tick begins.
    pub const fn last_time(&self) -> UnixMs {
        self.time_of(self.timestamp.max())
    }

    /// The last tick that fits.
    pub const fn last_tick(&self) -> Tick {
        self.timestamp.max()
    }

    /// How many bits number the IDs of one tick.
    pub const fn sequence_bits(&self) -> u32 {
        self.sequence.bits
    }

    /// The data centers that fit; only 0 where the layout has no such field.
    pub const fn datacenters(&self) -> RangeInclusive<u64> {
        0..=self.datacenter.max()
    }

    /// The workers that fit; only 0 where the layout has no such field.
    pub const fn workers(&self) -> RangeInclusive<u64> {
        0..=self.worker.max()
    }

    /// When a tick begins.
    pub const fn time_of(&self, tick: Tick) -> UnixMs {
        self.epoch + tick * self.unit_ms as u64
    }

    /// Milliseconds in a tick.
    pub const fn unit_ms(&self) -> u64 {
        self.unit_ms as u64
    }

    /// The tick that contains a point in time; errors before the epoch and past the layout's end.
    #[inline]
    pub const fn tick_at(&self, at: UnixMs) -> Result<Tick, TimeError> {
        let Some(since_epoch) = at.checked_sub(self.epoch) else {
            return Err(TimeError::BeforeEpoch { epoch: self.epoch });
        };
        // A branch that is always taken the same way costs less than a division.
        let tick = if self.unit_ms == 1 { since_epoch } else { since_epoch / self.unit_ms as u64 };
        if tick > self.timestamp.max() {
            return Err(TimeError::AfterEnd { last: self.last_time() });
        }
        Ok(tick)
    }

    /// The first tick that begins at or after a point in time: 0 for a time before the epoch, and one past
    /// [`last_tick`](Self::last_tick) at most, since no later tick exists.
    pub const fn first_tick_from(&self, at: UnixMs) -> Tick {
        let tick = at.saturating_sub(self.epoch).div_ceil(self.unit_ms as u64);
        if tick > self.timestamp.max() { self.timestamp.max() + 1 } else { tick }
    }

    /// Reads an ID.
    pub fn unpack(&self, id: u64) -> Parts {
        let optional = |field: Field| (field.bits > 0).then(|| field.get(id));
        Parts {
            issued_at: self.issued_at(id),
            datacenter: optional(self.datacenter),
            worker: optional(self.worker),
            sequence: self.sequence.get(id),
        }
    }

    /// When the tick began in which an ID was issued.
    #[inline]
    pub const fn issued_at(&self, id: u64) -> UnixMs {
        self.time_of(self.timestamp.get(id))
    }

    /// The lowest ID of a tick, over all workers: all its other bits are 0.
    #[inline]
    pub const fn min_id(&self, tick: Tick) -> u64 {
        tick << self.timestamp.shift
    }

    /// The IDs that one worker issues. Errors where the number of the data center or worker does not fit its field.
    pub fn series(&self, datacenter: i32, worker: i32) -> Result<Series, SeriesError> {
        let fit = |value: i32, field: Field| {
            u64::try_from(value)
                .ok()
                .filter(|&v| v <= field.max())
                .map(|v| v << field.shift)
                .ok_or(OutOfRange { value: value.into(), range: (0, field.max()) })
        };
        Ok(Series {
            fixed: fit(datacenter, self.datacenter).map_err(SeriesError::Datacenter)?
                | fit(worker, self.worker).map_err(SeriesError::Worker)?,
            timestamp_shift: self.timestamp.shift,
            sequence: self.sequence,
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, field) in self.fields() {
            write!(f, "{}{} ", kind.letter(), field.bits)?;
        }
        write!(f, "unit={}ms epoch={}", self.unit_ms, display_time(self.epoch))
    }
}

/// Which number of a worker's identity does not fit the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// The data center does not fit.
    #[error("data center {0}")]
    Datacenter(OutOfRange),
    /// The worker does not fit.
    #[error("worker {0}")]
    Worker(OutOfRange),
}

/// All the IDs of one worker: turns a position into the ID that stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// The data center's and the worker's bits, the same in every ID.
    fixed: u64,
    timestamp_shift: u32,
    sequence: Field,
}

impl Series {
    /// The ID at a position.
    #[inline]
    pub const fn id_at(&self, position: Position) -> u64 {
        ((position >> self.sequence.bits) << self.timestamp_shift)
            | self.fixed
            | ((position & self.sequence.max()) << self.sequence.shift)
    }
}

#[cfg(test)]
mod tests;
