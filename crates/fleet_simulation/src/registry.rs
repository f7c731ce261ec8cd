//! The registry, with the rules of `sql/registry`.
//!
//! Without restores and failovers, which `crates/lease_model` explores, and without numbers that people give.

use crate::clock::Clock;
use crate::settings::{LEASE_MS, Rule, Settings};
use crate::time::Micros;
use snowflake_core::UnixMs;
use snowflake_core::registry_client::io::{Claim, Claimed, Grant, Wish};
use snowflake_core::server::identity::Worker;
use snowflake_core::server::lease::{Lease, LeaseStart, Token, margin_ms};
use std::cmp::Reverse;

/// How many workers the layout has.
const WORKERS: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Row {
    token: Token,
    begins: UnixMs,
    granted_until: UnixMs,
    is_used: bool,
    was_used: bool,
}

/// What a server says of itself.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The latest of its clock, its IDs and its mark.
    pub clock: UnixMs,
    /// All its timestamps are below; 0 if there are none.
    pub issued_until: UnixMs,
}

/// Why a server gets no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NoneFree,
    /// The server's clock is too far ahead of the registry's.
    ClockAhead,
    Superseded,
}

/// What a registry has committed, and its clock.
#[derive(Debug)]
pub struct Registry {
    rows: Vec<Option<Row>>,
    pub clock: Clock,
    /// Whether it answers nobody.
    pub is_away: bool,
    settings: Settings,
}

impl Registry {
    /// A registry that has leased nothing.
    pub fn new(clock: Clock, settings: Settings) -> Self {
        Self { rows: vec![None; WORKERS], clock, is_away: false, settings }
    }

    fn now_ms(&self, now: Micros) -> UnixMs {
        self.clock.read(now) / 1000
    }

    fn row(&mut self, worker: Worker) -> &mut Option<Row> {
        &mut self.rows[usize::try_from(worker).expect("a worker of the layout")]
    }

    /// The leases that a server may get.
    fn leased(&self, wish: Wish) -> impl Iterator<Item = (Worker, Row)> {
        let rows = (0..).zip(&self.rows).filter_map(|(worker, row)| row.map(|row| (worker, row)));
        rows.filter(move |(worker, _)| (wish.least..=wish.greatest).contains(worker))
    }

    /// `server_claim()`.
    pub fn claim(
        &mut self,
        now: Micros,
        had: Option<&Lease>,
        claim: &Claim,
        about: &About,
    ) -> Result<Claimed, Refusal> {
        let now_ms = self.now_ms(now);
        if let Some((worker, row)) = self.leased(claim.wish).find(|(_, row)| row.token == claim.token) {
            return Ok(claimed(worker, &row));
        }
        let worker =
            self.claim_own(now_ms, had, claim).or_else(|| self.claim_any(now_ms, claim)).ok_or(Refusal::NoneFree)?;
        let former = *self.row(worker);
        let keeps = self.settings.keeps(Rule::NextBeginsAtGrant);
        let begins = former.map_or(0, |row| if keeps { row.granted_until } else { row.begins });
        let granted_until = grant_for(about.clock, now_ms)?.max(former.map_or(0, |row| row.granted_until));
        let was_used = former.is_some_and(|row| row.is_used || row.was_used);
        let row = Row { token: claim.token, begins, granted_until, is_used: true, was_used };
        *self.row(worker) = Some(row);
        Ok(claimed(worker, &row))
    }

    /// The worker that the server had, if it is free.
    fn claim_own(&self, now_ms: UnixMs, had: Option<&Lease>, claim: &Claim) -> Option<Worker> {
        let presented = had?.tokens;
        let is_own = |(worker, row): &(Worker, Row)| {
            presented.contains(&row.token)
                && (row.is_used || row.was_used || Some(*worker) != claim.avoided)
                && row.granted_until <= now_ms + margin_ms(LEASE_MS)
        };
        self.leased(claim.wish).find(is_own).map(|(worker, _)| worker)
    }

    /// The highest worker that nobody had before; else the one whose lease ended first.
    fn claim_any(&mut self, now_ms: UnixMs, claim: &Claim) -> Option<Worker> {
        // An hour early, if the rule is broken.
        let now_ms = if self.settings.keeps(Rule::FreeAfterGrant) { now_ms } else { now_ms + LEASE_MS };
        let new = (claim.wish.least..=claim.wish.greatest)
            .rev()
            .find(|&worker| self.row(worker).is_none() && Some(worker) != claim.avoided);
        let is_free = |(worker, row): &(Worker, Row)| {
            row.granted_until <= now_ms && (row.is_used || row.was_used || Some(*worker) != claim.avoided)
        };
        let first_ended = || {
            self.leased(claim.wish).filter(is_free).min_by_key(|(worker, row)| (row.granted_until, Reverse(*worker)))
        };
        new.or_else(|| first_ended().map(|(worker, _)| worker))
    }

    /// `server_renew()`.
    pub fn renew(&mut self, now: Micros, held: &Lease, about: &About) -> Result<Grant, Refusal> {
        let now_ms = self.now_ms(now);
        let row = self.held_row(held)?;
        row.granted_until = row.granted_until.max(grant_for(about.clock, now_ms)?);
        row.token = held.tokens[1];
        row.is_used = true;
        Ok(grant(row))
    }

    /// `server_release()`.
    pub fn release(&mut self, held: &Lease, lowered: &Lease, about: &About) -> Result<Grant, Refusal> {
        let row = self.held_row(held)?;
        let used = lowered.granted_until.max(about.issued_until);
        row.is_used = used > row.begins;
        row.granted_until = used.max(row.begins).min(held.granted_until).min(row.granted_until);
        row.token = lowered.tokens[1];
        Ok(grant(row))
    }

    /// `is_holder()`, where the registry was never restored.
    fn held_row(&mut self, held: &Lease) -> Result<&mut Row, Refusal> {
        let is_holder = |row: &&mut Row| held.granted_until >= row.begins && held.tokens.contains(&row.token);
        self.row(held.worker).as_mut().filter(is_holder).ok_or(Refusal::Superseded)
    }
}

/// With a receipt that the registry would know.
fn grant(row: &Row) -> Grant {
    Grant { until: row.granted_until, receipt: [1; 32], revision: 1 }
}

fn claimed(worker: Worker, row: &Row) -> Claimed {
    let start = if row.was_used { LeaseStart::At } else { LeaseStart::First };
    Claimed { worker, start: start(row.begins), grant: grant(row) }
}

/// The end of a lease that is granted now.
fn grant_for(server_clock: UnixMs, now_ms: UnixMs) -> Result<UnixMs, Refusal> {
    if server_clock >= now_ms + LEASE_MS {
        return Err(Refusal::ClockAhead);
    }
    Ok((now_ms.max(server_clock) + LEASE_MS).min(now_ms + LEASE_MS))
}
