//! A server: what it asks of the registry, and what it does with an answer.

use crate::registry::Answer;
use crate::rules::Rule;
use crate::state::{Disk, Lease, LeaseFile, Mark, Memory, Request, Server, Time, Token};
use crate::world::World;

/// A token that nobody has had, until all are numbered anew.
pub const FRESH: Token = 31;

impl Server {
    /// The lease in the lease file, if a start may continue with it.
    pub fn usable_lease(&self, world: &World) -> Option<Lease> {
        let file = self.disk.file?;
        let off = &world.off;
        let is_usable = (file.same_boot || !off.keeps(Rule::SameBoot))
            && (file.is_own || !off.keeps(Rule::OwnFile))
            && (self.disk.mark_of(file.lease.worker).is_some() || !off.keeps(Rule::LeaseBesideMark));
        is_usable.then_some(file.lease)
    }

    /// The lease with which a start continues, unless the registry has refused it.
    fn lease_at_start(&self, world: &World) -> Option<Lease> {
        let starts = self.memory.lease.is_none() && !self.memory.is_refused;
        self.usable_lease(world).filter(|_| starts)
    }

    /// What it asks of the registry next.
    pub fn request(&self, world: &World) -> Option<Request> {
        let Memory { lease, is_stopping, pending, .. } = self.memory;
        let or_fresh = |token| if token == 0 { FRESH } else { token };
        match lease.or(self.lease_at_start(world)) {
            Some(_) if is_stopping && self.memory.uncapped == 0 => None,
            Some(held) if is_stopping => {
                // Without the rule, the limit is above what is released.
                let lowered = held.grant.min(self.memory.next);
                Some(Request::Release { held: Lease { grant: self.memory.uncapped, ..held }, lowered, new: pending })
            }
            Some(held) => {
                let may_mix = pending > 0 && !world.off.keeps(Rule::ClaimsStayClaims);
                let new = if may_mix { pending } else { or_fresh(held.tokens[1]) };
                Some(Request::Renew { held: Lease { tokens: [held.tokens[0], new], ..held }, new })
            }
            None => {
                // A choice among free workers alone, if no server claims its worker early.
                let stored = self.disk.file.filter(|file| file.is_own && world.early > 0);
                Some(Request::Claim {
                    presented: stored.map_or([0, 0], |file| file.lease.tokens),
                    new: or_fresh(pending),
                })
            }
        }
    }

    /// Notes what was asked, since the answer may not come.
    pub fn wait_for(&mut self, request: &Request, world: &World) {
        match *request {
            Request::Claim { new, .. } => {
                self.memory.pending = new;
                if !world.off.keeps(Rule::ClaimsStayClaims) {
                    self.memory.is_refused = false;
                }
            }
            Request::Renew { held, .. } => self.note(held, world),
            Request::Release { .. } => self.has_released(),
        }
    }

    /// It asks once, with the grant that it had before. The network can bring that late, but not twice.
    fn has_released(&mut self) {
        self.memory.uncapped = 0;
    }

    /// Has the token of a renewal in its lease, and in the lease file.
    fn note(&mut self, held: Lease, world: &World) {
        if let Some(lease) = &mut self.memory.lease {
            lease.tokens = held.tokens;
        }
        if world.off.keeps(Rule::TokenInLeaseFile) {
            self.disk.write_lease(held, world);
        }
    }

    /// Takes an answer; `is_answered` if the registry was restored before.
    pub fn take(&mut self, request: &Request, answer: Answer, is_answered: bool, world: &World) {
        match (*request, answer) {
            (Request::Claim { new, .. }, Answer::Claimed { worker, begins, granted }) => {
                let lease = Lease { worker, tokens: [new, 0], begins, grant: granted, has_receipt: true, is_answered };
                self.disk.write_lease(lease, world);
                self.memory = Memory { lease: Some(lease), next: self.first(&lease), ..Memory::default() };
                self.is_told = false;
            }
            (Request::Renew { held, new }, Answer::Renewed { granted }) => {
                self.renewed(Lease { is_answered, ..held }, new, granted, world);
            }
            (Request::Release { held, lowered, new }, Answer::Released { counts }) => {
                self.has_released();
                if counts && world.off.keeps(Rule::LeaseFileBeforeRelease) {
                    let lease = Lease { tokens: [new, 0], grant: lowered, has_receipt: true, is_answered, ..held };
                    self.disk.write_lease(lease, world);
                }
            }
            (_, Answer::Refused { must_stop }) => {
                self.memory.is_refused = true;
                self.memory.pending = 0;
                self.is_told |= must_stop;
                if must_stop && world.off.keeps(Rule::StopsWhenGivenAway) {
                    self.disk.file = None;
                    self.memory.lease = None;
                }
            }
            _ => {}
        }
    }

