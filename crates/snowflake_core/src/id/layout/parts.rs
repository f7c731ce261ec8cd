//! Decoding and composing IDs.

use super::{Field, FieldKind, Layout, TimeError};
use crate::UnixMs;

/// The fields of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// When the tick began in which the ID was issued.
    pub issued_at: UnixMs,
    /// The data center; `None` if the layout has no such field.
    pub datacenter: Option<u64>,
    /// The worker; `None` if the layout has no such field.
    pub worker: Option<u64>,
    /// The tag; `None` if the layout has no such field.
    pub tag: Option<u64>,
    /// The ID's number within its tick and worker; `None` if the layout has no such field.
    pub sequence: Option<u64>,
}

/// A number that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value} is outside {}..{}", range.0, range.1)]
pub struct OutOfRange {
    /// The number that does not fit.
    pub value: i64,
    /// The least and the greatest number that do; only 0 if the layout has no such field.
    pub range: (u64, u64),
}

/// Why there is no ID with these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// The time has no tick.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// A number does not fit its field.
    #[error("{} {}", .0.name(), .1)]
    Number(FieldKind, OutOfRange),
}

impl Layout {
    /// Decodes an ID. Ignores bits above the layout's: see [`max_id`](Self::max_id).
    pub fn unpack(&self, id: u64) -> Parts {
        let number = |field: Field| (field.bits() > 0).then(|| field.get(id));
        Parts {
            issued_at: self.issued_at(id),
            datacenter: number(self.datacenter),
            worker: number(self.worker),
            tag: number(self.tag),
            sequence: number(self.sequence),
        }
    }

    /// The ID with the tick of a point in time, and with these numbers. A field that the layout does not have holds
    /// only 0.
    pub fn pack(&self, issued_at: UnixMs, datacenter: i64, worker: i64, sequence: i64) -> Result<u64, PartsError> {
        let tick = self.tick_at(issued_at)?;
        let bits = |kind, value| self.field_bits(kind, value).map_err(|misfit| PartsError::Number(kind, misfit));
        Ok(tick << self.timestamp.shift()
            | bits(FieldKind::Datacenter, datacenter)?
            | bits(FieldKind::Worker, worker)?
            | bits(FieldKind::Sequence, sequence)?)
    }

    /// The bits of a tag, which are 0 in an ID that is issued without one.
    pub fn tag_bits(&self, tag: i64) -> Result<u64, OutOfRange> {
        // mutant: tag-bits
        self.field_bits(FieldKind::Tag, tag)
    }

    /// The bits of a field in an ID that has this number.
    pub(super) fn field_bits(&self, kind: FieldKind, value: i64) -> Result<u64, OutOfRange> {
        let field = self.field(kind);
        u64::try_from(value)
            .ok()
            .filter(|&number| number <= field.max())
            .map(|number| number << field.shift())
            .ok_or(OutOfRange { value, range: (0, field.max()) })
    }
}
