//! I2: the generator starts at or above the mark that is found, or not at all. [The table](crate::mark::start_table)
//! decides.

use super::{Mark, Refusal, Storage};
use crate::id::layout::Layout;
use crate::mark::life::LastLife;
use crate::mark::record::{OtherMarks, Record};
use crate::mark::start_table::{StartContext, StartPoint, decide, others_within_reach};
use crate::mark::trace::{Event, decision};
use crate::mark::wal_page::{InWal, PageHorizon};
use crate::server::identity::{Identity, Worker};
use crate::server::lease::{Lease, LeaseStart};
use crate::{Tick, UnixMs};
use std::sync::atomic::Ordering::Relaxed;

/// What a start has found, and where IDs begin.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the clock shows.
    pub now: UnixMs,
    identity: Identity,
    record: Option<Record>,
    last_life: Option<LastLife>,
    point: StartPoint,
    /// The highest mark of another worker in WAL.
    others: UnixMs,
    /// What WAL says of the horizon.
    horizon: PageHorizon,
    is_first: bool,
    events: [Event; 5],
}

impl Plan {
    /// Whether IDs begin by the clock, which must be right then.
    pub fn counts_from_clock(&self) -> bool {
        self.point.reason.counts_from_clock()
    }

    /// The first tick, for a clock that is in the tick `now`. Tick 0 is never issued: a generator that has not been
    /// started holds position 0.
    ///
    /// While this server was down, another one can have had its worker. The clock can still be set back after the
    /// start, or the policy can look for ticks that it skipped.
    fn first_tick(&self, layout: &Layout, now: Tick) -> Tick {
        // mutant: begins-below-floor
        let above_floor = layout.first_tick_from(self.point.floor).max(1);
        // mutant: begins-below-clock
        above_floor.max(now)
    }
}

/// The outcome of a start.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// Nothing may be issued before this time.
    Pending(UnixMs),
    /// IDs will begin here, but not yet: there is no certain mark.
    Waiting(StartPoint),
    /// IDs begin here.
    At {
        /// Where, and why.
        point: StartPoint,
        /// Whether the server has reported that before, since it had to wait.
        was_pending: bool,
        /// Whether the file system has replaced the directory of the mark by a copy, as an overlay does with a
        /// directory of its lower layer.
        was_copied_up: bool,
    },
}

