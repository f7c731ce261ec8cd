//! The durable mark: when it is extended, how far, and what is written in which order.
//!
//! A server does all this under a lock, in one of several processes. So what they know of the mark is a [`MarkState`]
//! of atomics. Files, WAL and clocks are behind a [`Storage`]: the extension has PostgreSQL's, the simulation its own.
//!
//! - **I1**: every timestamp issued is below the mark, which was flushed before: [`Mark::extend`].
//! - **I2**: after every start, the first timestamp is at or above the mark that was found, and not below the clock:
//!   [`Mark::start`].
//! - **I3**: the mark of a leased worker never passes the grant: [`Storage::usable_until`].
//!
//! [`reservation`] says how far ahead of the clock, and [`start_table`] where a server begins that finds a mark. What
//! is kept is a [`record`] in a [`state_file`], a [`life`] in the data directory, and a [`wal_page`], each in a
//! [format](crate::formats) that can grow.

pub mod audit;
mod clone;
mod keeper;
pub mod life;
pub mod lives;
pub mod record;
pub mod reservation;
mod settings;
mod start;
pub mod start_table;
mod state;
pub mod state_file;
mod storage;
mod stored_mark;
pub mod trace;
pub mod wal_page;

pub use keeper::{KeeperSchedule, Work, is_due, period_ms};
pub use settings::{MarkSettings, WalMark};
pub use start::{Begin, Plan};
pub use state::MarkState;
pub use storage::{Refusal, Storage};
pub use stored_mark::StoredMark;

use crate::id::layout::TimeError;
use crate::issue::generator::Generator;
use crate::mark::life::{LastLife, Life};
use crate::mark::record::{LaterFields, OtherMarks, Record};
use crate::mark::reservation::Extension;
use crate::mark::trace::Event;
use crate::server::identity::{Identity, Inode, Worker};
use crate::server::lease;
use crate::{Tick, UnixMs};
use std::sync::atomic::Ordering::Relaxed;

/// The mark of a server. Callers that change it have the lock.
#[derive(Debug)]
pub struct Mark<'a, S> {
    /// The generator whose timestamps the mark covers.
    generator: &'a Generator,
    /// What the processes know of the mark.
    state: &'a MarkState,
    /// How the server is configured.
    settings: MarkSettings,
    /// Where the mark is kept.
    pub storage: S,
    /// When the write to WAL began, which the next write to disk completes.
    began_ms: Option<u64>,
}

/// Whether a call needs a further mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Another call extends the mark, or has done so.
    None,
    /// The mark is near. A failure becomes an error when the mark is reached.
    Early,
    /// The tick is not below the mark.
    Now,
}

/// Whether a call that has come near the mark, or to it, needs a further mark for this tick.
pub fn need(generator: &Generator, tick: Tick) -> Need {
    if tick >= generator.covered_until() {
        Need::Now
    } else if generator.take_on_extension() {
        Need::Early
    } else {
        Need::None
    }
}

impl<'a, S: Storage> Mark<'a, S> {
    /// The mark of a server.
    pub fn new(generator: &'a Generator, state: &'a MarkState, settings: MarkSettings, storage: S) -> Self {
        Self { generator, state, settings, storage, began_ms: None }
    }

    /// Extends the mark past `tick()`.
    ///
    /// The mark goes to WAL, then to disk, and is used only then.
    pub fn extend(&mut self, tick: impl Fn() -> Tick, now: UnixMs) -> Result<(), S::Error> {
        let generator = self.generator;
        let needed = || tick().max(generator.last_tick());
        let directory = self.check_directory()?;
        let identity = self.storage.identity(directory, self.storage.worker()?)?;
        let last = self.last_record()?;
        let mark = self.mark_for(needed(), now)?;
        let (issued, limit, wal_mark) = (self.issued(), self.limit()?, self.wal_mark());
        let jumps_to = self.jumps_to(needed());
        self.storage.trace(&[Event::Extends { issued, mark, limit, wal_mark, jumps_to }]);
        self.extend_to(mark, needed, now, identity, last).inspect_err(|_| self.storage.trace(&[Event::Failed {}]))
    }

