//! I1: the mark is extended before a timestamp above it is issued, as in `src/durable/{extend,mark,keeper}.rs`.

use super::{Cause, Server};
use crate::machine::Host;
use crate::settings::{KEEP_WARM, MAX_BORROW_MS, RESERVE_AHEAD_MS, Rule, Way};
use crate::time::Micros;
use snowflake_core::record::Record;
use snowflake_core::reservation::{self, Extension};
use snowflake_core::{Tick, UnixMs};

/// How often the keeper looks while IDs are issued: after half of the reservation.
const KEEPER_PERIOD: Micros = RESERVE_AHEAD_MS * 1000 / 2;

/// How long a write to the disk takes, in milliseconds.
const WRITE_MS: u64 = 2;

/// Where a crash finds the extension of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// There is none under way.
    Between,
    /// The mark is in WAL, and not on disk.
    AfterWal,
    /// The mark is on disk, and not yet used.
    AfterDisk,
}

impl Server {
    /// Starts the generator, or extends the mark past `tick`.
    pub(super) fn cover(&mut self, host: &mut Host, tick: Tick) -> Result<(), Cause> {
        if self.way == Way::Leased && self.grant.is_none() {
            return Err(self.lease_trouble());
        }
        if !self.generator.is_started() {
            return self.start(host);
        }
        let limit = self.generator.covered_until();
        if tick < limit {
            // A failure is told at the limit.
            let _ = self.generator.take_on_extension() && self.extend(host, tick).is_ok();
            return Ok(());
        }
        self.extend(host, tick)?;
        self.kept = host.now;
        Ok(())
    }

    /// Makes up for the keeper, which has looked once a second while the server was in use. Only what it did last
    /// matters: the clock has run evenly since, and the mark does not fall.
    pub fn keep(&mut self, host: &mut Host) {
        let until = host.now.min(self.used + KEEP_WARM);
        if !self.generator.is_started() || until < self.kept + KEEPER_PERIOD {
            return;
        }
        let now = std::mem::replace(&mut host.now, until - (until - self.kept) % KEEPER_PERIOD);
        self.kept = host.now;
        let mark = self.layout.time_of(self.generator.covered_until());
        let latest = (self.now(host) / 1000).max(self.last_timestamp());
        if mark.saturating_sub(latest) < RESERVE_AHEAD_MS * 3 / 4 {
            // A failure becomes an error when IDs reach the mark.
            let _ = self.extend(host, self.generator.last_tick());
        }
        host.now = now;
    }

    /// The machine goes on after it has stood still, and the keeper with it.
    pub fn wake(&mut self, now: Micros) {
        self.kept = now;
    }

    fn extend(&mut self, host: &mut Host, tick: Tick) -> Result<(), Cause> {
        let now = self.now(host) / 1000;
        let needed = tick.max(self.generator.last_tick());
        let wanted = self.wanted(host, needed, now)?;
        let mark = self.log(host, wanted)?.map_or(wanted, |logged| wanted.min(logged));
        let found = host.machine.record.expect("a server that runs has a record");
        assert!(found.life == self.life, "only this server writes here");
        self.persist(host, Record { mark, ..found });
        self.publish(host, needed, now, mark);
        Ok(())
    }

    /// The mark that covers this tick.
    pub(super) fn wanted(&self, host: &Host, tick: Tick, now: UnixMs) -> Result<UnixMs, Cause> {
        let reserve_ms = reservation::reserve_ms(RESERVE_AHEAD_MS, MAX_BORROW_MS, [WRITE_MS; 2]);
        let mark = self.layout.time_of(self.generator.covered_until());
        let next = Self::extension(host, self.layout.time_of(tick), 0);
        let step_ms = reservation::step_ms(self.extended, next, now, RESERVE_AHEAD_MS, 0);
        let mark = reservation::next_mark(now, next.needed, mark, reserve_ms, step_ms);
        let mark = mark.min(self.limit(host));
        if mark > next.needed { Ok(mark) } else { Err(self.lease_trouble()) }
    }

    /// The mark may not be above this time.
    fn limit(&self, host: &Host) -> UnixMs {
        let keeps = host.settings.keeps(Rule::MarkWithinGrant);
        self.grant.filter(|_| keeps).map_or(UnixMs::MAX, |grant| grant.until)
    }

    fn extension(host: &Host, needed: UnixMs, step_ms: u64) -> Extension {
        Extension { at: host.monotonic() / 1000, needed, step_ms }
    }

    /// Takes a mark through WAL, if marks go through it. Returns what is there then.
    pub(super) fn log(&self, host: &mut Host, mark: UnixMs) -> Result<Option<UnixMs>, Cause> {
        if self.way != Way::Shared {
            return Ok(None);
        }
        let (logged, is_acknowledged) = host.replication.write(host.machine.member, mark);
        let may_go_on = is_acknowledged || !host.settings.keeps(Rule::MarkIsAcknowledged);
        if may_go_on { Ok(Some(logged)) } else { Err(Cause::NoStandby) }
    }

    /// Makes a record durable.
    pub(super) fn persist(&mut self, host: &mut Host, record: Record) {
        let before = host.machine.record.map_or(0, |found| found.revision);
        self.revision = before.max(self.revision) + 1;
        let logged = if self.way == Way::Shared {
            host.replication.mark(host.machine.member).unwrap_or(0)
        } else {
            record.logged
        };
        host.machine.record = Some(Record { revision: self.revision, logged, ..record });
        self.life = record.life;
    }

    /// Lets the generator use a durable mark.
    pub(super) fn publish(&mut self, host: &Host, needed: Tick, now: UnixMs, mark: UnixMs) {
        let needed = self.layout.time_of(needed);
        self.extended = Self::extension(host, needed, mark.saturating_sub(needed));
        let soft_limit = reservation::soft_limit(now, needed, mark);
        self.generator.cover(self.layout.first_tick_from(soft_limit), self.layout.first_tick_from(mark));
    }

    /// The server dies here.
    pub fn die(&mut self, host: &mut Host, point: CrashPoint) {
        self.keep(host);
        if point == CrashPoint::Between || !self.generator.is_started() {
            return;
        }
        let now = self.now(host) / 1000;
        let Ok(wanted) = self.wanted(host, self.generator.covered_until(), now) else { return };
        let Ok(logged) = self.log(host, wanted) else { return };
        if point == CrashPoint::AfterDisk {
            let found = host.machine.record.expect("a server that runs has a record");
            self.persist(host, Record { mark: logged.map_or(wanted, |logged| wanted.min(logged)), ..found });
        }
    }

    /// The postmaster lowers the mark at a planned stop, when nothing else runs.
    pub fn lower_mark(&mut self, host: &mut Host) {
        let Some(found) = host.machine.record.filter(|_| self.generator.is_started()) else { return };
        let lowest = self.layout.time_of(self.generator.last_tick() + 1);
        if lowest < found.mark {
            self.persist(host, Record { mark: lowest, ..found });
        }
    }

    /// Lowers the grant of the lease to the mark, so that the mark is not extended any more. Returns it.
    pub fn lower_grant(&mut self, begins: UnixMs, found: UnixMs) -> UnixMs {
        let mark =
            if self.generator.is_started() { self.layout.time_of(self.generator.covered_until()) } else { found };
        let until = mark.max(begins).min(self.grant.map_or(0, |grant| grant.until));
        self.grant_until(until);
        until
    }
}
