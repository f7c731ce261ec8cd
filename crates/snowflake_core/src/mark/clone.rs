//! The mark of a server whose machine was restored from a snapshot, or cloned with its memory.

use super::{Mark, Storage};
use crate::UnixMs;
use crate::mark::record::Record;
use crate::mark::start_table::above_start_margin;
use crate::mark::trace::Event;
use crate::server::vmclock::Machine;

impl<S: Storage> Mark<'_, S> {
    /// Under the lock of a server that runs on a machine that was cloned: where its IDs continue if no copy of it runs.
    /// Above everything that was issued, as the record and WAL say now.
    pub fn floor_above_copies(&self, now: UnixMs) -> Result<UnixMs, S::Error> {
        self.check_directory()?;
        let (worker, last) = (self.storage.worker()?, self.last_record()?);
        let context = self.context(worker, now, self.storage.read_life()?, self.storage.lease()?)?;
        let covered = self.settings.layout.time_of(self.generator.covered_until());
        Ok(above_start_margin(last.map_or(0, |last| last.mark).max(covered), &context))
    }

    /// Under the lock, when all new IDs are above [this](Self::floor_above_copies): makes durable on which machine they
    /// are issued.
    pub fn adopt_machine(&mut self) -> Result<(), S::Error> {
        self.check_directory()?;
        if let Some(last) = self.last_record()? {
            self.storage.trace(&[Event::Accepts { mark: last.mark, follows: 0, found: 0 }]);
            let machine = self.storage.machine();
            self.persist(Some(&last), Record { machine, ..last })?;
        }
        Ok(())
    }

    /// Under the lock of a running server that has noticed that its machine was cloned: makes that durable, so that it
    /// is also refused after a boot, whose generation tells nothing.
    pub fn note_clone(&mut self) -> Result<(), S::Error> {
        self.check_directory()?;
        self.last_record()?.map_or(Ok(()), |last| self.note_clone_in(last))
    }

    /// Under the lock: the same for a server that was refused with this record. Only the machine in it changes.
    pub fn note_clone_in(&mut self, record: Record) -> Result<(), S::Error> {
        let machine = record.machine.or(self.storage.machine()).map(Machine::cloned);
        if machine != record.machine {
            self.storage.trace(&[Event::Cloned { mark: record.mark }]);
            self.write(Some(&record), Record { machine, ..record })?;
        }
        Ok(())
    }
}
