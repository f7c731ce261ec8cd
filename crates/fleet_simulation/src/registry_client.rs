//! The registry client of a server: when it asks, what it does with the answer, and what it keeps on disk. As in
//! `src/registry/client.rs` and the files beside it.

use crate::machine::Host;
use crate::registry::{About, Claim, Claimed, Held, Refusal, Registry};
use crate::server::{Cause, Server};
use crate::settings::LEASE_MS;
use crate::time::{Micros, SECOND};
use snowflake_core::UnixMs;
use snowflake_core::lease::{Lease, Place, Token};

/// How long after a failure the registry is asked again: from and up to.
const RETRY: [Micros; 2] = [SECOND, 10 * SECOND];

/// The same after it has refused to renew the lease.
const RETRY_REFUSED: Micros = 60 * SECOND;

/// A receipt that the registry would know.
const RECEIPT: [u8; 32] = [1; 32];

/// How one request came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server has leased a worker.
    Claimed,
    /// Its lease is longer now.
    Renewed,
    /// It gets no worker, or no longer lease.
    Refused(Refusal),
    /// No answer has come.
    Away,
}

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

impl Line<'_> {
    /// Has the registry serve a request. `None` if the server gets no answer.
    fn ask<T>(&mut self, serve: impl FnOnce(&mut Registry) -> T) -> Option<T> {
        match self {
            Self::Down => None,
            Self::Lossy(registry) => {
                serve(registry);
                None
            }
            Self::Up(registry) => Some(serve(registry)),
        }
    }
}

/// What the client of a running server knows.
#[derive(Debug)]
pub struct Client {
    datacenter: u32,
    /// The lease in force.
    lease: Option<Lease>,
    /// How long the lease was when it was granted, in milliseconds.
    term_ms: u64,
    claim_token: Token,
    /// The mark that the server has found at its start.
    found_mark: UnixMs,
    /// Whether the registry has given the worker to another server.
    is_over: bool,
    asked: Option<Micros>,
    /// When the registry is asked again.
    next: Micros,
    /// How long it is not asked, even if IDs are needed.
    rest: Micros,
    /// How many times in a row it was asked in vain.
    failures: u32,
}

impl Client {
    /// The client of a server that starts now.
    pub fn new(host: &mut Host, datacenter: u32) -> Self {
        let (machine, claim_token) = (&host.machine, host.chance.token());
        let own = machine.record.filter(|record| record.identity.directory.same_inode(&machine.directory));
        Self {
            datacenter,
            lease: None,
            term_ms: LEASE_MS,
            claim_token,
            found_mark: own.map_or(0, |record| record.mark),
            is_over: false,
            asked: None,
            next: host.now,
            rest: RETRY[0],
            failures: 0,
        }
    }

    /// When the registry is asked next, if nothing happens.
    pub fn next(&self) -> Micros {
        self.next
    }

    /// Whether the server can only be restarted.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the registry is to be asked now.
    pub fn is_due(&self, host: &Host, server: &Server) -> bool {
        let has_rested = self.asked.is_none_or(|asked| host.now - asked >= self.rest);
        let latest = server.latest(host, self.found_mark);
        let is_short = self.lease.is_none_or(|lease| lease.granted_until.saturating_sub(latest) < self.term_ms / 2);
        !self.is_over && (host.now >= self.next || has_rested && is_short)
    }

    /// Asks for what is due.
    pub fn ask(&mut self, host: &mut Host, server: &mut Server, mut line: Line) -> Outcome {
        self.asked = Some(host.now);
        let outcome = match self.lease {
            Some(lease) => self.renew(host, server, lease, &mut line),
            None => self.begin(host, server, &mut line),
        };
        self.schedule(host.now, outcome);
        match outcome {
            // A lost answer says nothing new.
            Outcome::Away if matches!(line, Line::Lossy(_)) => {}
            Outcome::Claimed | Outcome::Renewed | Outcome::Away => server.set_trouble(Cause::RegistryAway),
            Outcome::Refused(Refusal::NoneFree) => server.set_trouble(Cause::NoWorkerFree),
            Outcome::Refused(Refusal::ClockAhead) => server.set_trouble(Cause::ClockAhead),
            Outcome::Refused(Refusal::Superseded) => server.set_trouble(Cause::Superseded),
        }
        outcome
    }

    fn schedule(&mut self, now: Micros, outcome: Outcome) {
        if matches!(outcome, Outcome::Claimed | Outcome::Renewed) {
            self.failures = 0;
            self.rest = RETRY[0];
            // Servers that have started at once do not come back at once.
            let spread = u64::try_from(self.lease.map_or(0, |lease| lease.tokens[0]) & 0xFFFF).unwrap_or(0);
            self.next = now + self.term_ms * 1000 / 3 * (9 * 65536 + 2 * spread) / (10 * 65536);
            return;
        }
        let is_refused = outcome == Outcome::Refused(Refusal::Superseded);
        let at_most = RETRY[1].min((self.term_ms * 100).max(RETRY[0]));
        let pause = if is_refused { RETRY_REFUSED } else { (RETRY[0] << self.failures.min(10)).min(at_most) };
        self.failures = self.failures.saturating_add(1);
        self.next = now + pause;
        // A registry that has answered will not answer otherwise so soon.
        self.rest = if outcome == Outcome::Away { pause.min(RETRY[0]) } else { pause };
    }

