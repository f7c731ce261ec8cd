//! The IDs that one worker issues.

use super::{FieldKind, Layout, OutOfRange};
use crate::Position;

/// Why IDs of a layout can be decoded, but not issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeOnly {
    /// A bigint that is not negative has 63 bits. Later IDs would be negative, and sort below the earlier ones.
    #[error(
        "\"{}\" has {} bits, and an ID that is issued has at most 63; its timestamps last {:.1} years",
        .0.fields_text(), .0.bits(), .0.years()
    )]
    TooWide(Layout),
    /// IDs would not sort by time.
    #[error("The timestamp is not the highest field of \"{}\", so IDs would not sort by time", .0.fields_text())]
    TimestampNotHighest(Layout),
}

/// Why a server can't issue IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// No server can, in this layout.
    #[error(transparent)]
    DecodeOnly(#[from] DecodeOnly),
    /// The number of the data center or of the worker does not fit its field.
    #[error("{} {}", .0.name(), .1)]
    Number(FieldKind, OutOfRange),
}

/// The IDs of one worker: turns a position into an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// The data center's and the worker's bits, the same in every ID.
    fixed: u64,
    /// The sequence's bits of a position.
    sequence_mask: u64,
    /// How far the sequence's bits are shifted.
    sequence_shift: u32,
    /// How far the tick's bits are shifted, which is never less.
    tick_shift: u32,
}

impl Layout {
    /// Whether IDs can be issued: they have at most 63 bits, and sort by time.
    pub fn check_issuing(&self) -> Result<(), DecodeOnly> {
        if self.bits() > 63 {
            Err(DecodeOnly::TooWide(*self))
        } else if !self.sorts_by_time() {
            Err(DecodeOnly::TimestampNotHighest(*self))
        } else {
            Ok(())
        }
    }

    /// The position of an ID among all IDs of its worker.
    pub const fn position(&self, id: u64) -> Position {
        self.timestamp.get(id) << self.sequence.bits() | self.sequence.get(id)
    }

    /// The IDs that one worker issues.
    pub fn series(&self, datacenter: u64, worker: u64) -> Result<Series, SeriesError> {
        self.check_issuing()?;
        let bits = |kind, value: u64| {
            self.field_bits(kind, value.cast_signed()).map_err(|misfit| SeriesError::Number(kind, misfit))
        };
        Ok(Series {
            fixed: bits(FieldKind::Datacenter, datacenter)? | bits(FieldKind::Worker, worker)?,
            sequence_mask: self.sequence.max(),
            sequence_shift: self.sequence.shift(),
            // The timestamp is the highest field, so at least the sequence's bits are below it.
            tick_shift: self.timestamp.shift() - self.sequence.bits(),
        })
    }
}

impl Series {
    /// The ID at a position.
    #[inline]
    pub const fn id_at(&self, position: Position) -> u64 {
        ((position & !self.sequence_mask) << self.tick_shift)
            | self.fixed
            | ((position & self.sequence_mask) << self.sequence_shift)
    }
}
