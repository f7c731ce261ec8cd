//! What a server does: it starts, writes its mark, issues timestamps and stops.

use crate::coverage;
use crate::found::{Found, as_core, as_last};
use crate::rules::Rule;
use crate::state::{
    InPage, Issued, Life, Memory, Page, Record, Running, Server, Start, State, Time, Wait, WalMark, Write,
};
use crate::world::World;
use snowflake_core::mark::life::LastLife;
use snowflake_core::mark::start_table::{MarkConflict, StartPoint, StartReason, others_within_reach};

/// The mark to which a running server would extend its own.
pub fn extended(running: &Running, state: &State, world: &World) -> Time {
    mark_for(running.next.min(state.now + running.lag), state.now, world)
}

/// The end of the timestamps that a running server may issue.
pub fn allowed(running: &Running, state: &State, world: &World) -> Time {
    // A server with a wrong clock does not know how far ahead it is.
    let ahead = if world.wrong_clocks { running.lag } else { running.lag.min(world.borrow) };
    running.covered.min(state.now + ahead + 1)
}

/// See `snowflake_core::mark::reservation::next_mark`.
fn mark_for(needed: Time, now: Time, world: &World) -> Time {
    (now + world.reserve).max(needed + 1)
}

impl State {
    /// A start: where IDs begin, by the core's table.
    pub fn begin(&mut self, server: usize, now: Time, mark: Option<Time>, world: &World) {
        let found = Found::new(self, server, now, world);
        let outcome = found.decide();
        coverage::visit(&outcome);
        let at = self.servers[server];
        let known = found.record.map_or(0, |record| record.mark_of(at.worker.into()));
        self.look_for_false_alarm(server, now, &outcome, world);
        let StartPoint { floor, reason } = match outcome {
            Ok(point) => point,
            Err(conflict) => {
                // As `Mark::remember_refusal`.
                if conflict == MarkConflict::NotInWal && at.page == Page::default() {
                    self.servers[server].page = disowned(at.page, &at);
                }
                self.servers[server].memory = Memory::Down;
                return;
            }
        };
        let has_mark = self.directories[at.directory].record.is_some_and(|record| record.mark_of(at.worker) > 0);
        let has_issued = self.issued[usize::from(at.worker)].end() > 0;
        if world.wrong_clocks && reason.relies_on_clock() && !has_mark && has_issued {
            return;
        }
        let (mut floor, mut waited) = (floor, None);
        if reason.relies_on_clock() {
            match at.memory {
                Memory::Waiting(wait) if now >= wait.until => {
                    (floor, waited) = (wait.floor.max(known).max(others_within_reach(&found.context)), Some(wait));
                }
                Memory::Waiting(_) => return,
                _ => {
                    let until = floor.saturating_sub(world.margin() - world.wait);
                    self.servers[server].memory = Memory::Waiting(Wait { until, floor });
                    return;
                }
            }
        }
        let by_mark = if world.keeps(Rule::BeginsAtMark) { floor.max(1) } else { now };
        let first = if world.keeps(Rule::BeginsAtClock) { by_mark.max(now) } else { by_mark };
        let mark = mark.unwrap_or_else(|| mark_for(first, now, world));
        let is_written = at.unfinished.is_some_and(|(_, written)| written >= mark);
        let write = if at.wal_mark == WalMark::Off || is_written { Write::Record } else { Write::Wal };
        let start = Start { waited, first, mark, in_wal: at.page.highest(at.worker), known, write };
        self.servers[server].memory = Memory::Starting(start);
    }

