//! What a simulated server keeps on its disk and in WAL.

use super::Grant;
use crate::machine::Host;
use crate::settings::{Rule, Way};
use snowflake_core::UnixMs;
use snowflake_core::mark::life::{LastLife, Life};
use snowflake_core::mark::record::Record;
use snowflake_core::mark::trace::Event;
use snowflake_core::mark::wal_page::InWal;
use snowflake_core::mark::{Refusal, Storage};
use snowflake_core::server::identity::{Identity, Inode, Worker};
use snowflake_core::server::lease::LeaseStart;
use snowflake_core::server::vmclock::Machine;

/// A disk, which fails after some writes, and WAL.
#[derive(Debug)]
pub struct Disk<'a, 'h> {
    pub host: &'a mut Host<'h>,
    /// How the server gets its worker.
    pub way: Way,
    /// The worker, once it is known.
    pub worker: Option<Worker>,
    pub grant: Option<Grant>,
    /// Whether the server was promoted.
    pub was_standby: bool,
    /// How many writes there are until the server dies.
    pub writes_left: usize,
    /// Whether the mark is read unchanged.
    pub is_believed: bool,
    /// The life that was prepared.
    pub prepared: Option<Life>,
}

/// Why there is no mark.
#[derive(Debug)]
pub enum Failure {
    /// The rules of the mark refuse.
    Refused(Refusal),
    /// The registry has leased no worker yet.
    NoLease,
    /// No standby acknowledges the mark in WAL.
    NoStandby,
    /// The start margin has not passed.
    StartMargin,
    Died,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Disk<'_, '_> {
    fn write(&mut self) -> Result<(), Failure> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or(Failure::Died)?;
        Ok(())
    }
}

impl Storage for Disk<'_, '_> {
    type Error = Failure;

    fn monotonic_ms(&self) -> u64 {
        self.host.monotonic() / 1000
    }

    fn worker(&self) -> Result<Worker, Failure> {
        self.worker.ok_or(Failure::NoLease)
    }

    fn identity(&self, _directory: Inode, worker: Worker) -> Result<Identity, Failure> {
        Ok(self.host.machine.identity(worker))
    }

    fn machine(&self) -> Option<Machine> {
        None
    }

    fn was_standby(&self) -> bool {
        self.was_standby
    }

    fn lease(&self) -> Result<Option<LeaseStart>, Failure> {
        match self.way {
            Way::Own | Way::Shared => Ok(None),
            Way::Leased => self.grant.map(|grant| Some(grant.start)).ok_or(Failure::NoLease),
        }
    }

    fn usable_until(&self) -> Result<UnixMs, Failure> {
        let keeps = self.way == Way::Leased && self.host.settings.keeps(Rule::MarkWithinGrant);
        Ok(if keeps { self.grant.map_or(0, |grant| grant.until) } else { UnixMs::MAX })
    }

    fn directory(&self) -> Result<Inode, Failure> {
        Ok(self.host.machine.directory)
    }

    fn read_record(&self) -> Result<Option<Record>, Failure> {
        let record = self.host.machine.record;
        Ok(if self.is_believed { record } else { record.map(|record| Record { mark: 0, ..record }) })
    }

    fn is_damaged(_error: &Failure) -> bool {
        false
    }

    fn is_newer(_error: &Failure) -> bool {
        false
    }

    fn add_record(&mut self, record: &Record) -> Result<Inode, Failure> {
        self.replace_record(record)
    }

    fn replace_record(&mut self, record: &Record) -> Result<Inode, Failure> {
        self.write()?;
        self.host.machine.record = Some(*record);
        Ok(self.host.machine.directory)
    }

    fn read_life(&self) -> Result<Option<LastLife>, Failure> {
        Ok(self.host.machine.life)
    }

    fn prepare_life(&mut self, life: Life, _directory: Inode) -> Result<(), Failure> {
        self.write()?;
        self.prepared = Some(life);
        Ok(())
    }

    fn commit_life(&mut self) -> Result<(), Failure> {
        self.write()?;
        self.host.machine.life = self.prepared.take().map(|life| LastLife { life, elsewhere: false });
        Ok(())
    }

    fn new_life(&mut self) -> u64 {
        self.host.chance.between(1, u64::MAX)
    }

    fn read_wal(&self, worker: Worker) -> Result<InWal, Failure> {
        let in_wal = self.host.replication.in_wal(self.host.machine.member, worker);
        let counts = self.host.settings.keeps(Rule::BeginsAboveMarkInWal);
        Ok(if counts { in_wal } else { InWal { mark: in_wal.mark.map(|_| 1), ..in_wal } })
    }

    fn write_wal(&mut self, worker: Worker, mark: UnixMs) -> Result<UnixMs, Failure> {
        self.write()?;
        Ok(self.host.replication.write(self.host.machine.member, worker, mark))
    }

    fn wait_for_standbys(&mut self) -> Result<(), Failure> {
        self.write()?;
        let may_go_on = self.host.replication.is_acknowledged(self.host.machine.member)
            || !self.host.settings.keeps(Rule::MarkIsAcknowledged);
        if may_go_on { Ok(()) } else { Err(Failure::NoStandby) }
    }

    fn disown_in_wal(&mut self, _worker: Worker) -> Result<(), Failure> {
        unreachable!("marks always go through WAL")
    }

    fn report_wal(&mut self, failure: Option<Failure>) {
        assert!(failure.is_none_or(|failure| matches!(failure, Failure::Died)), "WAL is never damaged");
    }

    fn sign(&mut self) {}

    fn trace(&self, _events: &[Event]) {}
}
