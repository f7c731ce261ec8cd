//! Who issues IDs and writes a durable mark: so a server can tell its own mark from another server's.

use crate::id::layout::Layout;

/// The number of a server, as a [flat layout](Layout::flat) has it, which tells its IDs from other servers'.
pub type Worker = u64;

/// Identifies a directory or a file among its copies. It has no device number and no host's name, since a volume may
/// move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its number; 0 if the file system keeps births, but assigns new numbers when it is mounted.
    pub number: u64,
    /// When it was created, in nanoseconds since 1970; 0 if the file system does not keep that.
    pub born_ns: u64,
}

impl Inode {
    /// Whether this is the same directory or file. A copy is created later than its original. Only two that are made
    /// right after each other can have the same time of birth, since the kernel's clock for it ticks a hundred times a
    /// second.
    pub fn same_inode(&self, other: &Self) -> bool {
        let same_number = self.number == other.number;
        if self.born_ns == 0 || other.born_ns == 0 {
            return same_number;
        }
        let numbers_are_known = self.number > 0 && other.number > 0;
        self.born_ns == other.born_ns && (same_number || !numbers_are_known)
    }
}

/// Identifies a source of IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PostgreSQL's system identifier, which all copies of a database cluster share.
    pub system_identifier: u64,
    /// PostgreSQL's timeline, which grows with every promotion and every recovery to a point in time.
    pub timeline: u32,
    /// The directory of the mark.
    pub directory: Inode,
    /// The worker of the IDs.
    pub worker: Worker,
    /// The flat layout of the IDs.
    pub layout: Layout,
}