    fn extend_to(
        &mut self,
        mark: UnixMs,
        needed: impl Fn() -> Tick,
        now: UnixMs,
        identity: Identity,
        last: Option<Record>,
    ) -> Result<(), S::Error> {
        self.log(identity.worker, mark)?;
        // A call that has ended meanwhile must not move the mark to where it wanted it, and a grant can be lower now.
        // mutant: wanted-again
        let mark = mark.min(self.mark_for(needed(), now)?);
        // If the record is lost, all other workers begin above the highest mark that one of them had.
        // mutant: other-marks-lost
        let lost = || OtherMarks::all_at(self.state.others.load(Relaxed));
        // mutant: other-marks-kept
        let others = last.map_or_else(lost, |last| last.others);
        let previous_life = last.map_or(0, |last| last.previous_life);
        // mutant: record-of-other-life
        let life = self.state.life.load(Relaxed);
        // What is known of a clone stays until it is accepted.
        let machine = last.map_or(self.storage.machine(), |last| last.machine);
        // mutant: later-fields-kept
        let later = last.map_or_else(LaterFields::default, |last| last.later);
        let record = Record { revision: 0, life, previous_life, mark, logged: 0, identity, machine, others, later };
        let same_worker = last.is_none_or(|last| last.identity.worker == identity.worker);
        assert!(same_worker, "the mark of a worker would be replaced by another's, {}", identity.worker);
        let covered = self.settings.layout.time_of(self.generator.covered_until());
        assert!(mark >= covered, "I1: the mark would fall to {mark}, and IDs can be issued up to {covered}");
        // mutant: publish-after-persist
        self.persist(last.as_ref(), record)?;
        self.publish(needed(), now, mark);
        Ok(())
    }

    /// Lowers the mark to just above what was issued, when the server stops and no other process runs.
    pub fn lower(&mut self) -> Result<(), S::Error> {
        if !self.generator.is_started() {
            return Ok(());
        }
        let lowest = self.issued();
        self.storage.trace(&[Event::Stops { issued: lowest }]);
        self.check_directory()?;
        // mutant: lower-own-mark
        if let Some(last) = self.last_record()?
            && lowest < last.mark
        {
            // mutant: lowered-too-far
            self.persist(Some(&last), Record { mark: lowest, ..last })?;
        }
        Ok(())
    }

    /// Every timestamp that was issued is below this.
    fn issued(&self) -> UnixMs {
        self.settings.layout.time_of(self.generator.last_tick() + 1)
    }

    /// The mark that covers this tick, `reserve_ahead` ahead of the clock or more.
    fn mark_for(&self, tick: Tick, now: UnixMs) -> Result<UnixMs, S::Error> {
        let MarkSettings { layout, reserve_ahead_ms, max_borrow_ms, borrows_ticks, .. } = self.settings;
        if tick > layout.last_tick() {
            return Err(Refusal::Clock(now, TimeError::AfterEnd { last: layout.last_time() }).into());
        }
        let limit = self.limit()?;
        let reserve_ms = reservation::reserve_ms(reserve_ahead_ms, max_borrow_ms, self.state.last_writes_ms());
        let covered = layout.time_of(self.generator.covered_until());
        let next = self.extension(layout.time_of(tick), 0);
        let borrow_ms = if borrows_ticks { max_borrow_ms } else { 0 };
        let step_ms = reservation::step_ms(self.state.extension(), next, now, reserve_ahead_ms, borrow_ms);
        let mark = reservation::next_mark(now, next.needed, covered, reserve_ms, step_ms);
        // In ticks of the layout, so not beyond its end.
        // mutant: mark-within-limit
        let mark = layout.time_of(layout.first_tick_from(mark)).min(limit);
        // A grant can be lowered while a mark is written.
        if mark > next.needed && mark >= covered { Ok(mark) } else { Err(Refusal::LeaseEnded.into()) }
    }