    /// Begins with the lease that the server has, or leases a worker.
    fn begin(&mut self, host: &mut Host, server: &mut Server, line: &mut Line) -> Outcome {
        let now_ms = server.latest(host, self.found_mark);
        let (found, place) = (host.machine.lease, host.machine.place());
        let own = found.filter(|lease| lease.place == place);
        let start = own.and_then(|lease| server.start_of_lease(host, &lease, now_ms));
        if let (Some(lease), Some(start)) = (own, start) {
            match self.renew(host, server, lease, line) {
                Outcome::Refused(Refusal::Superseded) => {}
                Outcome::Renewed => {
                    self.lease.iter().for_each(|lease| server.begin_with(lease, start));
                    return Outcome::Renewed;
                }
                failed => {
                    if now_ms < lease.granted_until {
                        let lease = host.machine.lease.unwrap_or(lease);
                        self.keep(now_ms, lease);
                        server.begin_with(&lease, start);
                    }
                    return failed;
                }
            }
        }
        self.claim(host, server, line)
    }

    fn claim(&mut self, host: &mut Host, server: &mut Server, line: &mut Line) -> Outcome {
        let about = self.about(host, server);
        let original = server.worker_of_original(host, about.clock);
        let claim = Claim {
            presented: host.machine.lease.map(|lease| lease.tokens),
            new_token: self.claim_token,
            datacenter: self.datacenter,
            avoided: original.filter(|numbers| numbers.0 == self.datacenter).map(|numbers| numbers.1),
        };
        let now = host.now;
        let Claimed { worker, begins, start, granted_until } =
            match line.ask(|registry| registry.claim(now, &claim, &about)) {
                Some(Ok(claimed)) => claimed,
                Some(Err(refusal)) => return Outcome::Refused(refusal),
                None => return Outcome::Away,
            };
        let (numbers, tokens) = ((self.datacenter, worker), [self.claim_token; 2]);
        let (receipt, revision, place) = (RECEIPT, 1, host.machine.place());
        let lease = Lease { numbers, tokens, begins, granted_until, receipt, revision, place };
        self.take(host, about.clock, lease);
        server.begin_with(&lease, start);
        Outcome::Claimed
    }

    /// Extends a lease, and makes it durable.
    fn renew(&mut self, host: &mut Host, server: &mut Server, lease: Lease, line: &mut Line) -> Outcome {
        if matches!(line, Line::Down) {
            return Outcome::Away;
        }
        let (lease, about, now) = (with_next_token(host, lease), self.about(host, server), host.now);
        self.lease.iter_mut().for_each(|in_force| in_force.tokens = lease.tokens);
        match line.ask(|registry| registry.renew(now, &held(&lease), lease.tokens[1], &about)) {
            None => Outcome::Away,
            Some(Err(Refusal::Superseded)) => {
                self.disown(host, lease);
                Outcome::Refused(Refusal::Superseded)
            }
            Some(Err(refusal)) => Outcome::Refused(refusal),
            Some(Ok(granted)) => {
                let granted_until = granted.max(lease.granted_until);
                let tokens = [lease.tokens[1]; 2];
                self.take(host, about.clock, Lease { tokens, granted_until, receipt: RECEIPT, ..lease });
                server.grant_until(granted_until);
                Outcome::Renewed
            }
        }
    }

    /// Has no start take a lease for this server's any more. It is used to its end.
    fn disown(&mut self, host: &mut Host, lease: Lease) {
        if lease.receipt == RECEIPT {
            let place = Place { boot: 0, device: 0, directory: 0 };
            host.machine.lease = Some(Lease { place, receipt: [0; 32], ..lease });
            self.is_over = self.lease.is_some();
        }
    }

    fn take(&mut self, host: &mut Host, now_ms: UnixMs, lease: Lease) {
        host.machine.lease = Some(lease);
        self.keep(now_ms, lease);
    }

    fn keep(&mut self, now_ms: UnixMs, lease: Lease) {
        self.term_ms = lease.granted_until.saturating_sub(now_ms).clamp(1000, LEASE_MS);
        self.lease = Some(lease);
    }

    fn about(&self, host: &Host, server: &Server) -> About {
        About { clock: server.latest(host, self.found_mark), issued_until: server.issued_until() }
    }

    /// At a planned stop: lowers the grant to the mark, and gives the rest back.
    pub fn release(&mut self, host: &mut Host, server: &mut Server, mut line: Line) {
        let Some(held_lease) = self.lease.filter(|_| self.failures == 0) else { return };
        let lowered = server.lower_grant(held_lease.begins, self.found_mark);
        let tokens = [held_lease.tokens[0], host.chance.token()];
        let lease = Lease { tokens, granted_until: lowered, receipt: [0; 32], ..held_lease };
        host.machine.lease = Some(lease);
        let about = self.about(host, server);
        let told = line.ask(|registry| registry.release(&held(&held_lease), tokens[1], lowered, &about));
        if let Some(Some(granted_until)) = told {
            host.machine.lease = Some(Lease { tokens: [tokens[1]; 2], granted_until, receipt: RECEIPT, ..lease });
        }
    }
}

fn held(lease: &Lease) -> Held {
    Held { numbers: lease.numbers, presented: lease.tokens, until: lease.granted_until }
}

/// The lease with the token of its next renewal, which is on disk: the answer can be lost, and this process too.
fn with_next_token(host: &mut Host, lease: Lease) -> Lease {
    let [token, next] = lease.tokens;
    if next != token {
        return lease;
    }
    let lease = Lease { tokens: [token, host.chance.token()], ..lease };
    host.machine.lease = Some(lease);
    lease
}
