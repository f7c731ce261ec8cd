//! A server that issues IDs: the real generator, in a process that is simulated.
//!
//! [`Server::call`] does what `src/issue` of the extension does, and `mark` what its keeper and its backends do to the
//! mark, by the same code of the core.

use crate::machine::Host;
use crate::settings::{MAX_BORROW_MS, MAX_WAIT_MS, POLICY, Way};
use crate::time::Micros;
use snowflake_core::id::layout::{Layout, Series};
use snowflake_core::issue::forward_jump::ForwardJumpGuard;
use snowflake_core::issue::generator::{Generator, Outcome, Span};
use snowflake_core::mark::MarkState;
use snowflake_core::server::identity::Worker;
use snowflake_core::server::lease::{Lease, LeaseStart};
use snowflake_core::{Position, Tick, UnixMs};

mod mark;
mod storage;

/// How long a backend goes by a reading of the clock, in microseconds.
const MAX_AGE: Micros = 1000;

/// Why a call gets no ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The clock is too far behind the last ID, or behind where IDs begin.
    ClockBehind,
    /// A server that has to rely on its clock lets the start margin pass.
    StartMargin,
    /// No standby acknowledges the mark in WAL.
    NoStandby,
    /// The registry is away, or out of reach, when a server starts.
    RegistryAway,
    /// The registry is away, or out of reach, and the lease has ended.
    LeaseEnded,
    /// The registry has no worker to lease.
    NoWorkerFree,
    /// The registry has given the worker to another server.
    Superseded,
    /// The clock is further ahead of the registry's than leases reach.
    ClockAhead,
}

impl Cause {
    pub const ALL: [Self; 8] = [
        Self::ClockBehind,
        Self::StartMargin,
        Self::NoStandby,
        Self::RegistryAway,
        Self::LeaseEnded,
        Self::NoWorkerFree,
        Self::Superseded,
        Self::ClockAhead,
    ];

    /// Whether a lease is missing.
    pub fn is_of_lease(self) -> bool {
        !matches!(self, Self::ClockBehind | Self::StartMargin | Self::NoStandby)
    }
}

/// What a call without all its IDs has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It waits for the next tick, or for less than `max_wait`.
    Waits,
    Refused(Cause),
}

/// Adjacent IDs that a client has received.
#[derive(Clone, Copy, Debug)]
pub struct Issued {
    /// The first one.
    pub first_id: u64,
    pub count: u64,
    /// Their timestamp.
    pub timestamp: UnixMs,
    /// What the server's clock showed when the server read it last, a millisecond ago at most.
    pub clock: UnixMs,
}

/// What a server knows of its lease.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// Where its IDs begin.
    pub start: LeaseStart,
    /// Its IDs are below.
    pub until: UnixMs,
}

/// A server, from its start to its end: what is in shared memory.
#[derive(Debug)]
pub struct Server {
    way: Way,
    layout: Layout,
    generator: Box<Generator>,
    guard: ForwardJumpGuard,
    /// Once it is known.
    worker: Option<Worker>,
    series: Option<Series>,
    /// The lease, where workers are leased.
    grant: Option<Grant>,
    /// Why there is no lease, or none that is longer.
    trouble: Cause,
    /// What the processes know of the mark.
    state: MarkState,
    /// Whether it was a standby until it was promoted.
    was_standby: bool,
    /// When the keeper looked last.
    keeper_look: Micros,
    /// When an ID was issued last.
    last_use: Micros,
    /// The last position that a client has received.
    last: Option<Position>,
    /// What the clock showed when it was read last: an open tick goes by that.
    read: UnixMs,
}

impl Server {
    /// A server that has just been started, with this worker if it is not leased.
    pub fn new(way: Way, worker: Option<Worker>, was_standby: bool, guard: ForwardJumpGuard) -> Self {
        let layout = crate::settings::layout();
        let mut server = Self {
            way,
            layout,
            generator: Box::new(Generator::new(layout.sequence_bits())),
            guard,
            worker: None,
            series: None,
            grant: None,
            trouble: Cause::RegistryAway,
            state: MarkState::default(),
            was_standby,
            keeper_look: 0,
            last_use: 0,
            last: None,
            read: 0,
        };
        worker.into_iter().for_each(|worker| server.be(worker));
        server
    }

    fn be(&mut self, worker: Worker) {
        self.worker = Some(worker);
        self.series = self.layout.series(0, worker).ok();
    }

    /// Lets the server begin with a lease.
    pub fn begin_with(&mut self, lease: &Lease, start: LeaseStart) {
        self.be(lease.worker);
        self.grant = Some(Grant { start, until: lease.granted_until });
    }

    /// The worker that was leased.
    pub fn leased_worker(&self) -> Option<Worker> {
        self.grant.and(self.worker)
    }