    /// This tick, if those between the last ones and it are left out; else 0.
    fn jumps_to(&self, tick: Tick) -> UnixMs {
        let MarkSettings { layout, max_borrow_ms, borrows_ticks, .. } = self.settings;
        let next = self.extension(layout.time_of(tick), 0);
        let borrow_ms = if borrows_ticks { max_borrow_ms } else { 0 };
        if reservation::jumps(self.state.extension(), next, borrow_ms) { next.needed } else { 0 }
    }

    /// The mark may not be above this time, which is the beginning of a tick.
    fn limit(&self) -> Result<UnixMs, S::Error> {
        Ok(lease::limit(&self.settings.layout, self.storage.usable_until()?))
    }

    fn extension(&self, needed: UnixMs, step_ms: u64) -> Extension {
        Extension { at: self.storage.monotonic_ms(), needed, step_ms }
    }

    /// Writes a mark to WAL, if marks go there.
    fn log(&mut self, worker: Worker, mark: UnixMs) -> Result<(), S::Error> {
        self.began_ms = Some(self.storage.monotonic_ms());
        match self.settings.wal_mark {
            WalMark::Off => {}
            WalMark::Prefer => {
                let failure = self.write_wal(worker, mark).err();
                self.storage.report_wal(failure);
            }
            WalMark::Require => {
                self.write_wal(worker, mark)?;
                self.storage.wait_for_standbys()?;
                self.storage.report_wal(None);
            }
        }
        Ok(())
    }

    fn write_wal(&mut self, worker: Worker, mark: UnixMs) -> Result<(), S::Error> {
        let counts = self.storage.write_wal(worker, mark)?;
        assert!(counts >= mark, "I1: WAL has a mark of {counts} after {mark} was written there");
        self.storage.trace(&[Event::Logged { worker, mark, counts }]);
        self.state.in_wal.store(counts, Relaxed);
        Ok(())
    }

    fn wal_mark(&self) -> u64 {
        self.settings.wal_mark as u64
    }

    fn goes_through_wal(&self) -> bool {
        self.settings.wal_mark.is_written()
    }

    /// Makes the first record of a life durable, and has the data directory keep that life. Returns the inode of the
    /// directory.
    ///
    /// The record comes first, and names the previous life, too: whenever the server dies, the two agree. If there is
    /// no room for the new life, the record stays unchanged: a server that is started again and again must not raise
    /// its mark.
    pub fn persist_first(
        &mut self,
        previous: Option<&Record>,
        mark: UnixMs,
        identity: Identity,
        others: OtherMarks,
        last_life: Option<LastLife>,
    ) -> Result<Inode, S::Error> {
        let (life, previous_life) = (self.storage.new_life(), last_life.map_or(0, |last| last.life.number));
        assert!(life != 0 && life != previous_life, "a life with the number {life} after {previous_life}");
        // If the device is away for a time, a clone is noticed when it is back.
        let before = previous.and_then(|previous| previous.machine).filter(|machine| !machine.is_cloned());
        // mutant: record-names-machine
        let machine = self.storage.machine().or(before);
        // mutant: later-fields-of-start
        let later = previous.map_or_else(LaterFields::default, |previous| previous.later);
        // mutant: life-before-forgotten
        let record = Record { revision: 0, life, previous_life, mark, logged: 0, identity, machine, others, later };
        let revision = LastLife::revision_of_next(last_life, previous);
        self.state.revision.fetch_max(revision, Relaxed);
        // WAL knows of this life if it has a mark as high as this one.
        let wal_mark = if self.goes_through_wal() { record.mark } else { 0 };
        let life = Life { number: record.life, revision, worker: record.identity.worker, wal_mark };
        // mutant: life-before-record
        self.storage.prepare_life(life, record.identity.directory)?;
        // mutant: life-after-record
        let written = self.persist(previous, record)?;
        // mutant: life-copied-up
        if !written.same_inode(&record.identity.directory) {
            self.storage.prepare_life(life, written)?;
        }
        // mutant: life-left-prepared
        self.storage.commit_life()?;
        let Life { number, revision, worker, wal_mark } = life;
        self.storage.trace(&[Event::Born { number, revision, wal_mark, worker }]);
        Ok(written)
    }

