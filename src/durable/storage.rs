//! The [`Storage`] of the mark: the state directory, the data directory, and WAL.

use crate::durable::state_file::StateDirectory;
use crate::durable::{directory_lock, identity, lease, life_file, trace, wal};
use crate::errors::{IssueError, StateFileError, summary};
use crate::postgres::clock;
use crate::postgres::sleep::{self, WaitEvent};
use crate::shared::machine;
use crate::shared::{Shared, shared};
use crate::stops;
use crate::worker::{self, citus_group};
use pgrx::{PgLogLevel, pg_sys};
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::Storage;
use snowflake_core::mark::life::{LastLife, Life};
use snowflake_core::mark::record::Record;
use snowflake_core::mark::trace::Event;
use snowflake_core::mark::wal_page::InWal;
use snowflake_core::server::identity::{Identity, Inode, Worker};
use snowflake_core::server::lease::LeaseStart;
use snowflake_core::server::vmclock::Machine;
use std::sync::atomic::Ordering;

/// Where this server keeps its mark.
pub struct Disk {
    /// The state directory.
    pub directory: StateDirectory,
    layout: Layout,
    /// The machine that records name.
    pub machine: Option<Machine>,
    /// Where the last record that was written to WAL ends.
    position: pg_sys::XLogRecPtr,
}

impl Disk {
    /// The state directory of a server with this [flat layout](worker::flat_layout).
    pub fn new(directory: StateDirectory, layout: Layout) -> Result<Self, IssueError> {
        Ok(Self { directory, layout, machine: machine::at_start()?, position: 0 })
    }
}

fn write(work: impl FnOnce() -> Result<Inode, StateFileError>) -> Result<Inode, IssueError> {
    stops::here("wal-file");
    let written = sleep::with_wait_event(WaitEvent::MarkWrite, work)?;
    shared().statistics.mark_extensions.fetch_add(1, Ordering::Relaxed);
    stops::here("flush-publish");
    Ok(written)
}

impl Storage for Disk {
    type Error = IssueError;

    fn monotonic_ms(&self) -> u64 {
        clock::monotonic_ms()
    }

    fn worker(&self) -> Result<Worker, IssueError> {
        worker::flat_worker()
    }

    fn identity(&self, directory: Inode, worker: Worker) -> Result<Identity, IssueError> {
        Ok(identity::this_server(directory, worker, self.layout))
    }

    fn machine(&self) -> Option<Machine> {
        self.machine
    }

    fn was_standby(&self) -> bool {
        worker::starts_as_standby()
    }

    fn lease(&self) -> Result<Option<LeaseStart>, IssueError> {
        lease::start()
    }

    fn usable_until(&self) -> Result<UnixMs, IssueError> {
        citus_group::check()?;
        Ok(lease::usable_until())
    }

    fn directory(&self) -> Result<Inode, IssueError> {
        Ok(self.directory.inode()?)
    }

    fn read_record(&self) -> Result<Option<Record>, IssueError> {
        Ok(self.directory.read()?)
    }

    fn is_damaged(error: &IssueError) -> bool {
        matches!(error, IssueError::StateFile(StateFileError::Damaged { .. }))
    }

    fn is_newer(error: &IssueError) -> bool {
        matches!(error, IssueError::NewerWalPage(_))
    }

    fn add_record(&mut self, record: &Record) -> Result<Inode, IssueError> {
        write(|| self.directory.add(record))
    }

    fn replace_record(&mut self, record: &Record) -> Result<Inode, IssueError> {
        write(|| self.directory.replace(record))
    }

    fn read_life(&self) -> Result<Option<LastLife>, IssueError> {
        Ok(life_file::read(&self.directory)?)
    }

    fn prepare_life(&mut self, life: Life, directory: Inode) -> Result<(), IssueError> {
        Ok(life_file::prepare(life, directory)?)
    }

    fn commit_life(&mut self) -> Result<(), IssueError> {
        Ok(life_file::commit()?)
    }

    fn new_life(&mut self) -> u64 {
        life_file::new_number()
    }

    fn read_wal(&self, worker: Worker) -> Result<InWal, IssueError> {
        wal::read(worker)
    }

    fn write_wal(&mut self, worker: Worker, mark: UnixMs) -> Result<UnixMs, IssueError> {
        let (counts, position) = wal::write(worker, self.layout, mark)?;
        self.position = position;
        stops::here("wal-standbys");
        Ok(counts)
    }

    fn wait_for_standbys(&mut self) -> Result<(), IssueError> {
        wal::wait_for_standbys(self.position)
    }

    fn disown_in_wal(&mut self, worker: Worker) -> Result<(), IssueError> {
        wal::disown(worker, self.layout)
    }

    /// Shows in the view what is wrong with the mark in WAL, if anything is, and logs it once a minute.
    fn report_wal(&mut self, failure: Option<IssueError>) {
        let Shared { wal_failure, wal_warnings, .. } = shared();
        match failure {
            Some(failure) => {
                wal_failure.write(&summary::log_recorded(failure, PgLogLevel::LOG_SERVER_ONLY, wal_warnings.is_due()));
            }
            None => wal_failure.write(""),
        }
    }

    fn sign(&mut self) {
        directory_lock::sign(&self.directory);
    }

    fn trace(&self, events: &[Event]) {
        trace::record_of_mark(events, self.layout);
    }
}