    /// A server that has only been restarted must see that, and not begin too far ahead.
    fn look_for_false_alarm(
        &mut self,
        server: usize,
        now: Time,
        outcome: &Result<StartPoint, MarkConflict>,
        world: &World,
    ) {
        let at = &self.servers[server];
        if at.is_disturbed {
            return;
        }
        let record = self.directories[at.directory].record;
        let (Ok(point), Some(record)) = (outcome, record) else {
            self.broken.alarm |= outcome.is_err();
            return;
        };
        // The first start was killed between the record and the life, or a start could not finish.
        let is_cut_off = at.life.is_none() && point.reason == StartReason::Restored || world.budget.failures > 0;
        if is_cut_off {
            return;
        }
        self.broken.alarm |= !matches!(point.reason, StartReason::Restart | StartReason::Continued);
        let is_clock_right = !world.wrong_clocks && world.budget.advances == 0;
        let after_crash = if is_clock_right { now + world.reserve } else { Time::MAX };
        self.broken.ahead |= point.floor > if at.is_lowered { record.mark } else { after_crash };
    }

    /// The next write of a start or of an extension.
    pub fn write(&mut self, server: usize, world: &World) {
        match self.servers[server].memory {
            Memory::Starting(start) => self.write_of_start(server, start, world),
            Memory::Running(running) => self.write_of_extension(server, running, world),
            Memory::Down | Memory::Waiting(_) => {}
        }
    }

    fn write_of_start(&mut self, server: usize, mut start: Start, world: &World) {
        let at = self.servers[server];
        match start.write {
            Write::Wal => {
                let before = at.page.highest(at.worker);
                start.in_wal = self.raise(server, start.mark, world);
                // Another start of this process is to find what this one has found.
                let before = at.unfinished.map_or(before, |(before, _)| before);
                self.servers[server].unfinished = Some((before, start.in_wal));
                start.write = Write::Standby;
            }
            Write::Standby => start.write = Write::Record,
            Write::Record => {
                let mark = if must_disown(&at, world) { start.first } else { start.mark };
                start.write = Write::Life(self.write_first_record(server, mark, start.in_wal, world));
            }
            Write::Life(life) => {
                self.servers[server].life = Some(life);
                start.write = if must_disown(&at, world) { Write::Disown } else { Write::Publish };
            }
            Write::Disown => {
                self.servers[server].page = disowned(at.page, &at);
                // It starts again, with what it has written.
                self.servers[server].memory = before_start(at.memory);
                return;
            }
            Write::Publish => {
                self.broken.i2 |= start.first < start.known;
                self.servers[server].unfinished = None;
                let directory = self.directories[at.directory];
                let record = directory.record.expect("the first record");
                self.servers[server].memory = Memory::Running(Running {
                    next: start.first,
                    covered: start.mark,
                    lag: start.first.saturating_sub(self.now),
                    in_wal: start.in_wal,
                    life: record.life,
                    revision: record.revision,
                    directory: directory.inode,
                    extension: None,
                });
                return;
            }
        }
        self.servers[server].memory = Memory::Starting(start);
    }

    /// The first record of a life. Returns the life, for the data directory.
    fn write_first_record(&mut self, server: usize, mark: Time, in_wal: Time, world: &World) -> Life {
        let at = self.servers[server];
        self.lives += 1;
        self.servers[server].is_lowered = false;
        let directory = &mut self.directories[at.directory];
        let previous = directory.record;
        let own = at.life.filter(|life| life.is_own);
        let as_core = previous.as_ref().map(|record| as_core(record, world));
        let revision = LastLife::revision_of_next(own.map(|life| as_last(life, directory.inode)), as_core.as_ref());
        let is_in_wal = at.wal_mark != WalMark::Off;
        directory.record = Some(Record {
            revision: revision + 1,
            life: self.lives,
            previous_life: own.map_or(0, |life| life.number),
            mark,
            logged: if is_in_wal { in_wal } else { 0 },
            cluster: at.cluster,
            timeline: at.timeline,
            directory: directory.inode,
            worker: at.worker,
            layout: at.layout,
            other: previous.map_or(0, |record| record.mark_of(1 - at.worker)),
        });
        Life {
            number: self.lives,
            revision,
            worker: at.worker,
            wal_mark: if is_in_wal { mark } else { 0 },
            directory: directory.inode,
            is_own: true,
        }
    }

