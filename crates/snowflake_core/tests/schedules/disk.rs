//! A disk that can fail at any write, and WAL on it.

use mark_model::replay::{Findings, Touch, Trace, replay};
use mark_model::world::World;
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::life::{LastLife, Life};
use snowflake_core::mark::record::Record;
use snowflake_core::mark::trace::{Entry, Event};
use snowflake_core::mark::wal_page::{InWal, WalPage};
use snowflake_core::mark::{Refusal, Storage};
use snowflake_core::server::identity::{Identity, Inode, Worker};
use snowflake_core::server::lease::LeaseStart;
use snowflake_core::server::vmclock::Machine;
use std::cell::RefCell;

const DIRECTORY: Inode = Inode { number: 1, born_ns: 1 };

pub struct Disk {
    layout: Layout,
    /// A monotonic clock.
    pub elapsed: u64,
    pub works: bool,
    /// The grant of the lease.
    pub usable_until: UnixMs,
    /// Whether the server was promoted since it was started.
    pub was_standby: bool,
    /// How many writes succeed before the server dies.
    pub writes_left: usize,
    pub record: Option<Record>,
    life: Option<LastLife>,
    prepared: Option<Life>,
    lives: u64,
    pub wal: WalPage,
    /// What the server has recorded.
    pub trace: RefCell<Vec<Event>>,
    /// Whether files were lost or exchanged.
    is_touched: bool,
}

#[derive(Debug)]
pub enum Failure {
    Refused(Refusal),
    Disk,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Disk {
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            elapsed: 0,
            works: true,
            usable_until: UnixMs::MAX,
            was_standby: false,
            writes_left: usize::MAX,
            record: None,
            life: None,
            prepared: None,
            lives: 0,
            wal: WalPage::default(),
            trace: RefCell::default(),
            is_touched: false,
        }
    }

    /// The mark.
    pub fn mark(&self) -> Option<UnixMs> {
        self.record.map(|record| record.mark)
    }

    /// Loses the state file. WAL stays: without it there is no database.
    pub fn lose(&mut self) {
        (self.record, self.is_touched) = (None, true);
    }

    /// A promoted standby has WAL alone.
    pub fn fail_over(&mut self) {
        (self.record, self.life, self.was_standby, self.is_touched) = (None, None, true, true);
    }

    /// The server has started, with empty memory.
    pub fn boot(&self) {
        self.trace.borrow_mut().push(Event::Boot { server: 1, copy_of: 0, is_standby: self.was_standby.into() });
    }

    /// What the model says of what the server has recorded.
    pub fn replay(&self, world: World) -> Result<Findings, String> {
        let entry = |(number, event)| Entry { number, at: 0, event };
        let entries = (1..).zip(self.trace.borrow().iter().copied()).map(entry).collect();
        replay(
            &[Trace { file: 1, copy_of: 0, entries }],
            if self.is_touched { Touch::Files } else { Touch::Nothing },
            world,
        )
    }

    fn write(&mut self) -> Result<(), Failure> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or(Failure::Disk)?;
        if self.works { Ok(()) } else { Err(Failure::Disk) }
    }
}

impl Storage for &mut Disk {
    type Error = Failure;

    fn monotonic_ms(&self) -> u64 {
        self.elapsed
    }

    fn worker(&self) -> Result<Worker, Failure> {
        Ok(1)
    }

    fn identity(&self, directory: Inode, worker: Worker) -> Result<Identity, Failure> {
        Ok(Identity { system_identifier: 1, timeline: 1, directory, worker, layout: self.layout })
    }

    fn machine(&self) -> Option<Machine> {
        None
    }

    fn was_standby(&self) -> bool {
        self.was_standby
    }

    fn lease(&self) -> Result<Option<LeaseStart>, Failure> {
        Ok(None)
    }

    fn usable_until(&self) -> Result<UnixMs, Failure> {
        Ok(self.usable_until)
    }

    fn directory(&self) -> Result<Inode, Failure> {
        Ok(DIRECTORY)
    }

    fn read_record(&self) -> Result<Option<Record>, Failure> {
        Ok(self.record)
    }

    fn is_damaged(_error: &Failure) -> bool {
        false
    }

    fn is_newer(_error: &Failure) -> bool {
        false
    }

    fn add_record(&mut self, record: &Record) -> Result<Inode, Failure> {
        assert_eq!(self.record.map(|last| last.revision + 1), Some(record.revision), "beside the last one");
        self.replace_record(record)
    }

    fn replace_record(&mut self, record: &Record) -> Result<Inode, Failure> {
        self.write()?;
        self.record = Some(*record);
        Ok(DIRECTORY)
    }

    fn read_life(&self) -> Result<Option<LastLife>, Failure> {
        Ok(self.life)
    }

    fn prepare_life(&mut self, life: Life, _directory: Inode) -> Result<(), Failure> {
        self.write()?;
        self.prepared = Some(life);
        Ok(())
    }

    fn commit_life(&mut self) -> Result<(), Failure> {
        self.write()?;
        self.life = self.prepared.take().map(|life| LastLife { life, elsewhere: false });
        Ok(())
    }

    fn new_life(&mut self) -> u64 {
        self.lives += 1;
        self.lives
    }

    fn read_wal(&self, worker: Worker) -> Result<InWal, Failure> {
        Ok(self.wal.look_up(worker))
    }

    fn write_wal(&mut self, worker: Worker, mark: UnixMs) -> Result<UnixMs, Failure> {
        self.write()?;
        self.wal.raise(worker, mark, self.layout, usize::MAX);
        Ok(self.wal.look_up(worker).highest())
    }

    fn wait_for_standbys(&mut self) -> Result<(), Failure> {
        self.write()
    }

    fn disown_in_wal(&mut self, worker: Worker) -> Result<(), Failure> {
        self.write()?;
        self.wal.disown(worker, self.layout, usize::MAX);
        Ok(())
    }

    fn report_wal(&mut self, _failure: Option<Failure>) {}

    fn sign(&mut self) {}

    fn trace(&self, events: &[Event]) {
        self.trace.borrow_mut().extend(events);
    }
}
