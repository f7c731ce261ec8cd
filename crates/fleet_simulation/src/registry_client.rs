//! A simulated network and disk for the registry client of a server: [`snowflake_core::registry_client`], which the
//! extension runs, too.

use crate::machine::Host;
use crate::registry::{About, Refusal, Registry};
use crate::server::{Cause, Server};
use crate::settings::LEASE_MS;
use snowflake_core::UnixMs;
use snowflake_core::mark::StoredMark;
use snowflake_core::registry_client::io::{Claim, Claimed, DurableLease, Event, Grant, Io, Occasion, Renewal, Wish};
use snowflake_core::server::identity::Worker;
use snowflake_core::server::lease::{Lease, LeaseStart, Location, Token};

/// The way to the registry, at a moment.
#[derive(Debug)]
pub enum Line<'a> {
    /// Nothing gets through.
    Down,
    /// Requests get through, and answers do not.
    Lossy(&'a mut Registry),
    /// All gets through.
    Up(&'a mut Registry),
}

/// Why a server gets no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing gets through.
    Away,
    /// No answer has come.
    Unheard,
    /// The registry refuses.
    Refused(Refusal),
}

impl Failure {
    /// What calls are told meanwhile; `None` if that is nothing new.
    pub fn cause(self) -> Option<Cause> {
        match self {
            Self::Unheard => None,
            Self::Away => Some(Cause::RegistryAway),
            Self::Refused(Refusal::NoneFree) => Some(Cause::NoWorkerFree),
            Self::Refused(Refusal::ClockAhead) => Some(Cause::ClockAhead),
            Self::Refused(Refusal::Superseded) => Some(Cause::Superseded),
        }
    }
}

/// A server, and its way to the registry.
#[derive(Debug)]
pub struct ClientIo<'a, 'h> {
    pub host: &'a mut Host<'h>,
    pub server: &'a mut Server,
    pub wish: Wish,
    pub line: Line<'a>,
    /// Whether a worker was claimed.
    pub has_claimed: bool,
}

impl ClientIo<'_, '_> {
    /// Has the registry serve a request.
    fn ask<T>(&mut self, serve: impl FnOnce(&mut Registry) -> Result<T, Refusal>) -> Result<T, Failure> {
        match &mut self.line {
            Line::Down => Err(Failure::Away),
            Line::Lossy(registry) => {
                let _ = serve(registry);
                Err(Failure::Unheard)
            }
            Line::Up(registry) => serve(registry).map_err(Failure::Refused),
        }
    }

    fn about(&self, clock: UnixMs) -> About {
        About { clock, issued_until: self.server.issued_until() }
    }
}

impl Io for ClientIo<'_, '_> {
    type Failure = Failure;
    type Session = ();

    fn monotonic_ms(&self) -> u64 {
        self.host.now / 1000
    }

    fn latest(&self, found_mark: UnixMs) -> UnixMs {
        self.server.latest(self.host, found_mark)
    }

    fn lease_ms(&self) -> u64 {
        LEASE_MS
    }

    fn new_token(&mut self) -> Token {
        self.host.chance.token()
    }

    fn wish(&self) -> Result<Wish, Failure> {
        Ok(self.wish)
    }

    fn lock(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn unlock(&mut self) {}

    fn location(&self) -> Option<Location> {
        Some(self.host.machine.location())
    }

    fn read_stored_mark(&mut self) -> Result<StoredMark, Failure> {
        Ok(self.server.read_stored_mark(self.host))
    }

    fn read_lease(&self) -> Result<Option<Lease>, Failure> {
        Ok(self.host.machine.lease)
    }

    fn write_lease(&mut self, lease: &Lease) -> Result<(), Failure> {
        self.host.machine.lease = Some(*lease);
        Ok(())
    }

    fn worker(&self) -> Option<Worker> {
        self.server.leased_worker()
    }

    fn lost_lease(&self) -> Failure {
        unreachable!("a client lives as long as its server")
    }

    fn begin(&mut self, lease: &DurableLease, start: LeaseStart) {
        self.server.begin_with(lease, start);
    }

    fn extend(&mut self, lease: &DurableLease) {
        self.server.grant_until(lease.granted_until);
    }

    fn lower_grant(&mut self, lease: &Lease) -> Option<UnixMs> {
        self.server.lower_grant(self.host, lease)
    }

    fn end_grant(&mut self, _lease: &Lease) {
        unreachable!("the registry gives no worker away too early")
    }

    fn show_superseded(&mut self, _is_superseded: bool) {}

    fn connect(&mut self, _lease: Option<&Lease>, _occasion: Occasion) -> Result<(), Failure> {
        if matches!(self.line, Line::Down) { Err(Failure::Away) } else { Ok(()) }
    }

    fn claim(&mut self, (): &mut (), had: Option<&Lease>, claim: &Claim, latest: UnixMs) -> Result<Claimed, Failure> {
        let (now, about) = (self.host.now, self.about(latest));
        self.ask(|registry| registry.claim(now, had, claim, &about))
    }

    fn renew(&mut self, (): &mut (), lease: &Lease, latest: UnixMs) -> Result<Renewal<Failure>, Failure> {
        let (now, about) = (self.host.now, self.about(latest));
        match self.ask(|registry| registry.renew(now, lease, &about)) {
            Err(failure @ Failure::Refused(Refusal::Superseded)) => {
                Ok(Renewal::Refused { failure, is_final: lease.receipt != [0; 32], must_stop: false })
            }
            granted => granted.map(Renewal::Granted),
        }
    }

    fn release(&mut self, (): &mut (), held: &Lease, lowered: &Lease, latest: UnixMs) -> Result<Grant, Failure> {
        let about = self.about(latest);
        self.ask(|registry| registry.release(held, lowered, &about))
    }

    fn must_not_start(&self) -> bool {
        false
    }

    fn is_answer(failure: &Failure) -> bool {
        matches!(failure, Failure::Refused(_))
    }

    fn tell(&mut self, event: Event<'_, Failure>) {
        self.has_claimed |= matches!(event, Event::Leased(_));
    }
}