    pub fn extend(&mut self, server: usize, mark: Option<Time>, world: &World) {
        let Memory::Running(mut running) = self.servers[server].memory else { return };
        if self.own_record(server, &running).is_none() {
            return;
        }
        let mark = mark.unwrap_or_else(|| extended(&running, self, world));
        let first = if self.servers[server].wal_mark == WalMark::Off { Write::Record } else { Write::Wal };
        let first = if world.keeps(Rule::WalBeforeRecord) { first } else { Write::Record };
        running.extension = Some((mark, first));
        if !world.keeps(Rule::MarkBeforeIds) {
            running.covered = mark;
        }
        self.servers[server].memory = Memory::Running(running);
    }

    fn write_of_extension(&mut self, server: usize, mut running: Running, world: &World) {
        let Some((mark, write)) = running.extension else { return };
        let next = match write {
            Write::Wal => {
                running.in_wal = self.raise(server, mark, world);
                Write::Standby
            }
            Write::Standby => {
                if world.keeps(Rule::WalBeforeRecord) {
                    Write::Record
                } else {
                    Write::Publish
                }
            }
            Write::Record => {
                let Some(record) = self.own_record(server, &running) else {
                    running.extension = None;
                    self.servers[server].memory = Memory::Running(running);
                    return;
                };
                let at = self.servers[server];
                let is_in_wal = at.wal_mark != WalMark::Off;
                let in_wal = if world.keeps(Rule::WalBeforeRecord) {
                    running.in_wal
                } else {
                    mark.max(at.page.highest(at.worker) + 1)
                };
                let logged = if is_in_wal { in_wal } else { 0 };
                running.revision = record.revision + 1;
                self.directories[at.directory].record =
                    Some(Record { revision: running.revision, mark, logged, worker: at.worker, ..record });
                let last = if is_in_wal { Write::Wal } else { Write::Publish };
                if world.keeps(Rule::WalBeforeRecord) { Write::Publish } else { last }
            }
            Write::Publish | Write::Life(_) | Write::Disown => {
                running.covered = running.covered.max(mark);
                running.extension = None;
                self.servers[server].memory = Memory::Running(running);
                return;
            }
        };
        running.extension = Some((mark, next));
        self.servers[server].memory = Memory::Running(running);
    }

    /// The record that a running server has written last.
    fn own_record(&self, server: usize, running: &Running) -> Option<Record> {
        let directory = self.directories[self.servers[server].directory];
        directory.record.filter(|record| {
            let is_own = record.life == running.life && record.revision >= running.revision;
            is_own && directory.inode == running.directory
        })
    }

    /// Raises the mark of a worker in WAL. Returns the mark that is there then.
    fn raise(&mut self, server: usize, mark: Time, world: &World) -> Time {
        let at = &mut self.servers[server];
        let rises = if world.keeps(Rule::WalRises) { 1 } else { 0 };
        let mark = mark.max(at.page.highest(at.worker) + rises);
        at.page.workers[usize::from(at.worker)] = InPage::Mark(mark);
        at.page.layout = Some(at.layout);
        mark
    }

    /// Whether a server can go on: with `require`, only once a standby has its mark in WAL.
    pub fn can_write(&self, server: usize, write: Write, mark: Time, world: &World) -> bool {
        let at = &self.servers[server];
        let has_it = |standby: &Server| standby.follows == Some(server) && standby.page.highest(at.worker) >= mark;
        let waits = write == Write::Standby && at.wal_mark == WalMark::Require && world.keeps(Rule::WaitsForStandby);
        !waits || self.servers.iter().any(has_it)
    }

    pub fn issue(&mut self, server: usize, end: Option<Time>, world: &World) {
        let Memory::Running(mut running) = self.servers[server].memory else { return };
        let at = self.servers[server];
        let end = end.unwrap_or_else(|| allowed(&running, self, world));
        let reached = self.issued.iter().map(Issued::end).max().unwrap_or(0);
        // Of the other layout, those of the next timestamp are the same IDs.
        let apart = Time::from(at.layout);
        let is_new = self.issued[usize::from(at.worker)].add(running.next + apart..end + apart);
        self.broken.uniqueness |= !is_new;
        self.broken.horizon |= running.next + apart < reached && self.promises_horizon(server, running.next, world);
        let record = self.directories[at.directory].record;
        self.broken.i1 |= record.is_none_or(|record| record.life != running.life || end > record.mark);
        running.next = end;
        running.lag = running.next.saturating_sub(self.now + 1).min(running.lag);
        self.servers[server].memory = Memory::Running(running);
    }

