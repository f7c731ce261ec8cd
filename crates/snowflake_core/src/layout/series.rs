//! The IDs that one worker issues.

use super::{Field, FieldKind, Layout, OutOfRange};
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
    #[error("The timestamp is not the highest field of \"{}\", so that IDs would not sort by time", .0.fields_text())]
    TimestampNotHighest(Layout),
}

/// Why a server can't issue IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// Nobody can, in this layout.
    #[error(transparent)]
    DecodeOnly(#[from] DecodeOnly),
    /// The number of the data center or of the worker does not fit its field.
    #[error("{} {}", .0.name(), .1)]
    Number(FieldKind, OutOfRange),
}

/// All the IDs of one worker: turns a position into the ID that stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// The data center's and the worker's bits, the same in every ID.
    fixed: u64,
    timestamp_shift: u32,
    sequence: Field,
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

    /// The IDs that one worker issues.
    pub fn series(&self, datacenter: i32, worker: i32) -> Result<Series, SeriesError> {
        self.check_issuing()?;
        let place =
            |kind, value: i32| self.place(kind, value.into()).map_err(|misfit| SeriesError::Number(kind, misfit));
        Ok(Series {
            fixed: place(FieldKind::Datacenter, datacenter)? | place(FieldKind::Worker, worker)?,
            timestamp_shift: self.timestamp.shift,
            sequence: self.sequence,
        })
    }
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