    /// Makes a record durable with the mark that is known to be in WAL. Returns the inode of the directory.
    fn persist(&mut self, previous: Option<&Record>, record: Record) -> Result<Inode, S::Error> {
        // mutant: record-knows-wal
        let logged = if self.goes_through_wal() { self.state.in_wal.load(Relaxed) } else { 0 };
        self.write(previous, Record { logged, ..record })
    }

    /// Makes a record durable after the previous one, with the next revision. Remembers how long the write took, with
    /// WAL. Returns the inode of the directory.
    fn write(&mut self, previous: Option<&Record>, record: Record) -> Result<Inode, S::Error> {
        let began_ms = self.began_ms.take().unwrap_or_else(|| self.storage.monotonic_ms());
        let state = self.state;
        let previous_revision = previous.map_or(0, |previous| previous.revision);
        let revision = previous_revision.max(state.revision.load(Relaxed)) + 1;
        let record = Record { revision, ..record };
        let has_failed = state.write_failed.swap(true, Relaxed);
        // mutant: failed-slot
        let adds = !has_failed && previous_revision > 0 && revision == previous_revision + 1;
        let written = if adds { self.storage.add_record(&record) } else { self.storage.replace_record(&record) }?;
        self.storage.trace(&[Event::recorded(&record)]);
        state.write_failed.store(false, Relaxed);
        state.revision.store(revision, Relaxed);
        state.flushed.store(record.mark, Relaxed);
        state.life.store(record.life, Relaxed);
        state.others.store(record.others.highest(), Relaxed);
        state.keep_write_ms(self.storage.monotonic_ms().saturating_sub(began_ms));
        Ok(written)
    }

    /// Lets the generator use a durable mark.
    fn publish(&self, needed: Tick, now: UnixMs, mark: UnixMs) {
        let layout = &self.settings.layout;
        let flushed = self.state.flushed.load(Relaxed);
        assert!(mark <= flushed, "I1: a mark of {mark} would be used, and {flushed} is durable");
        let needed = layout.time_of(needed);
        self.state.set_extension(self.extension(needed, mark.saturating_sub(needed)));
        let soft_limit = reservation::soft_limit(now, needed, mark);
        self.storage.trace(&[Event::Used { mark }]);
        // mutant: used-beyond-mark
        self.generator.cover(layout.first_tick_from(soft_limit), layout.first_tick_from(mark));
    }

    /// The directory; an error if another one has replaced it since the start.
    fn check_directory(&self) -> Result<Inode, S::Error> {
        let directory = self.storage.directory()?;
        // mutant: swapped-directory
        if directory.same_inode(&self.state.directory()) { Ok(directory) } else { Err(Refusal::Replaced.into()) }
    }

    /// The record that this server wrote last; an error if there is another one. A lost or damaged record may be
    /// replaced, and is `None`.
    fn last_record(&self) -> Result<Option<Record>, S::Error> {
        let Some(record) = self.read_unless_damaged()? else { return Ok(None) };
        // After a failure the record can be the one whose write has failed.
        let is_the_last =
            record.life == self.state.life.load(Relaxed) && record.revision >= self.state.revision.load(Relaxed);
        if is_the_last { Ok(Some(record)) } else { Err(Refusal::Replaced.into()) }
    }

    fn read_unless_damaged(&self) -> Result<Option<Record>, S::Error> {
        match self.storage.read_record() {
            Err(error) if S::is_damaged(&error) => Ok(None),
            record => record,
        }
    }
}
