//! The file of the events of a server: a header, and a ring.
//!
//! ```text
//!   0               8       12      16              24              32              40
//!   ┌───────────────┬───────┬───────┬───────────────┬───────────────┬───────────────┐
//!   │ "SNOWTRAC"    │version│ room, │ number of the │ inode of this │ its birth,    │   integers are
//!   │               │   1   │ 4096  │ file          │ file          │ Unix ns, or 0 │   little-endian
//!   └───────────────┴───────┴───────┴───────────────┴───────────────┴───────────────┘
//!     64 bytes in all; then events of 64 bytes, of which event n is the (n mod room)th;
//!     then the last 512 lives, of 256 bytes each
//! ```
//!
//! The file names itself, as a [life](crate::mark::life) does: a copy continues with a number of its own.

use super::{Entry, LENGTH as EVENT};
use crate::server::identity::Inode;

const MAGIC: [u8; 8] = *b"SNOWTRAC";
const VERSION: u64 = 1;

/// Length of the header in bytes.
pub const HEADER: usize = 64;

/// How many events the file has room for: those of a quarter of an hour or more of a server that always issues IDs, and of
/// years of one that is idle.
pub const ROOM: usize = 4096;

/// Where the events end. What [lives](crate::mark::lives) there are is behind them.
pub const EVENTS_END: usize = HEADER + ROOM * EVENT;

/// The header of a file with this number and this inode.
pub fn header(number: u64, inode: Inode) -> [u8; HEADER] {
    let numbers =
        [u64::from_le_bytes(MAGIC), (ROOM as u64) << 32 | VERSION, number, inode.number, inode.born_ns, 0, 0, 0];
    let mut bytes = [0; HEADER];
    bytes.copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
    bytes
}

/// The number of a file, and the inode that it names; `None` if this is no header of this version.
pub fn read_header(bytes: &[u8]) -> Option<(u64, Inode)> {
    let (numbers, _) = bytes.get(..HEADER)?.as_chunks();
    let [_, _, number, inode, born_ns, ..] = <[[u8; 8]; 8]>::try_from(numbers).ok()?.map(u64::from_le_bytes);
    let inode = Inode { number: inode, born_ns };
    (header(number, inode) == bytes[..HEADER]).then_some((number, inode))
}

/// Where an event begins in the file.
pub fn offset(number: u64) -> u64 {
    HEADER as u64 + number % ROOM as u64 * EVENT as u64
}

/// The events of a file, in their order.
pub fn entries(bytes: &[u8]) -> Vec<Entry> {
    let (events, _) = bytes.get(HEADER..bytes.len().min(EVENTS_END)).unwrap_or_default().as_chunks();
    let mut entries: Vec<_> = events.iter().filter_map(Entry::decode).collect();
    entries.sort_unstable_by_key(|entry| entry.number);
    entries
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    #[test]
    fn a_file_that_has_turned_has_its_last_events_in_their_order() {
        let inode = Inode { number: 1, born_ns: 2 };
        let mut bytes = header(7, inode).to_vec();
        bytes.resize(EVENTS_END, 0);
        let last = ROOM as u64 + 10;
        for number in 1..=last {
            let (at, event) = (number * 10, Event::Used { mark: number });
            let offset = usize::try_from(offset(number)).expect("within the file");
            bytes[offset..][..EVENT].copy_from_slice(&Entry { number, at, event }.encode());
        }
        assert_eq!(read_header(&bytes), Some((7, inode)));
        let numbers: Vec<_> = entries(&bytes).iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, (11..=last).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_such_file_has_no_header() {
        let header = header(7, Inode { number: 1, born_ns: 2 });
        assert_eq!(read_header(&header[1..]), None);
        assert_eq!(read_header(&[0; HEADER]), None);
    }
}
