//! The registry client of a server: when it asks the registry, what for, and what it keeps of the answer.
//!
//! A grant is on disk before it is used, and lowered on disk before it is given back. So whatever is lost on the way,
//! every timestamp is below what the registry has granted. Files, clocks and the network are behind an [`Io`]: the
//! extension has PostgreSQL's, the simulation its own.

pub mod io;

use self::io::{Claim, Claimed, DurableLease, Event, Grant, Io, Occasion, Renewal};
use crate::UnixMs;
use crate::server::identity::Worker;
use crate::server::lease::{Lease, LeaseStart, Location, Token};

/// How long after a failure the registry is asked again, in milliseconds: at least and at most.
const RETRY_MS: [u64; 2] = [1_000, 10_000];

/// How long after the registry has refused to renew the lease it is asked again, in milliseconds.
const RETRY_REFUSED_MS: u64 = 60_000;

/// What a registry client knows. Times without a date are of a monotonic clock, in milliseconds.
#[derive(Debug)]
pub struct Client {
    /// The lease in force.
    lease: Option<DurableLease>,
    /// How long the lease was when it was granted.
    term_ms: u64,
    /// The token of the next claim. The same one is sent again if the answer is lost. No renewal has this token: the
    /// registry could not tell the two apart.
    claim_token: Token,
    /// The mark that the server found at its start.
    mark_at_start: UnixMs,
    /// Whether the registry has given the worker to another server. The registry is not asked again: in a failover it
    /// could forget.
    has_lost_worker: bool,
    /// Whether it has refused the last renewal.
    is_superseded: bool,
    /// When the registry was asked last.
    last_ask: Option<u64>,
    /// When the registry is asked again.
    next: u64,
    /// How long the registry is not asked, even if IDs are needed.
    pause_ms: u64,
    /// How many attempts in a row have failed.
    failures: u32,
}

impl Client {
    /// The client of a server that starts, or whose client has ended.
    pub fn new(io: &mut impl Io) -> Self {
        Self {
            lease: None,
            term_ms: io.lease_ms(),
            claim_token: io.new_token(),
            mark_at_start: 0,
            has_lost_worker: false,
            is_superseded: false,
            last_ask: None,
            next: io.monotonic_ms(),
            pause_ms: RETRY_MS[0],
            failures: 0,
        }
    }

