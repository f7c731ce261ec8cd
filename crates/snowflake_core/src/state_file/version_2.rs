//! Format version 2 of the state file, which is read and then replaced. It had 160 bytes and one record, without the
//! numbers of lives and without marks of other workers:
//!
//! ```text
//!   0               8       12      16              24              32              40
//!   ┌───────────────┬───────┬───────┬───────────────┬───────────────┬───────────────┐
//!   │ "SNOWFLAK"    │version│time-  │ mark, Unix ms │ system        │ inode of the  │   integers are
//!   │               │   2   │line   │               │ identifier    │ directory     │   little-endian
//!   ├───────────────┼───────┼───────┼───────────────┴───────────────┴───────────────┤
//!   │ its birth,    │data   │worker │ layout, spelled out, padded with zeros        │
//!   │ Unix ns, or 0 │center │       │ "t41 d5 w5 s12 unit=1ms epoch=2010-11-04T0…"  │
//!   ├───────────────┼───────┼───────┼───────────────────────────────────────────────┘
//!   40              48      52      56                                       156     160
//!                                                                             │CRC-32C│   of all bytes before it
//! ```

use super::{Damage, MAGIC, layout_and_mark, u32_at, u64_at};
use crate::identity::{Identity, Inode};
use crate::record::{OtherMarks, Record};

const LENGTH: usize = 160;
const CHECKSUM: usize = 156;

/// Reads a record; `None` if the file is not of this version.
pub(super) fn decode(bytes: &[u8]) -> Option<Result<Record, Damage>> {
    let is_version_2 = bytes.len() == LENGTH && bytes.starts_with(&MAGIC) && u32_at(bytes, 8) == 2;
    is_version_2.then(|| decode_record(bytes))
}

fn decode_record(bytes: &[u8]) -> Result<Record, Damage> {
    let (expected, found) = (crc32c::crc32c(&bytes[..CHECKSUM]), u32_at(bytes, CHECKSUM));
    if found != expected {
        return Err(Damage::Checksum { expected, found });
    }
    let (layout, mark) = layout_and_mark(&bytes[56..CHECKSUM], u64_at(bytes, 16))?;
    Ok(Record {
        revision: 0,
        life: 0,
        previous_life: 0,
        mark,
        logged: 0,
        identity: Identity {
            system_identifier: u64_at(bytes, 24),
            timeline: u32_at(bytes, 12),
            directory: Inode { number: u64_at(bytes, 32), born_ns: u64_at(bytes, 40) },
            numbers: (u32_at(bytes, 48), u32_at(bytes, 52)),
            layout,
        },
        others: OtherMarks::default(),
    })
}