impl<S: Storage> Mark<'_, S> {
    /// Reads the mark in the directory, which this server has locked, and decides where IDs begin. `now` is what the
    /// clock shows to a server that finds this record.
    pub fn plan(&self, now: impl FnOnce(Option<&Record>) -> UnixMs) -> Result<Plan, S::Error> {
        let (lease, layout) = (self.storage.lease()?, self.settings.layout);
        let identity = self.storage.identity(self.storage.directory()?, self.storage.worker()?)?;
        // Before the record, which is written first: another process may start the generator now.
        let last_life = self.storage.read_life()?;
        let record = self.storage.read_record()?;
        let now = now(record.as_ref());
        let context = self.context(identity.worker, now, last_life, lease)?;
        // WAL knows of its primary's IDs where a standby is promoted, which must not take longer.
        let is_first = record.is_none() && last_life.is_none() && context.wal.is_some_and(|wal| wal.is_unwritten());
        let decided = decide(record.as_ref(), &identity, &context);
        let events = [
            Event::begins(&identity, now),
            Event::found_record(record.as_ref(), identity.worker),
            Event::found_life(last_life),
            Event::found_in_wal(&context.wal.unwrap_or_default()),
            Event::decided(&decided, &context),
        ];
        let mut point = decided.map_err(|conflict| {
            // A server that is refused asks again and again.
            if self.state.refusal.swap(decision(&Err(conflict)), Relaxed) != decision(&Err(conflict)) {
                self.storage.trace(&events);
            }
            Refusal::Conflict { conflict, record: record.map(Box::new), identity: Box::new(identity) }
        })?;
        let known = record.map_or(0, |record| record.mark_of(identity.worker));
        let start_not_before = self.state.start_not_before.load(Relaxed);
        if point.reason.relies_on_clock() && start_not_before > 0 {
            // A mark that has appeared meanwhile counts, too.
            // mutant: floor-of-wait
            let floor = self.state.start_floor.load(Relaxed);
            let common = context.wal.map_or(0, |wal| wal.common);
            // mutant: begins-before-wait
            point.floor = floor.max(known).max(common).max(others_within_reach(&context));
        }
        // Past the end, although neither the clock nor this server's IDs are.
        let is_pushed = point.floor > known;
        if is_pushed && layout.first_tick_from(point.floor) > layout.last_tick() && layout.tick_at(now).is_ok() {
            return Err(Refusal::LayoutEndsBefore { layout, begin: point.floor }.into());
        }
        // Those of another layout, which was accepted, say nothing of these IDs.
        let of_layout = context.wal.filter(|wal| wal.layout == Some(layout));
        let InWal { others, horizon, .. } = of_layout.unwrap_or_default();
        Ok(Plan { identity, now, record, last_life, point, others, horizon, is_first, events })
    }

    /// What matters at a start of this worker, apart from the record. An error of WAL is reported when marks are
    /// written there, unless they must go there, or a later library goes on there.
    pub fn context(
        &self,
        worker: Worker,
        now: UnixMs,
        last_life: Option<LastLife>,
        lease: Option<LeaseStart>,
    ) -> Result<StartContext, S::Error> {
        let mut wal = match self.storage.read_wal(worker) {
            // mutant: newer-page-refused
            Err(failure) if self.settings.wal_mark.is_required() || S::is_newer(&failure) => return Err(failure),
            wal => wal.unwrap_or_else(|_| InWal::unreadable()),
        };
        // Without what this server itself wrote there in a start that then failed: each start would begin further
        // ahead.
        let [previous, logged] = [0, 1].map(|i| self.state.unfinished_start[i].load(Relaxed));
        if logged > 0 && wal.mark == Some(logged) {
            wal.mark = Some(previous).filter(|&mark| mark > 0);
        }
        let start_margin_ms = self.settings.start_margin_ms();
        let (was_standby, machine) = (self.storage.was_standby(), self.storage.machine());
        Ok(StartContext { now, start_margin_ms, wal: Some(wal), was_standby, machine, last_life, lease })
    }

    /// Under the lock: the lowest grant that a server needs if it gives the rest of its lease back, and at most the
    /// present one. `None` if it cannot tell what was issued: it has not begun, and its mark is lost or damaged.
    pub fn lowest_grant(&self, lease: &Lease, granted_until: UnixMs) -> Result<Option<UnixMs>, S::Error> {
        let reached = if self.generator.is_started() {
            Some(self.settings.layout.time_of(self.generator.covered_until()))
        } else {
            self.read_stored_mark(|_| 0)?.reached()
        };
        Ok(reached.map(|mark| mark.max(lease.begins).min(granted_until)))
    }

    /// Under the lock: starts the generator above everything that this server may have issued before.
    ///
    /// The first mark must be on disk before that. A directory that cannot be written may be the wrong one, and the
    /// right one, with the right mark, may come back. For the same reason a server without a mark waits, and so it
    /// begins less far ahead of its clock, and the first one of a cluster not at all. It writes no mark meanwhile, so
    /// it waits again after a crash.
    pub fn start(&mut self, now: UnixMs) -> Result<Begin, S::Error> {
        let (plan, layout, state) = (self.plan(|_| now)?, self.settings.layout, self.state);
        if self.is_pending(&plan) {
            let until = state.not_before();
            if until > 0 {
                return Ok(Begin::Pending(until));
            }
            self.storage.sign();
            self.storage.trace(&plan.events);
            let until = plan.point.floor - self.settings.ahead_after_wait_ms(plan.is_first);
            self.storage.trace(&[Event::Waits { until }]);
            state.start_floor.store(plan.point.floor, Relaxed);
            state.start_not_before.store(until, Relaxed);
            return Ok(Begin::Waiting(plan.point));
        }
        let now_tick = layout.tick_at(now).map_err(|error| Refusal::Clock(now, error))?;
        let first = plan.first_tick(&layout, now_tick);
        let (mark, limit, wal_mark) = (self.mark_for(first, now)?, self.limit()?, self.wal_mark());
        state.refusal.store(0, Relaxed);
        self.storage.trace(&plan.events);
        self.storage.trace(&[Event::Starts { first: layout.time_of(first), mark, limit, wal_mark }]);
        self.start_at(first, now_tick, mark, plan).inspect_err(|_| self.storage.trace(&[Event::Failed {}]))
    }

    fn start_at(&mut self, first: Tick, now_tick: Tick, wanted: UnixMs, plan: Plan) -> Result<Begin, S::Error> {
        let (layout, state) = (self.settings.layout, self.state);
        let Plan { now, identity, record, last_life, point, others, horizon, .. } = plan;
        let known = record.map_or(0, |record| record.mark_of(identity.worker));
        let begin = layout.time_of(first);
        assert!(begin >= point.floor && begin >= known, "I2: IDs would begin at {begin}, and the mark is {known}");
        let point = StartPoint { floor: begin, ..point };
        // Before the first mark, which tells standbys, and the first horizon.
        state.begin_horizon(begin, others, horizon);
        self.log_first(identity.worker, wanted)?;
        let mark = wanted.min(self.limit()?);
        if mark <= begin {
            return Err(Refusal::LeaseEnded.into());
        }
        let others = record.map_or_else(OtherMarks::default, |record| record.others_for(identity.worker));
        // A server that is promoted later must know that WAL does not have the mark. This server writes its record
        // first, without which it would take itself for such a server. Nothing is issued yet, so failures do not add
        // up.
        if !self.goes_through_wal() && !self.is_disowned_in_wal(identity.worker) {
            // mutant: told-before-record
            let written = self.persist_first(record.as_ref(), begin, identity, others, last_life)?;
            self.disown(identity.worker)?;
            state.in_wal.store(0, Relaxed);
            let again = self.start(now)?;
            let Begin::At { was_pending, was_copied_up, .. } = again else { return Ok(again) };
            return Ok(Begin::At {
                point,
                was_pending,
                was_copied_up: was_copied_up || !written.same_inode(&identity.directory),
            });
        }
        // mutant: first-mark-before-start
        let written = self.persist_first(record.as_ref(), mark, identity, others, last_life)?;
        self.storage.sign();
        state.set_directory(written);
        // From now on a clock that is set back is only behind.
        let was_pending = state.start_not_before.swap(0, Relaxed) > 0;
        state.reset_not_before.store(0, Relaxed);
        state.unfinished_start[1].store(0, Relaxed);
        self.generator.start(first, now_tick);
        self.publish(first, now, mark);
        Ok(Begin::At { point, was_pending, was_copied_up: !written.same_inode(&identity.directory) })
    }

    /// Whether WAL says that a worker issues IDs without marks there, and promises standbys nothing of what another
    /// worker's left complete. A page that is not ours says so, too: it has no mark for anybody.
    fn is_disowned_in_wal(&self, worker: Worker) -> bool {
        let is_told = |wal: InWal| {
            // mutant: disowned-once
            let promises_nothing = wal.horizon == PageHorizon::Unknown;
            wal.is_unknown && promises_nothing && wal.layout == Some(self.settings.layout)
        };
        self.storage.read_wal(worker).map_or(true, is_told)
    }

    /// Under the lock: records in WAL that this server was refused because WAL has no mark. After a restart, it no
    /// longer knows that it was promoted.
    pub fn remember_refusal(&mut self) -> Result<(), S::Error> {
        let worker = self.storage.worker()?;
        let is_unwritten = self.storage.read_wal(worker).is_ok_and(|wal| wal.is_unwritten());
        if is_unwritten { self.disown(worker) } else { Ok(()) }
    }

    fn disown(&mut self, worker: Worker) -> Result<(), S::Error> {
        self.storage.disown_in_wal(worker)?;
        self.storage.trace(&[Event::Disowned { worker }]);
        Ok(())
    }

    /// Whether the server must wait: it has no certain mark and has not waited yet, or its mark was reset to far
    /// ahead.
    fn is_pending(&self, plan: &Plan) -> bool {
        let start_not_before = self.state.start_not_before.load(Relaxed);
        let has_to_wait = start_not_before == 0 || plan.now < start_not_before;
        plan.now < self.state.reset_not_before.load(Relaxed) || plan.point.reason.relies_on_clock() && has_to_wait
    }

    /// Writes the first mark to WAL, unless a start that failed afterwards has written it.
    fn log_first(&mut self, worker: Worker, mark: UnixMs) -> Result<(), S::Error> {
        let [previous, logged] = &self.state.unfinished_start;
        let already_logged = logged.load(Relaxed);
        if already_logged >= mark {
            return Ok(());
        }
        if self.goes_through_wal() && already_logged == 0 {
            let wal = self.storage.read_wal(worker).unwrap_or_default();
            // mutant: earlier-mark-in-wal
            previous.store(wal.mark.unwrap_or(0), Relaxed);
            self.state.in_wal.store(wal.highest(), Relaxed);
        }
        self.log(worker, mark)?;
        logged.store(if self.goes_through_wal() { self.state.in_wal.load(Relaxed) } else { 0 }, Relaxed);
        Ok(())
    }
}
