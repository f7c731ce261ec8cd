//! The mark of a server: [`snowflake_core::mark`], which the extension runs, too, on a simulated disk.

use super::{Cause, Server};
use crate::machine::Host;
use crate::server::storage::{Disk, Failure};
use crate::settings::{KEEP_WARM, RESERVE_AHEAD_MS, Rule, mark_settings};
use crate::time::Micros;
use snowflake_core::mark::{Begin, Mark, Need, Refusal, StoredMark, is_due, need, period_ms};
use snowflake_core::server::lease::Lease;
use snowflake_core::{Tick, UnixMs};

/// How often the keeper looks while IDs are issued.
const KEEPER_PERIOD: Micros = period_ms(RESERVE_AHEAD_MS, true) * 1000;

impl Server {
    /// The mark, whose disk fails after so many writes.
    pub(super) fn mark<'a, 'h>(&'a self, host: &'a mut Host<'h>, writes_left: usize) -> Mark<'a, Disk<'a, 'h>> {
        let (worker, grant, was_standby) = (self.worker, self.grant, self.was_standby);
        let disk =
            Disk { host, way: self.way, worker, grant, was_standby, writes_left, is_believed: true, prepared: None };
        Mark::new(&self.generator, &self.state, mark_settings(self.way), disk)
    }

    /// Starts the generator, or extends the mark past `tick`.
    pub(super) fn cover(&mut self, host: &mut Host, tick: Tick) -> Result<(), Cause> {
        if !self.generator.is_started() {
            return self.start(host, usize::MAX).map_err(|failure| self.cause(failure));
        }
        match need(&self.generator, tick) {
            Need::None => {}
            Need::Early => {
                let _ = self.extend(host, tick, usize::MAX);
            }
            Need::Now => {
                self.extend(host, tick, usize::MAX).map_err(|failure| self.cause(failure))?;
                self.keeper_look = host.now;
            }
        }
        Ok(())
    }

    /// Makes up for the keeper, which has looked once a second while the server was in use. Only what it did last
    /// matters: the clock has run evenly since, and the mark does not fall.
    pub fn catch_up_keeper(&mut self, host: &mut Host) {
        let until = host.now.min(self.last_use + KEEP_WARM);
        if !self.generator.is_started() || until < self.keeper_look + KEEPER_PERIOD {
            return;
        }
        let now = std::mem::replace(&mut host.now, until - (until - self.keeper_look) % KEEPER_PERIOD);
        self.keeper_look = host.now;
        let mark = self.layout.time_of(self.generator.covered_until());
        let latest = (self.now(host) / 1000).max(self.last_timestamp());
        if is_due(mark, latest, RESERVE_AHEAD_MS) {
            // A failure becomes an error when IDs reach the mark.
            let _ = self.extend(host, self.generator.last_tick(), usize::MAX);
        }
        host.now = now;
    }

    /// The machine continues after it has stood still, and the keeper with it.
    pub fn wake(&mut self, now: Micros) {
        self.keeper_look = now;
    }

    fn extend(&self, host: &mut Host, tick: Tick, writes_left: usize) -> Result<(), Failure> {
        let now = self.now(host) / 1000;
        self.mark(host, writes_left).extend(|| tick, now)
    }

    /// Starts the generator above everything that this server may have issued before.
    fn start(&mut self, host: &mut Host, writes_left: usize) -> Result<(), Failure> {
        let (record, worker) = (host.machine.record, self.worker);
        let now = self.now_at_start(host);
        let is_believed = host.settings.keeps(Rule::BeginsAtMark);
        let mut mark = self.mark(host, writes_left);
        mark.storage.is_believed = is_believed;
        let Begin::At { point, .. } = mark.start(now)? else {
            return Err(Failure::StartMargin);
        };
        let known = record.zip(worker).map_or(0, |(record, worker)| record.mark_of(worker));
        assert!(point.floor >= known || !is_believed, "I2: {point:?} is below the mark, {known}");
        self.keeper_look = host.now;
        Ok(())
    }

    /// What the clock shows to a server that finds the record.
    pub(super) fn now_at_start(&self, host: &Host) -> UnixMs {
        host.trusted(&self.guard, host.machine.record.map_or(0, |record| record.mark)) / 1000
    }

    fn cause(&self, failure: Failure) -> Cause {
        match failure {
            Failure::Refused(Refusal::LeaseEnded) | Failure::NoLease => self.lease_trouble(),
            Failure::NoStandby => Cause::NoStandby,
            Failure::Refused(refusal) => panic!("{refusal:?}"),
            Failure::StartMargin => Cause::StartMargin,
            Failure::Died => unreachable!("nobody is told"),
        }
    }

    /// What is in the state directory.
    pub fn read_stored_mark(&self, host: &mut Host) -> StoredMark {
        let now = self.now_at_start(host);
        self.mark(host, usize::MAX).read_stored_mark(|_| now).expect("a disk that can be read")
    }

    /// The server dies, after so many writes of the extension of its mark that is under way; `None` if there is none.
    pub fn die(&mut self, host: &mut Host, writes: Option<usize>) {
        self.catch_up_keeper(host);
        let Some(writes) = writes else { return };
        let _ = if self.generator.is_started() {
            self.extend(host, self.generator.covered_until(), writes)
        } else {
            self.start(host, writes)
        };
    }

    /// The postmaster lowers the mark at a planned stop, when nothing else runs.
    pub fn lower_mark(&self, host: &mut Host) {
        self.mark(host, usize::MAX).lower().expect("the record is this server's");
    }

    /// Lowers the grant of the lease to the mark, so that the mark is not extended any more. Returns it;
    /// `None` if the mark is lost.
    pub fn lower_grant(&mut self, host: &mut Host, lease: &Lease) -> Option<UnixMs> {
        let granted = self.grant.map_or(0, |grant| grant.until);
        let lowest = self.mark(host, usize::MAX).lowest_grant(lease, granted).expect("a disk that can be read");
        if let Some(until) = lowest {
            self.grant_until(until);
        }
        lowest
    }
}