    fn renewed(&mut self, held: Lease, new: Token, grant: Time, world: &World) {
        let token = if world.off.keeps(Rule::NewTokenWithRenewal) { new } else { held.tokens[0] };
        let tokens = [token, 0];
        let lease = Lease { tokens, grant, has_receipt: true, ..held };
        if world.off.keeps(Rule::LeaseFileBeforeLimit) {
            self.disk.write_lease(lease, world);
        }
        self.begin(lease, world);
        self.memory.is_refused = false;
        self.memory.pending = 0;
    }

    /// Goes on while the registry is away.
    pub fn go_on(&mut self, world: &World) {
        if let Some(lease) = self.lease_at_start(world) {
            self.begin(lease, world);
        }
    }

    /// Puts a lease in force, at the own mark if it was in none.
    fn begin(&mut self, lease: Lease, world: &World) {
        if self.memory.lease.is_none() {
            let back = if world.off.keeps(Rule::BeginsAtMark) { 0 } else { 1 };
            self.memory.next = self.first(&lease).saturating_sub(back);
        }
        self.memory.lease = Some(lease);
    }

    /// Where it begins with a lease: at its own mark of that worker, and not below where the lease began.
    pub fn first(&self, lease: &Lease) -> Time {
        lease.begins.max(self.disk.mark_of(lease.worker).unwrap_or(0))
    }

    /// Begins a planned stop. The limit is the mark from now on.
    pub fn stop(&mut self, world: &World) {
        let Some(lease) = self.memory.lease.filter(|_| !self.memory.is_stopping) else { return };
        let capped = Lease { grant: self.memory.next, ..lease };
        self.memory.is_stopping = true;
        self.memory.uncapped = lease.grant;
        self.memory.pending = if world.off.keeps(Rule::NewTokenWithRelease) { FRESH } else { lease.tokens[0] };
        if world.off.keeps(Rule::CapBeforeRelease) {
            self.memory.lease = Some(capped);
        }
        if world.off.keeps(Rule::LeaseFileBeforeRelease) {
            let tokens = [lease.tokens[0], self.memory.pending];
            self.disk.write_lease(Lease { tokens, has_receipt: false, ..capped }, world);
        }
    }

    /// The timestamps at which an extension of the mark may end.
    pub fn marks(&self, world: &World) -> impl Iterator<Item = Time> + use<> {
        let beyond = if world.off.keeps(Rule::MarkWithinGrant) { 0 } else { 1 };
        let limit = self.memory.lease.map_or(0, |lease| (lease.grant + beyond).min(world.end));
        self.memory.next + 1..=limit
    }

    /// This server, once it has written what rules that are off would have had it write before.
    pub fn caught_up(&self, world: &World) -> Self {
        let mut at = *self;
        let Some(lease) = at.memory.lease else { return at };
        if !world.off.keeps(Rule::MarkBeforeIds) {
            at.disk.mark = Some(Mark { worker: lease.worker, until: at.memory.next });
        }
        if !world.off.keeps(Rule::LeaseFileBeforeLimit) && !at.memory.is_stopping {
            at.disk.write_lease(lease, world);
        }
        if !world.off.keeps(Rule::LeaseFileBeforeRelease) && at.memory.is_stopping {
            let tokens = [lease.tokens[0], at.memory.pending];
            at.disk.write_lease(Lease { tokens, has_receipt: false, ..lease }, world);
        }
        at
    }
}

impl Disk {
    fn write_lease(&mut self, lease: Lease, world: &World) {
        let begins = if world.off.keeps(Rule::BeginningInLeaseFile) { lease.begins } else { 0 };
        self.file = Some(LeaseFile { lease: Lease { begins, ..lease }, same_boot: true, is_own: true });
    }

    /// This disk after a boot, or on another machine.
    pub fn in_other_boot(mut self) -> Self {
        if let Some(file) = &mut self.file {
            file.same_boot = false;
        }
        self
    }

    /// These files, copied one by one.
    pub fn copied(mut self) -> Self {
        if let Some(file) = &mut self.file {
            file.is_own = false;
        }
        self
    }
}
