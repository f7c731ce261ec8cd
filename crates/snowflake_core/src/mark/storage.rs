//! What a mark needs of a server: its clocks, files and WAL. And why there may be no mark.

use crate::UnixMs;
use crate::id::layout::{Layout, TimeError};
use crate::mark::life::{LastLife, Life};
use crate::mark::record::Record;
use crate::mark::start_table::MarkConflict;
use crate::mark::trace::Event;
use crate::mark::wal_page::InWal;
use crate::server::identity::{Identity, Inode, Worker};
use crate::server::lease::LeaseStart;
use crate::server::vmclock::Machine;

/// Why there is no mark, apart from errors of the storage.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The clock is outside the layout, or the layout ends before the tick that is needed.
    Clock(UnixMs, TimeError),
    /// The grant of the lease ends before the tick that is needed.
    LeaseEnded,
    /// Another directory or record has taken the place of the one that this server wrote.
    Replaced,
    /// The mark that was found does not tell where to begin.
    Conflict {
        /// Why it does not.
        conflict: MarkConflict,
        /// The record, if there is one.
        record: Option<Box<Record>>,
        /// The source of this server's IDs.
        identity: Box<Identity>,
    },
    /// IDs would begin after the end of the layout.
    LayoutEndsBefore {
        /// The layout.
        layout: Layout,
        /// When IDs would begin.
        begin: UnixMs,
    },
}

/// The clocks, files and WAL of a server. A write that fails leaves the old content or the new one.
pub trait Storage {
    /// Why something could not be done.
    type Error: From<Refusal>;

    /// What a monotonic clock shows, in milliseconds.
    fn monotonic_ms(&self) -> u64;

    /// The data center and the worker of this server.
    fn worker(&self) -> Result<Worker, Self::Error>;
    /// What identifies this server with that worker and that directory.
    fn identity(&self, directory: Inode, worker: Worker) -> Result<Identity, Self::Error>;
    /// The machine on which this server has begun; `None` if it cannot tell. It is written into records, and must not
    /// change by itself when the machine is cloned.
    fn machine(&self) -> Option<Machine>;
    /// Whether this server is a promoted standby.
    fn was_standby(&self) -> bool;
    /// Where IDs of the lease begin; `None` for a worker that is not leased. An error while a lease is missing.
    fn lease(&self) -> Result<Option<LeaseStart>, Self::Error>;
    /// The grant of the lease; `UnixMs::MAX` for a worker that is not leased. An error if the worker may not be used.
    fn usable_until(&self) -> Result<UnixMs, Self::Error>;

    /// The present directory of the mark.
    fn directory(&self) -> Result<Inode, Self::Error>;
    /// The record in the directory.
    fn read_record(&self) -> Result<Option<Record>, Self::Error>;
    /// Whether this error says that the record is damaged.
    fn is_damaged(error: &Self::Error) -> bool;
    /// Whether this error says that a later library has written what cannot be read.
    fn is_newer(error: &Self::Error) -> bool;
    /// Flushes a record, and keeps the last one. Returns the inode of the directory.
    fn add_record(&mut self, record: &Record) -> Result<Inode, Self::Error>;
    /// Flushes a record, and replaces whatever is there. Returns the inode of the directory.
    fn replace_record(&mut self, record: &Record) -> Result<Inode, Self::Error>;

    /// What the data directory knows of the record that it wrote last.
    fn read_life(&self) -> Result<Option<LastLife>, Self::Error>;
    /// Flushes a life with the directory of its record, and keeps the last one.
    fn prepare_life(&mut self, life: Life, directory: Inode) -> Result<(), Self::Error>;
    /// Makes the prepared life the last one.
    fn commit_life(&mut self) -> Result<(), Self::Error>;
    /// A random number, never 0.
    fn new_life(&mut self) -> u64;

    /// What WAL says of a worker.
    fn read_wal(&self, worker: Worker) -> Result<InWal, Self::Error>;
    /// Flushes the mark of a worker to WAL, unless a higher one is there. Returns the mark that counts then.
    fn write_wal(&mut self, worker: Worker, mark: UnixMs) -> Result<UnixMs, Self::Error>;
    /// Waits until synchronous standbys have what was written.
    fn wait_for_standbys(&mut self) -> Result<(), Self::Error>;
    /// Flushes to WAL that a worker issues IDs without marks there.
    fn disown_in_wal(&mut self, worker: Worker) -> Result<(), Self::Error>;
    /// Reports the outcome of each write to WAL, if IDs continue in any case.
    fn report_wal(&mut self, failure: Option<Self::Error>);

    /// Signs the lock on the directory: this server issues IDs, or waits for its clock.
    fn sign(&mut self);

    /// Writes events to the [trace](crate::mark::trace), one right after the other. Under the lock, unless they are of
    /// a start that is refused.
    fn trace(&self, events: &[Event]);
}
