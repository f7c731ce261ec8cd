//! What a server does: it starts, writes its mark, issues timestamps and stops.

use crate::coverage;
use crate::found::{Found, as_core, as_last};
use crate::rules::Rule;
use crate::state::{InPage, Life, Memory, Page, Record, Running, Server, Start, State, Time, WalMark, Write};
use crate::world::World;
use snowflake_core::mark::life::LastLife;
use snowflake_core::mark::start_table::StartPoint;

/// The mark to which a running server would extend its own.
pub fn extended(running: &Running, state: &State, world: &World) -> Time {
    mark_for(running.next, state.now, world)
}

/// See `snowflake_core::mark::reservation::next_mark`.
fn mark_for(needed: Time, now: Time, world: &World) -> Time {
    (now + world.reserve).max(needed + 1)
}

/// Small numbers of the core.
fn small(number: u64) -> Time {
    Time::try_from(number).expect("a small number")
}

impl State {
    /// A start: where IDs begin, by the core's table.
    pub fn begin(&mut self, server: usize, now: Time, world: &World) {
        let found = Found::new(self, server, now, world);
        let outcome = found.decide();
        coverage::visit(&outcome);
        let at = self.servers[server];
        let known = found.record.map_or(0, |record| small(record.mark_of(at.worker.into())));
        let StartPoint { floor, reason } = match outcome {
            Ok(point) => point,
            Err(_) => {
                self.broken.alarm |= !at.is_disturbed;
                // As `Mark::remember_refusal`.
                if at.page == Page::default() {
                    self.servers[server].page = disowned(at.page, &at);
                }
                self.servers[server].memory = Memory::Down;
                return;
            }
        };
        if world.wrong_clocks && reason.relies_on_clock() && known == 0 && self.issued[usize::from(at.worker)] != 0 {
            return;
        }
        let mut floor = small(floor);
        if reason.relies_on_clock() && world.keeps(Rule::WaitsForClock) {
            match at.memory {
                Memory::Waiting(until) if now >= until => floor = until.max(known),
                Memory::Waiting(_) => return,
                _ => {
                    self.servers[server].memory = Memory::Waiting(floor);
                    return;
                }
            }
        }
        let first = if world.keeps(Rule::BeginsAtMark) { floor.max(1) } else { now };
        let write = if at.wal_mark == WalMark::Off { Write::Record } else { Write::Wal };
        let start =
            Start { first, mark: mark_for(first, now, world), in_wal: at.page.highest(at.worker), known, write };
        self.servers[server].memory = Memory::Starting(start);
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
                start.in_wal = self.raise(server, start.mark, world);
                start.write = Write::Standby;
            }
            Write::Standby => start.write = Write::Record,
            Write::Record => {
                let is_off = at.wal_mark == WalMark::Off;
                let is_told = at.page.workers[usize::from(at.worker)] == InPage::Unknown;
                let first_only = is_off && !is_told && world.keeps(Rule::DisownedInWal);
                let mark = if first_only { start.first } else { start.mark };
                let life = self.write_first_record(server, mark, start.in_wal, world);
                start.write = if first_only { Write::Disown(life) } else { Write::Life(life) };
            }
            Write::Disown(life) => {
                self.servers[server].life = Some(life);
                self.servers[server].page = disowned(at.page, &at);
                // It starts again, with what it has written.
                self.servers[server].memory = Memory::Down;
                self.begin(server, self.now, world);
                return;
            }
            Write::Life(life) => {
                self.servers[server].life = Some(life);
                start.write = Write::Publish;
            }
            Write::Publish => {
                self.broken.i2 |= start.first < start.known;
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
            timeline: at.timeline,
            directory: directory.inode,
            worker: at.worker,
            layout: at.layout,
            other: previous
                .filter(|_| world.keeps(Rule::MarksOfOthers))
                .map_or(0, |record| record.mark_of(1 - at.worker)),
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

    pub fn extend(&mut self, server: usize, world: &World) {
        let Memory::Running(mut running) = self.servers[server].memory else { return };
        if self.own_record(server, &running).is_none() {
            return;
        }
        let mark = extended(&running, self, world);
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
                if world.keeps(Rule::WalBeforeRecord) { Write::Standby } else { Write::Publish }
            }
            Write::Standby => Write::Record,
            Write::Record => {
                let Some(record) = self.own_record(server, &running) else {
                    running.extension = None;
                    self.servers[server].memory = Memory::Running(running);
                    return;
                };
                let at = self.servers[server];
                let is_in_wal = at.wal_mark != WalMark::Off;
                let logged = if is_in_wal { running.in_wal } else { 0 };
                running.revision = record.revision + 1;
                self.directories[at.directory].record =
                    Some(Record { revision: running.revision, mark, logged, worker: at.worker, ..record });
                let last = if is_in_wal { Write::Wal } else { Write::Publish };
                if world.keeps(Rule::WalBeforeRecord) { Write::Publish } else { last }
            }
            Write::Publish | Write::Life(_) | Write::Disown(_) => {
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

    pub fn issue(&mut self, server: usize) {
        let Memory::Running(mut running) = self.servers[server].memory else { return };
        let at = self.servers[server];
        let end = running.covered.min(self.now + running.lag + 1);
        let new = ((1_u64 << end) - (1_u64 << running.next)) << at.layout;
        let worker = usize::from(at.worker);
        self.broken.uniqueness |= self.issued[worker] & new != 0;
        let record = self.directories[at.directory].record;
        self.broken.i1 |= record.is_none_or(|record| record.life != running.life || end > record.mark);
        self.issued[worker] |= new;
        running.next = end;
        running.lag = running.next.saturating_sub(self.now + 1).min(running.lag);
        self.servers[server].memory = Memory::Running(running);
    }

    pub fn stop(&mut self, server: usize) {
        let Memory::Running(running) = self.servers[server].memory else { return };
        self.budget.ends -= 1;
        let at = self.servers[server];
        let directory = &mut self.directories[at.directory];
        if let Some(record) = &mut directory.record
            && record.life == running.life
            && directory.inode == running.directory
            && running.next < record.mark
        {
            record.mark = running.next;
            record.revision += 1;
            record.logged = if at.wal_mark == WalMark::Off { 0 } else { running.in_wal };
        }
        self.end(server);
    }
}

fn disowned(mut page: Page, at: &Server) -> Page {
    page.workers[usize::from(at.worker)] = InPage::Unknown;
    page.layout = Some(at.layout);
    page
}