    /// The lease in force.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_deref()
    }

    /// When the registry is asked next, if nothing happens; `None` if it is not asked any more.
    pub fn next(&self) -> Option<u64> {
        (!self.has_lost_worker).then_some(self.next)
    }

    /// Lets the registry be asked at once.
    pub fn hurry(&mut self, io: &impl Io) {
        self.next = io.monotonic_ms();
    }

    /// Whether the registry has refused the last renewal.
    pub fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// The latest of the clock's time, the last timestamp issued, and the mark at the start.
    pub fn latest(&self, io: &impl Io) -> UnixMs {
        io.latest(self.mark_at_start)
    }

    /// Whether the registry is to be asked now: its time has come, or the lease is short.
    pub fn is_due(&self, io: &impl Io) -> bool {
        let now = io.monotonic_ms();
        let has_paused = self.last_ask.is_none_or(|asked| now - asked >= self.pause_ms);
        let latest = self.latest(io);
        let is_short = self.lease.is_none_or(|lease| lease.granted_until.saturating_sub(latest) < self.term_ms / 2);
        !self.has_lost_worker && (now >= self.next || has_paused && is_short)
    }

    /// Asks for what is due.
    pub fn ask<I: Io>(&mut self, io: &mut I) -> Result<(), I::Failure> {
        self.last_ask = Some(io.monotonic_ms());
        let outcome = match self.lease {
            Some(lease) => self.renew(io, lease),
            None => self.start(io),
        };
        self.schedule::<I>(io.monotonic_ms(), outcome.as_ref().err());
        outcome
    }

    fn schedule<I: Io>(&mut self, now: u64, failure: Option<&I::Failure>) {
        let Some(failure) = failure else {
            self.failures = 0;
            self.pause_ms = RETRY_MS[0];
            // After a third of the lease, up to a tenth earlier or later: servers that started together do not come
            // back together.
            let spread = u64::try_from(self.lease.map_or(0, |lease| lease.tokens[0]) & 0xFFFF).unwrap_or(0);
            self.next = now + self.term_ms / 3 * (9 * 65536 + 2 * spread) / (10 * 65536);
            return;
        };
        let at_most = RETRY_MS[1].min((self.term_ms / 10).max(RETRY_MS[0]));
        let twice_as_long = RETRY_MS[0] << self.failures.min(10);
        let pause = if self.is_superseded { RETRY_REFUSED_MS } else { twice_as_long.min(at_most) };
        self.failures = self.failures.saturating_add(1);
        self.next = now + pause;
        // A registry that has answered will not change its answer so soon.
        let has_answered = self.is_superseded || I::is_answer(failure);
        self.pause_ms = if has_answered { pause } else { pause.min(RETRY_MS[0]) };
    }

    /// Begins with the lease that the server has, or leases a worker.
    fn start<I: Io>(&mut self, io: &mut I) -> Result<(), I::Failure> {
        io.lock()?;
        // mutant: worker-stays
        if let Some(worker) = io.worker() {
            return self.take_up(io, worker);
        }
        let outcome = self.begin(io);
        if outcome.is_err() {
            io.unlock();
        }
        outcome
    }

    /// Takes up the lease of a server that runs: the client before this one has ended.
    fn take_up<I: Io>(&mut self, io: &mut I, worker: Worker) -> Result<(), I::Failure> {
        // The server runs: a mark that cannot be read is not the client's problem.
        self.mark_at_start = io.read_stored_mark().map_or(0, |stored| stored.mark());
        let stored = DurableLease::read(io)?.filter(|lease| lease.worker == worker);
        let lease = stored.ok_or_else(|| io.lost_lease())?;
        self.use_lease(io, lease);
        self.renew(io, lease)
    }

    fn begin<I: Io>(&mut self, io: &mut I) -> Result<(), I::Failure> {
        let stored = io.read_stored_mark()?;
        self.mark_at_start = stored.mark();
        let (former, location) = (DurableLease::read(io)?, io.location());
        if let Some(lease) = former.filter(|lease| Some(lease.location) == location)
            && io.wish().is_ok_and(|wish| wish.is_for(lease.worker))
            && let Some(start) = stored.start_of_lease(&lease)
            && self.resume(io, lease, start)?
        {
            return Ok(());
        }
        let mut session = io.connect(former.as_deref(), Occasion::Start { is_optional: false })?;
        let wish = io.wish()?;
        // People may give a number that they have configured.
        // mutant: original-avoided
        let original = if wish.worker.is_none() { stored.worker_of_original() } else { None };
        let claim = Claim { wish, token: self.claim_token, avoided: original };
        let Claimed { worker, start, grant } = io.claim(&mut session, former.as_deref(), &claim, self.latest(io))?;
        let lease = Lease {
            worker,
            tokens: [self.claim_token; 2],
            begins: start.begins(),
            granted_until: grant.until,
            receipt: grant.receipt,
            revision: grant.revision,
            location: location.unwrap_or(Location::NOWHERE),
        };
        let lease = DurableLease::write(io, lease)?;
        self.use_lease(io, lease);
        // mutant: lease-begins
        io.begin(&lease, start);
        io.tell(Event::Leased(&lease));
        Ok(())
    }

    /// Begins with the lease that the server had; false if the registry does not renew it. While the lease lasts, the
    /// server begins without the registry, too, which is an error all the same.
    fn resume<I: Io>(&mut self, io: &mut I, mut lease: DurableLease, start: LeaseStart) -> Result<bool, I::Failure> {
        let is_optional = self.latest(io) < lease.granted_until;
        let renewed = io.connect(Some(&lease), Occasion::Start { is_optional }).and_then(|mut session| {
            lease = with_next_token(io, lease)?;
            self.renew_by(io, &mut session, lease)
        });
        match renewed {
            Ok(Ok(renewed)) => {
                io.begin(&renewed, start);
                io.tell(Event::Continued(&renewed));
                Ok(true)
            }
            Ok(Err(refusal)) => {
                io.tell(Event::NotRenewed(&lease, &refusal));
                Ok(false)
            }
            Err(failure) => {
                if !io.must_not_start() && self.latest(io) < lease.granted_until {
                    self.use_lease(io, lease);
                    io.begin(&lease, start);
                    io.tell(Event::Alone(&lease));
                }
                Err(failure)
            }
        }
    }

    /// Extends the lease in force.
    fn renew<I: Io>(&mut self, io: &mut I, lease: DurableLease) -> Result<(), I::Failure> {
        let mut session = io.connect(Some(&lease), Occasion::Renewal)?;
        let lease = with_next_token(io, lease)?;
        self.lease = Some(lease);
        // mutant: refused-asks-again
        let renewed = self.renew_by(io, &mut session, lease)?;
        self.is_superseded = renewed.is_err();
        io.show_superseded(self.is_superseded);
        io.extend(&renewed?);
        Ok(())
    }

    /// Asks for a longer lease, and makes it durable. The inner error is why the registry refuses.
    fn renew_by<I: Io>(
        &mut self,
        io: &mut I,
        session: &mut I::Session,
        lease: DurableLease,
    ) -> Result<Result<DurableLease, I::Failure>, I::Failure> {
        match io.renew(session, &lease, self.latest(io))? {
            Renewal::Refused { failure, is_final, must_stop } => {
                if must_stop && self.lease.is_some() {
                    io.end_grant(&lease);
                    io.tell(Event::Stopped(&lease, &failure));
                }
                if is_final || must_stop {
                    // No start and no registry accepts this lease any more. The server uses it to its end.
                    io.write_lease(&Lease { location: Location::NOWHERE, receipt: [0; 32], ..*lease })?;
                    self.has_lost_worker = self.lease.is_some();
                }
                Ok(Err(failure))
            }
            Renewal::Granted(Grant { until, receipt, revision }) => {
                // Another clock can have granted this one: a grant is never shorter than the last one.
                let granted_until = until.max(lease.granted_until);
                let tokens = [lease.tokens[1]; 2];
                let renewed = DurableLease::write(io, Lease { tokens, granted_until, receipt, revision, ..*lease })?;
                self.use_lease(io, renewed);
                Ok(Ok(renewed))
            }
        }
    }

    fn use_lease(&mut self, io: &impl Io, lease: DurableLease) {
        let is_shorter = |last: DurableLease| last.worker == lease.worker && last.granted_until > lease.granted_until;
        assert!(!self.lease.is_some_and(is_shorter), "I3: a lease would become shorter, {}", lease.granted_until);
        let left_ms = lease.granted_until.saturating_sub(self.latest(io));
        self.term_ms = left_ms.clamp(1000, io.lease_ms());
        self.lease = Some(lease);
    }

    /// At a planned stop: lowers the grant to the mark, and gives the rest back. If that fails, the worker is free when
    /// the lease ends.
    ///
    /// Only if the registry answers: the lease is lowered before the registry is told, and cannot be raised again, as
    /// another server may have the worker by then. If the registry does not answer, the server keeps its lease, as in a
    /// crash: the next start may have to do without the registry, too.
    pub fn release(&mut self, io: &mut impl Io) {
        let Some(held) = self.lease.filter(|_| self.failures == 0) else { return };
        let Ok(mut session) = io.connect(Some(&held), Occasion::Release) else {
            // mutant: release-not-told
            return io.tell(Event::NotTold(&held));
        };
        let Some(granted_until) = io.lower_grant(&held) else { return };
        // The next renewal has another token: a release that arrives after it must not lower what it grants.
        let tokens = [held.tokens[0], io.new_token()];
        let lowered = Lease { tokens, granted_until, receipt: [0; 32], ..*held };
        // mutant: lowered-lease-kept
        if io.write_lease(&lowered).is_err() {
            return;
        }
        match io.release(&mut session, &held, &lowered, self.latest(io)) {
            Ok(Grant { until: granted_until, receipt, revision }) => {
                io.tell(Event::Released(&held));
                // With it, the next start can tell whether the registry was put back to before the release.
                // mutant: release-receipt
                let _ = io.write_lease(&Lease { tokens: [tokens[1]; 2], granted_until, receipt, revision, ..lowered });
            }
            Err(_) => io.tell(Event::Unheard(&held)),
        }
    }
}

/// The lease with the token of its next renewal, which is on disk: the answer can be lost, and this process too. Then
/// the server has the token that the registry has.
fn with_next_token<I: Io>(io: &mut I, lease: DurableLease) -> Result<DurableLease, I::Failure> {
    let [token, next] = lease.tokens;
    if next != token {
        return Ok(lease);
    }
    let tokens = [token, io.new_token()];
    DurableLease::write(io, Lease { tokens, ..*lease })
}

#[cfg(all(test, not(loom)))]
mod tests;
