//! A lease: a worker that a registry has granted to a server, for IDs with timestamps below a time.
//!
//! The next server with the worker begins at that time or later. So two servers that both believe they have a worker
//! never issue the same ID, whatever their clocks show.
//!
//! A server keeps its lease in a file in the state directory, beside the mark. A copy of the file is not a lease, nor
//! is the file on another machine: its original may issue IDs. [`decode`] recognizes a copy by its inode, and
//! [`Lease::location`] recognizes a block-level copy. Only the registry recognizes an old state of the file: each
//! renewal leaves another token.
//!
//! [`formats`](crate::formats) has the places of its bytes.

use crate::UnixMs;
use crate::formats::{CHECKSUM, Format, Newer, Release, u64_at};
use crate::id::layout::{Layout, TimeError};
use crate::server::identity::{Inode, Worker};

const FORMAT: Format = Format { magic: *b"SNOWLEAS", version: 1, readable_by: Release::FIRST };
const END: usize = 168;

/// A secret that only the holder of a lease has. It changes with each renewal.
pub type Token = u128;

/// A boot of a machine, and a directory on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The kernel's random number for the boot.
    pub boot: u128,
    /// The number of the device of the state directory.
    pub device: u64,
    /// The inode number of the state directory.
    pub directory: u64,
}

impl Location {
    /// Where no server runs.
    pub const NOWHERE: Self = Self { boot: 0, device: 0, directory: 0 };
}

/// What a server keeps of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The worker.
    pub worker: Worker,
    /// The token of the grant, and the token of a renewal whose answer has not come, which the registry can have
    /// instead; the same token twice if there is no such renewal.
    pub tokens: [Token; 2],
    /// Where IDs of this lease began.
    pub begins: UnixMs,
    /// Every timestamp issued is below this time.
    pub granted_until: UnixMs,
    /// What proves to a registry that was restored that it has granted this.
    pub receipt: [u8; 32],
    /// The state of the registry that this server knows. A registry with a lower number was restored.
    pub revision: u64,
    /// Where the lease is used.
    pub location: Location,
}

/// Where a server with a lease begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStart {
    /// At its own mark, and not below where the lease began: it had the lease before.
    Continued(UnixMs),
    /// Here or later, as without a registry: the registry has leased the worker to nobody before, but servers that it
    /// does not know can have had it.
    First(UnixMs),
    /// Here, above everything that was granted before.
    At(UnixMs),
}

impl LeaseStart {
    /// Where the lease begins.
    pub fn begins(self) -> UnixMs {
        match self {
            Self::Continued(begins) | Self::First(begins) | Self::At(begins) => begins,
        }
    }
}

/// `snowflake_registry.margin()`, in milliseconds: how long before the end of its own lease a server may claim it
/// again, and how far a grant must reach beyond a restore of the registry to count.
pub const fn margin_ms(lease_ms: u64) -> u64 {
    if lease_ms < 600_000 { lease_ms / 10 } else { 60_000 }
}

/// The highest mark of a worker that may be used until this time. It is the beginning of a tick.
pub fn limit(layout: &Layout, usable_until: UnixMs) -> UnixMs {
    match layout.tick_at(usable_until) {
        Ok(tick) => layout.time_of(tick),
        Err(TimeError::AfterEnd { .. }) => layout.end(),
        Err(TimeError::BeforeEpoch { .. }) => 0,
    }
}

/// The bytes of the file with this inode.
pub fn encode(lease: &Lease, file: Inode) -> Vec<u8> {
    let mut bytes = vec![0; END + CHECKSUM];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(24, lease.tokens.map(u128::to_le_bytes).as_flattened());
    put(56, &lease.granted_until.to_le_bytes());
    put(64, &lease.revision.to_le_bytes());
    put(72, &lease.worker.to_le_bytes());
    put(80, &lease.location.device.to_le_bytes());
    put(88, &lease.location.boot.to_le_bytes());
    put(104, &file.number.to_le_bytes());
    put(112, &file.born_ns.to_le_bytes());
    put(120, &lease.receipt);
    put(152, &lease.begins.to_le_bytes());
    put(160, &lease.location.directory.to_le_bytes());
    FORMAT.seal(&mut bytes);
    bytes
}

/// Reads the file with this inode; `None` if it is a copy, or damaged: then it says nothing.
pub fn decode(bytes: &[u8], file: Inode) -> Result<Option<Lease>, Newer> {
    let Some(bytes) = FORMAT.open_if_whole(bytes, END)? else { return Ok(None) };
    let at = |at| u64_at(bytes, at);
    let long = |at: usize| u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"));
    Ok(Inode { number: at(104), born_ns: at(112) }.same_inode(&file).then(|| Lease {
        worker: at(72),
        tokens: [long(24), long(40)],
        begins: at(152),
        granted_until: at(56),
        receipt: bytes[120..152].try_into().expect("32 bytes"),
        revision: at(64),
        location: Location { boot: long(88), device: at(80), directory: at(160) },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Lease = Lease {
        worker: 4,
        tokens: [0x0102, 0x0304],
        begins: 10,
        granted_until: 5,
        receipt: [6; 32],
        revision: 7,
        location: Location { boot: 8, device: 9, directory: 12 },
    };
    const FILE: Inode = Inode { number: 11, born_ns: 1_700_000_000_000_000_001 };
    const OTHER: Inode = Inode { number: 11, born_ns: 1_700_000_000_000_000_002 };

    #[test]
    fn a_lease_can_be_read_back() {
        assert_eq!(decode(&encode(&LEASE, FILE), FILE), Ok(Some(LEASE)));
    }

    #[test]
    fn a_copy_of_the_file_is_no_lease() {
        assert_eq!(decode(&encode(&LEASE, FILE), OTHER), Ok(None));
    }

    #[test]
    fn a_damaged_file_is_no_lease() {
        let good = encode(&LEASE, FILE);
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes, FILE), Ok(None), "bit {bit}");
        }
        for length in 0..good.len() {
            assert_eq!(decode(&good[..length], FILE), Ok(None), "{length} bytes");
        }
    }

    #[test]
    fn a_lease_begins_where_its_start_says() {
        for start in [LeaseStart::Continued(5), LeaseStart::First(5), LeaseStart::At(5)] {
            assert_eq!(start.begins(), 5);
        }
    }

    #[test]
    fn the_margin_is_a_tenth_of_a_lease_and_a_minute_at_most() {
        assert_eq!([0, 6000, 599_999, 600_000, 86_400_000].map(margin_ms), [0, 600, 59_999, 60_000, 60_000]);
    }

    #[test]
    fn a_lease_limits_the_mark_to_the_last_tick_that_begins_before_its_end() {
        let layout: Layout = "sonyflake".parse().expect("a layout");
        let epoch = layout.time_of(0);
        assert_eq!([1009, 1010, 1011].map(|ms| limit(&layout, epoch + ms)), [1000, 1010, 1010].map(|ms| epoch + ms));
        assert_eq!((limit(&layout, epoch - 1), limit(&layout, UnixMs::MAX)), (0, layout.end()));
    }
}
