//! I2: the generator starts where the real start table says, as in `src/durable/start.rs`.

use super::{Cause, Server};
use crate::machine::{Host, Machine};
use crate::settings::{Rule, Way, start_margin_ms};
use snowflake_core::UnixMs;
use snowflake_core::identity::Numbers;
use snowflake_core::lease::LeaseStart;
use snowflake_core::life::{LastLife, Life};
use snowflake_core::record::{OtherMarks, Record};
use snowflake_core::start_table::{StartContext, StartPoint, decide};
use snowflake_core::wal_page::InWal;

impl Server {
    /// Starts the generator above everything that this server may have issued before.
    pub(super) fn start(&mut self, host: &mut Host) -> Result<(), Cause> {
        let numbers = self.numbers.expect("a server knows its worker before it begins");
        let own = host.machine.identity(numbers);
        let found = host.machine.record;
        let now = host.trusted(&self.guard, found.map_or(0, |record| record.mark)) / 1000;
        let point = self.decide(host, found, numbers, now);
        if point.reason.relies_on_clock() && self.is_pending(point.floor, now) {
            return Err(Cause::StartMargin);
        }
        let floor = point.floor.max(self.start_not_before.unwrap_or(0));
        let first = self.layout.first_tick_from(floor).max(1);
        let wanted = self.wanted(host, first, now)?;
        let logged = self.log(host, wanted)?;
        let mark = logged.map_or(wanted, |logged| wanted.min(logged));
        let others = found.map_or_else(OtherMarks::default, |found| found.others_beside(numbers));
        let life = host.chance.between(1, u64::MAX);
        let previous_life = host.machine.life.map_or(0, |last| last.life.number);
        let record = Record { revision: 0, life, previous_life, mark, logged: 0, identity: own, others };
        self.persist_first(host, found.as_ref(), record, logged);
        let now_tick = self.layout.tick_at(now).expect("no clock is so far off");
        self.generator.start(first, now_tick);
        self.start_not_before = None;
        self.kept = host.now;
        self.publish(host, first, now, mark);
        Ok(())
    }

    /// Where IDs begin.
    fn decide(&self, host: &Host, found: Option<Record>, numbers: Numbers, now: UnixMs) -> StartPoint {
        let own = host.machine.identity(numbers);
        let begins_at_mark = host.settings.keeps(Rule::BeginsAtMark);
        let believed = found.map(|record| if begins_at_mark { record } else { Record { mark: 0, ..record } });
        let context = self.context(host, now);
        let mut point = decide(believed.as_ref(), &own, &context)
            .unwrap_or_else(|conflict| panic!("{conflict:?} for {own:?} and {context:?}, with {found:?}"));
        if let Some(start_not_before) = self.start_not_before
            && point.reason.relies_on_clock()
        {
            point.floor = start_not_before.max(believed.map_or(0, |record| record.mark_of(numbers)));
        }
        let known = found.map_or(0, |record| record.mark_of(numbers));
        assert!(point.floor >= known || !begins_at_mark, "I2: {point:?} is below the mark, {known}");
        point
    }

    fn context(&self, host: &Host, now: UnixMs) -> StartContext {
        let is_shared = self.way == Way::Shared;
        let in_wal = InWal { mark: host.replication.mark(host.machine.member), ..InWal::default() };
        StartContext {
            wal: (is_shared && host.settings.keeps(Rule::BeginsAboveMarkInWal)).then_some(in_wal),
            lease: self.grant.map(|grant| grant.start),
            ..without_wal_or_lease(host.machine, now)
        }
    }

    /// Whether there is no certain mark, and the start margin has not passed.
    fn is_pending(&mut self, floor: UnixMs, now: UnixMs) -> bool {
        now < *self.start_not_before.get_or_insert(floor)
    }

    /// Makes the first record of a life durable, and has the data directory keep that life.
    fn persist_first(&mut self, host: &mut Host, found: Option<&Record>, record: Record, logged: Option<UnixMs>) {
        let revision = LastLife::revision_of_next(host.machine.life, found);
        self.revision = self.revision.max(revision);
        let (numbers, wal_mark) = (record.identity.numbers, logged.unwrap_or(0));
        self.persist(host, record);
        let life = Life { number: record.life, revision, numbers, wal_mark };
        host.machine.life = Some(LastLife { life, elsewhere: false });
    }
}

fn without_wal_or_lease(machine: &Machine, now: UnixMs) -> StartContext {
    StartContext {
        now,
        start_margin_ms: start_margin_ms(),
        wal: None,
        was_standby: false,
        last_life: machine.life,
        lease: None,
    }
}

/// Where a server begins that has found a lease of its own of this worker; `None` if it cannot go on with that.
pub fn with_lease(machine: &Machine, numbers: Numbers, begins: UnixMs, now: UnixMs) -> Option<LeaseStart> {
    let found = machine.record;
    let has_begun = found.is_some_and(|record| record.mark_of(numbers) > 0)
        || machine.life.is_some_and(|last| last.life.numbers == numbers);
    if !has_begun {
        return Some(LeaseStart::First(begins));
    }
    let start = decide(found.as_ref(), &machine.identity(numbers), &without_wal_or_lease(machine, now));
    start.is_ok_and(|start| !start.reason.relies_on_clock()).then_some(LeaseStart::Continued(begins))
}

/// A worker that this server must not have, since it seems to be a copy or a promoted standby of one that has it.
pub fn worker_of_original(machine: &Machine, now: UnixMs) -> Option<Numbers> {
    let record = machine.record?;
    let own = machine.identity(record.identity.numbers);
    let is_own = own.directory.same_inode(&record.identity.directory)
        && decide(Some(&record), &own, &without_wal_or_lease(machine, now)).is_ok();
    (!is_own).then_some(record.identity.numbers)
}