    /// Changes how far the lease reaches.
    pub fn grant_until(&mut self, until: UnixMs) {
        self.grant.iter_mut().for_each(|grant| grant.until = until);
    }

    /// What calls are told while the lease does not cover them.
    pub fn set_trouble(&mut self, cause: Cause) {
        self.trouble = cause;
    }

    /// The offset of the clock that is trusted, which the postmaster keeps when a backend crashes.
    pub fn trusted_offset(&self) -> u64 {
        self.guard.offset()
    }

    /// The latest of what the clock shows and what was issued, or of the mark before the first start: what a grant must
    /// be beyond.
    pub fn latest(&self, host: &Host, mark_at_start: UnixMs) -> UnixMs {
        let last = if self.generator.is_started() { self.last_timestamp() } else { mark_at_start };
        (host.trusted(&self.guard, last) / 1000).max(last)
    }

    /// All timestamps issued are below; 0 if there are none.
    pub fn issued_until(&self) -> UnixMs {
        if self.last.is_some() { self.layout.time_of(self.generator.last_tick() + 1) } else { 0 }
    }

    /// Why the lease does not cover a call.
    fn lease_trouble(&self) -> Cause {
        if self.grant.is_some() && self.trouble == Cause::RegistryAway { Cause::LeaseEnded } else { self.trouble }
    }

    fn last_timestamp(&self) -> UnixMs {
        self.layout.time_of(self.generator.last_tick())
    }

    /// What the clock shows, as far as it is trusted, in microseconds.
    fn now(&self, host: &Host) -> Micros {
        host.trusted(&self.guard, self.last_timestamp())
    }

    /// Asks for IDs, which are added to `issued`.
    pub fn call(&mut self, host: &mut Host, want: u32, issued: &mut Vec<Issued>) -> Result<(), Stop> {
        self.catch_up_keeper(host);
        let mut missing = want;
        while missing > 0 {
            let span = self.take(host, missing)?;
            missing -= u32::try_from(span.last - span.first + 1).expect("at most what was wanted");
            issued.push(self.receive(host, span));
        }
        Ok(())
    }

    /// Takes adjacent positions, and does what the generator asks for until it gives.
    fn take(&mut self, host: &mut Host, want: u32) -> Result<Span, Stop> {
        let counter = host.monotonic();
        loop {
            if let Some(span) = self.generator.join_open(counter, MAX_AGE, want) {
                return Ok(span);
            }
            let snapshot = self.generator.snapshot();
            let now = self.now(host);
            self.read = now / 1000;
            let tick = self.layout.tick_at(self.read).expect("no clock is so far off");
            self.generator.observe_clock(snapshot, tick);
            match self.generator.take(snapshot, tick, want, &POLICY) {
                Outcome::Taken(span) => {
                    let end = (self.layout.time_of(tick) + self.layout.tick_ms()) * 1000;
                    self.generator.keep_open(span, counter + (end - now));
                    return Ok(span);
                }
                Outcome::Extend(tick) => self.cover(host, tick).map_err(Stop::Refused)?,
                Outcome::Wait(until) => return Err(self.wait(until)),
                Outcome::Contended | Outcome::Behind(_) => unreachable!("one caller, and another policy"),
            }
        }
    }

    fn wait(&self, until: Tick) -> Stop {
        let time = self.layout.time_of(until).saturating_sub(self.read);
        if time <= MAX_WAIT_MS { Stop::Waits } else { Stop::Refused(Cause::ClockBehind) }
    }

    fn timestamp(&self, position: Position) -> UnixMs {
        self.layout.time_of(position >> self.layout.sequence_bits())
    }

    /// What a client receives, after a look at what must hold for it.
    fn receive(&mut self, host: &Host, span: Span) -> Issued {
        let timestamp = self.timestamp(span.last);
        let clock = self.read;
        assert!(self.last < Some(span.first), "IDs of one server ascend");
        assert!(timestamp <= clock + MAX_BORROW_MS, "{timestamp} is too far ahead of the clock, {clock}");
        let mark = host.machine.record.expect("there is no ID without a mark").mark;
        assert!(timestamp < mark, "I1: {timestamp} is not below the durable mark, {mark}");
        if let Some(grant) = self.grant
            && host.settings.keeps(crate::settings::Rule::MarkWithinGrant)
        {
            assert!(timestamp < grant.until, "I3: {timestamp} is not below the grant, {}", grant.until);
        }
        self.last = Some(span.last);
        self.last_use = host.now;
        let series = self.series.expect("a server without a worker issues nothing");
        Issued { first_id: series.id_at(span.first), count: span.last - span.first + 1, timestamp, clock }
    }
}