    /// Whether nothing of this cluster may have been issued at or above the timestamp that a server issues next. Then
    /// that is its horizon, unless a transaction holds it back.
    ///
    /// Under a wrong clock, that counts only if the server shows a horizon. What WAL does not have, nobody can know.
    fn promises_horizon(&self, server: usize, next: Time, world: &World) -> bool {
        let at = &self.servers[server];
        if !world.is_one_line() {
            return false;
        }
        if !world.wrong_clocks {
            return true;
        }
        let is_known = world.budget.failures == 0 && !at.page.workers.contains(&InPage::Unknown);
        is_known && (next >= at.page.highest(1 - at.worker) || !world.keeps(Rule::HorizonAboveOthers))
    }

    /// Has IDs begin at this time, or later.
    pub fn advance(&mut self, server: usize, past: Time) {
        self.budget.advances -= 1;
        if let Memory::Running(running) = &mut self.servers[server].memory {
            running.next = running.next.max(past);
            running.lag = running.next.saturating_sub(self.now);
        }
    }

    /// Gives up what is being written.
    pub fn fail(&mut self, server: usize) {
        match &mut self.servers[server].memory {
            Memory::Running(running) => running.extension = None,
            memory => *memory = before_start(*memory),
        }
    }

    /// Goes on without the mark in WAL, if that is only preferred.
    pub fn skip_wal(&mut self, server: usize) {
        let at = &mut self.servers[server];
        if at.wal_mark != WalMark::Prefer {
            return;
        }
        match &mut at.memory {
            Memory::Running(Running { extension: Some((_, write @ Write::Wal)), .. })
            | Memory::Starting(Start { write: write @ Write::Wal, .. }) => *write = Write::Record,
            _ => {}
        }
    }

    /// Lowers the mark that is being written.
    pub fn lower(&mut self, server: usize, mark: Time) {
        match &mut self.servers[server].memory {
            Memory::Running(Running { extension: Some((wanted, _)), .. }) => *wanted = mark.min(*wanted),
            Memory::Starting(start) => start.mark = mark.min(start.mark),
            _ => {}
        }
    }

    pub fn stop(&mut self, server: usize) {
        let Memory::Running(running) = self.servers[server].memory else { return };
        self.budget.ends -= 1;
        let at = self.servers[server];
        let directory = &mut self.directories[at.directory];
        let mut is_lowered = false;
        if let Some(record) = &mut directory.record
            && record.life == running.life
            && directory.inode == running.directory
            && running.next < record.mark
        {
            is_lowered = true;
            record.mark = running.next;
            record.revision += 1;
            record.logged = if at.wal_mark == WalMark::Off { 0 } else { running.in_wal };
        }
        self.end(server);
        self.servers[server].is_lowered = is_lowered;
    }
}

/// The memory of a process that begins anew, and has waited for its clock already if it has.
fn before_start(memory: Memory) -> Memory {
    match memory {
        Memory::Starting(Start { waited: Some(wait), .. }) => Memory::Waiting(wait),
        _ => Memory::Down,
    }
}

/// Whether WAL does not say yet that this server has no marks there.
fn must_disown(at: &Server, world: &World) -> bool {
    let Page { workers, layout, is_complete } = at.page;
    let is_told = workers[usize::from(at.worker)] == InPage::Unknown && layout == Some(at.layout) && !is_complete;
    at.wal_mark == WalMark::Off && !is_told && world.keeps(Rule::DisownedInWal)
}

fn disowned(mut page: Page, at: &Server) -> Page {
    page.workers[usize::from(at.worker)] = InPage::Unknown;
    page.layout = Some(at.layout);
    page.is_complete = false;
    page
}
