//! The mark in the state directory of a server that leases its worker, before the registry has answered.

use super::{Mark, Storage};
use crate::UnixMs;
use crate::mark::record::Record;
use crate::mark::start_table::{StartContext, decide};
use crate::server::identity::{Identity, Worker};
use crate::server::lease::{Lease, LeaseStart};

/// A record, or none, and everything except WAL that decides what it is good for.
#[derive(Clone, Debug)]
pub struct StoredMark {
    /// The source of this server's IDs, except the worker.
    identity: Identity,
    record: Option<Record>,
    is_damaged: bool,
    context: StartContext,
}

impl<S: Storage> Mark<'_, S> {
    /// Reads the state directory. `now` is what the clock shows to a server that finds this record.
    pub fn read_stored_mark(&self, now: impl FnOnce(Option<&Record>) -> UnixMs) -> Result<StoredMark, S::Error> {
        let identity = self.storage.identity(self.storage.directory()?, Worker::default())?;
        // Before the record, which is written first: another process may start the generator now.
        let last_life = self.storage.read_life()?;
        let (record, is_damaged) = match self.storage.read_record() {
            Err(error) if S::is_damaged(&error) => (None, true),
            record => (record?, false),
        };
        let context = StartContext {
            now: now(record.as_ref()),
            start_margin_ms: self.settings.start_margin_ms(),
            wal: None,
            was_standby: self.storage.was_standby(),
            machine: self.storage.machine(),
            last_life,
            lease: None,
        };
        Ok(StoredMark { identity, record, is_damaged, context })
    }
}

impl StoredMark {
    /// The mark of a new server: none.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        let layout = "flat".parse().expect("a preset");
        let directory = crate::server::identity::Inode { number: 1, born_ns: 1 };
        let identity = Identity { system_identifier: 1, timeline: 1, directory, worker: 0, layout };
        let context = StartContext {
            now: 0,
            start_margin_ms: 0,
            wal: None,
            was_standby: false,
            machine: None,
            last_life: None,
            lease: None,
        };
        Self { identity, record: None, is_damaged: false, context }
    }

    /// The mark of this server, for whichever worker; 0 if there is none, or if it is damaged: it counts once it is
    /// repaired.
    pub fn mark(&self) -> UnixMs {
        self.record.filter(|record| self.is_here(record)).map_or(0, |record| record.mark)
    }

    /// Every timestamp that this server has issued is below this; `None` if its mark is lost, damaged or not here.
    pub fn reached(&self) -> Option<UnixMs> {
        let record = self.record.filter(|record| self.is_here(record));
        let has_written = self.is_damaged || self.context.last_life.is_some();
        record.map(|record| record.mark).or_else(|| (!has_written).then_some(0))
    }

    /// Where a server begins with the lease that it has; `None` if it cannot use it, since its mark is lost, damaged or
    /// another server's.
    pub fn start_of_lease(&self, lease: &Lease) -> Option<LeaseStart> {
        if self.is_damaged {
            return None;
        }
        let worker = lease.worker;
        let has_begun = self.record.is_some_and(|record| record.mark_of(worker) > 0)
            || self.context.last_life.is_some_and(|last| last.life.worker == worker);
        if !has_begun {
            return Some(LeaseStart::First(lease.begins));
        }
        let start = decide(self.record.as_ref(), &Identity { worker, ..self.identity }, &self.context);
        start.is_ok_and(|start| !start.reason.relies_on_clock()).then_some(LeaseStart::Continued(lease.begins))
    }

    /// A worker that this server must not have, since it seems to be a copy or a promoted standby of a server that has
    /// it.
    pub fn worker_of_original(&self) -> Option<Worker> {
        let record = self.record?;
        let worker = record.identity.worker;
        let is_own = self.is_here(&record)
            && decide(Some(&record), &Identity { worker, ..self.identity }, &self.context).is_ok();
        (!is_own).then_some(worker)
    }

    fn is_here(&self, record: &Record) -> bool {
        self.identity.directory.same_inode(&record.identity.directory)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mark::life::{LastLife, Life};
    use crate::mark::record::{LaterFields, OtherMarks};
    use crate::server::identity::Inode;
    use crate::server::lease::Location;

    const OWN: Worker = 5;
    const ELSEWHERE: Inode = Inode { number: 2, born_ns: 2 };

    /// What a server finds that has issued IDs of a worker, up to 1000.
    fn found(change: impl FnOnce(&mut Identity)) -> StoredMark {
        let mut stored = StoredMark::none();
        let mut identity = Identity { worker: OWN, ..stored.identity };
        change(&mut identity);
        let (mark, others) = (1000, OtherMarks::default());
        let (life, previous_life, machine, later) = (42, 41, None, LaterFields::default());
        stored.record =
            Some(Record { revision: 9, life, previous_life, mark, logged: mark, identity, machine, others, later });
        let life = Life { number: 42, revision: 9, worker: OWN, wal_mark: 0 };
        stored.context.last_life = Some(LastLife { life, elsewhere: false });
        stored
    }

    fn lease(worker: Worker) -> Lease {
        let location = Location { boot: 8, device: 9, directory: 12 };
        Lease { worker, tokens: [1; 2], begins: 10, granted_until: 5, receipt: [6; 32], revision: 7, location }
    }

    #[test]
    fn a_server_continues_with_the_lease_of_its_worker_and_begins_with_others() {
        let stored = found(|_| {});
        assert_eq!(stored.start_of_lease(&lease(OWN)), Some(LeaseStart::Continued(10)));
        assert_eq!(stored.start_of_lease(&lease(OWN + 1)), Some(LeaseStart::First(10)));
        assert_eq!(StoredMark::none().start_of_lease(&lease(OWN)), Some(LeaseStart::First(10)));
        assert_eq!((stored.mark(), stored.reached()), (1000, Some(1000)));
    }

    #[test]
    fn a_server_does_not_begin_anew_with_a_worker_whose_mark_is_lost_damaged_or_not_its_own() {
        let lost = StoredMark { record: None, ..found(|_| {}) };
        let damaged = StoredMark { is_damaged: true, ..found(|_| {}) };
        let mut copied = found(|identity| identity.directory = ELSEWHERE);
        copied.context.last_life = None;
        for stored in [lost, damaged, copied] {
            assert_eq!(stored.start_of_lease(&lease(OWN)), None, "{stored:?}");
        }
    }

    #[test]
    fn a_server_that_seems_to_be_a_copy_must_not_have_the_worker_of_its_original() {
        assert_eq!((StoredMark::none().worker_of_original(), found(|_| {}).worker_of_original()), (None, None));
        let mut moved = found(|identity| identity.directory = ELSEWHERE);
        moved.context.last_life = moved.context.last_life.map(|last| LastLife { elsewhere: true, ..last });
        assert_eq!((moved.mark(), moved.reached(), moved.worker_of_original()), (0, None, Some(OWN)));
        assert_eq!(found(|identity| identity.system_identifier = 8).worker_of_original(), Some(OWN));
    }
}
