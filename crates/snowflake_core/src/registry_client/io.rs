//! What a registry client works with: clocks, files, the server and the registry.

use crate::UnixMs;
use crate::mark::StoredMark;
use crate::server::identity::Worker;
use crate::server::lease::{Lease, LeaseStart, Location, Token};
use std::ops::Deref;

/// A lease that is on disk: only reading or writing it there makes one. No other lease may be used.
#[derive(Clone, Copy, Debug)]
pub struct DurableLease(Lease);

impl DurableLease {
    /// The lease in the state directory.
    pub(super) fn read<I: Io>(io: &I) -> Result<Option<Self>, I::Failure> {
        Ok(io.read_lease()?.map(Self))
    }

    /// Flushes a lease to the state directory.
    pub(super) fn write<I: Io>(io: &mut I, lease: Lease) -> Result<Self, I::Failure> {
        // mutant: lease-durable
        io.write_lease(&lease)?;
        Ok(Self(lease))
    }
}

impl Deref for DurableLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

/// Why the registry is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The server starts. Its clock must be right.
    Start {
        /// Whether it can begin without an answer.
        is_optional: bool,
    },
    /// The lease is to be extended.
    Renewal,
    /// The server stops as planned.
    Release,
}

/// Which worker a server is configured to lease.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The worker that it is to have; `None` if any worker of its data center will do.
    pub worker: Option<Worker>,
    /// The least worker of its data center.
    pub least: Worker,
    /// The greatest worker of its data center.
    pub greatest: Worker,
}

impl Wish {
    /// Whether this worker will do.
    pub(super) fn is_for(self, worker: Worker) -> bool {
        self.worker.is_none_or(|wanted| wanted == worker) && (self.least..=self.greatest).contains(&worker)
    }
}

/// A request for a worker.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The worker that the server is configured to lease.
    pub wish: Wish,
    /// The token of the new lease.
    pub token: Token,
    /// A worker that the server must not have.
    pub avoided: Option<Worker>,
}

/// What the registry has granted.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// Timestamps below this time.
    pub until: UnixMs,
    /// The proof of the grant.
    pub receipt: [u8; 32],
    /// The state of the registry.
    pub revision: u64,
}

/// A worker that was claimed.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    /// Its number.
    pub worker: Worker,
    /// Where its IDs begin.
    pub start: LeaseStart,
    /// Where its IDs end.
    pub grant: Grant,
}

/// The outcome of a renewal.
#[derive(Debug)]
pub enum Renewal<F> {
    /// It was granted.
    Granted(Grant),
    /// The server does not have the worker any more.
    Refused {
        /// The registry's answer.
        failure: F,
        /// Whether the server will never have the worker again, whatever happens to the registry.
        is_final: bool,
        /// Whether another server has the worker for the same time, so this one must stop issuing IDs.
        must_stop: bool,
    },
}

/// An event to be logged.
#[derive(Debug)]
pub enum Event<'a, F> {
    /// A worker was leased.
    Leased(&'a Lease),
    /// The server has begun with the lease that it had, which was renewed.
    Continued(&'a Lease),
    /// The server has begun with the lease that it had, without the registry.
    Alone(&'a Lease),
    /// The lease that the server had is not renewed.
    NotRenewed(&'a Lease, &'a F),
    /// The worker was given to another server for the same time.
    Stopped(&'a Lease, &'a F),
    /// The worker was given back.
    Released(&'a Lease),
    /// The registry could not be told of the stop.
    NotTold(&'a Lease),
    /// The registry has not answered. It may have given the worker to another server.
    Unheard(&'a Lease),
}

/// The clocks, files, server and registry of a client.
pub trait Io {
    /// Why something could not be done.
    type Failure;
    /// A connection to the registry, which knows of the lease that was presented.
    type Session;

    /// What a monotonic clock shows, in milliseconds.
    fn monotonic_ms(&self) -> u64;
    /// The latest of the clock's time and the last timestamp issued or, before the generator's start, this mark. A
    /// grant must be later.
    fn latest(&self, mark_at_start: UnixMs) -> UnixMs;
    /// `snowflake_pg.registry_lease`, in milliseconds.
    fn lease_ms(&self) -> u64;
    /// A random number.
    fn new_token(&mut self) -> Token;
    /// Which worker the server is to lease.
    fn wish(&self) -> Result<Wish, Self::Failure>;

    /// Locks the state directory for a start.
    fn lock(&mut self) -> Result<(), Self::Failure>;
    /// Gives the lock up: the start has failed.
    fn unlock(&mut self);
    /// Where this server runs; `None` if that is not known.
    fn location(&self) -> Option<Location>;
    /// The mark in the state directory.
    fn read_stored_mark(&mut self) -> Result<StoredMark, Self::Failure>;
    /// The lease in the state directory.
    fn read_lease(&self) -> Result<Option<Lease>, Self::Failure>;
    /// Flushes a lease to the state directory.
    fn write_lease(&mut self, lease: &Lease) -> Result<(), Self::Failure>;

    /// The worker that the running server uses; `None` before it has one. It never changes.
    fn worker(&self) -> Option<Worker>;
    /// The error if the lease of that worker is not in the state directory any more.
    fn lost_lease(&self) -> Self::Failure;
    /// Lets the server begin.
    fn begin(&mut self, lease: &DurableLease, start: LeaseStart);
    /// Lets the running server use a longer lease.
    fn extend(&mut self, lease: &DurableLease);
    /// Lowers the grant to [what was issued](crate::mark::Mark::lowest_grant), so that the mark is not extended any
    /// more. Returns it; `None` if it cannot tell, or if that takes too long.
    fn lower_grant(&mut self, lease: &Lease) -> Option<UnixMs>;
    /// Lowers the grant of a server that must stop, at once: to what the mark covers, or to where the lease began.
    fn end_grant(&mut self, lease: &Lease);
    /// Shows whether the registry has said that the worker is not this server's any more.
    fn show_superseded(&mut self, is_superseded: bool);

    /// Connects to the registry, presents the lease, and compares the clocks.
    fn connect(&mut self, lease: Option<&Lease>, occasion: Occasion) -> Result<Self::Session, Self::Failure>;
    /// Leases a worker: the worker of the lease that the server had, if it is free.
    fn claim(
        &mut self,
        session: &mut Self::Session,
        had: Option<&Lease>,
        claim: &Claim,
        latest: UnixMs,
    ) -> Result<Claimed, Self::Failure>;
    /// Extends a lease, which then has the other one of its tokens.
    fn renew(
        &mut self,
        session: &mut Self::Session,
        lease: &Lease,
        latest: UnixMs,
    ) -> Result<Renewal<Self::Failure>, Self::Failure>;
    /// Ends a lease early, which then is the lowered one.
    fn release(
        &mut self,
        session: &mut Self::Session,
        held: &Lease,
        lowered: &Lease,
        latest: UnixMs,
    ) -> Result<Grant, Self::Failure>;
    /// Whether, at the last answer, the clock was too far from the registry's for a start.
    fn must_not_start(&self) -> bool;
    /// Whether the registry has answered, although with this failure.
    fn is_answer(failure: &Self::Failure) -> bool;

    /// Logs what has happened.
    fn tell(&mut self, event: Event<'_, Self::Failure>);
}
