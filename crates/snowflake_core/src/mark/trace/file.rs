//! The file of the events of a server: a header, and a ring; behind them, its last [lives](crate::mark::lives).
//! [`formats`] has the places of its bytes.
//!
//! The file names itself, as a [life](crate::mark::life) does: a copy continues with a number of its own.

use super::{Entry, LENGTH as EVENT};
use crate::formats::{self, Format, Release, Unreadable, u64_at};
use crate::server::identity::Inode;

const FORMAT: Format = Format { magic: *b"SNOWTRAC", version: 1, readable_by: Release::FIRST };
const END: usize = 48;

/// Length of the header in bytes, with what is free.
pub const HEADER: usize = 512;

/// How many events the file has room for: those of a quarter of an hour or more of a server that always issues IDs, and
/// of years of one that is idle.
pub const ROOM: usize = 4096;

/// Where the events end. What [lives](crate::mark::lives) there are is behind them.
pub const EVENTS_END: usize = HEADER + ROOM * EVENT;

/// The header of a file with this number and this inode.
pub fn header(number: u64, inode: Inode) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let numbers = [number, inode.number, inode.born_ns];
    bytes[formats::HEADER..END].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
    FORMAT.seal(&mut bytes);
    bytes
}

/// The number of a file, and the inode that it names.
pub fn read_header(bytes: &[u8]) -> Result<(u64, Inode), Unreadable> {
    let bytes = FORMAT.open(bytes, END)?;
    Ok((u64_at(bytes, 24), Inode { number: u64_at(bytes, 32), born_ns: u64_at(bytes, 40) }))
}

/// Where an event begins in the file.
pub fn offset(number: u64) -> u64 {
    HEADER as u64 + number % ROOM as u64 * EVENT as u64
}

fn events(bytes: &[u8]) -> &[[u8; EVENT]] {
    bytes.get(HEADER..bytes.len().min(EVENTS_END)).unwrap_or_default().as_chunks().0
}

/// The number of the last event of a file, also of a kind that this library does not know; 0 if there is none.
pub fn last_number(bytes: &[u8]) -> u64 {
    events(bytes).iter().map(|event| u64_at(event, 0)).max().unwrap_or(0)
}

/// The events of a file, in their order.
pub fn entries(bytes: &[u8]) -> Vec<Entry> {
    let mut entries: Vec<_> = events(bytes).iter().filter_map(Entry::decode).collect();
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
        assert_eq!((read_header(&bytes), last_number(&bytes)), (Ok((7, inode)), last));
        let numbers: Vec<_> = entries(&bytes).iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, (11..=last).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_such_file_has_no_header() {
        let header = header(7, Inode { number: 1, born_ns: 2 });
        for bit in 0..HEADER * 8 {
            let mut bytes = header;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(read_header(&bytes).is_err(), "bit {bit}");
        }
        assert!(read_header(&header[1..]).is_err());
        assert!(read_header(&[0; HEADER]).is_err());
    }

    /// A ring that has turned would lose the wrong ones.
    #[test]
    fn events_go_on_behind_one_whose_kind_is_not_known() {
        let mut bytes = header(7, Inode { number: 1, born_ns: 2 }).to_vec();
        let event = Entry { number: 1, at: 0, event: Event::Failed {} }.encode();
        let mut unknown = Entry { number: 2, at: 0, event: Event::Failed {} }.encode();
        unknown[15] = 255;
        bytes.extend([[0; EVENT], event, unknown].concat());
        assert_eq!((entries(&bytes).len(), last_number(&bytes)), (1, 2));
    }
}
