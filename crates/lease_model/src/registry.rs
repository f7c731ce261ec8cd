//! The registry: claim, renew, release and restore, as the SQL has them.

use crate::rules::Rule;
use crate::state::{Lease, Registry, Request, Row, State, Time, Token, Worker};
use crate::world::{Beyond, World};

/// What the registry is free to choose: any worker that is free, and any end of the grant that the server's clock asks
/// for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The worker of a claim.
    pub worker: Worker,
    /// The end of the grant.
    pub until: Time,
}

/// What the registry answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A worker, whose IDs begin there.
    Claimed {
        worker: Worker,
        /// Where its IDs begin.
        begins: Time,
        /// Where they end.
        granted: Time,
    },
    /// The new end of the grant.
    Renewed { granted: Time },
    /// The server does not have the worker any more.
    Refused {
        /// Whether another one was given it for the same time.
        must_stop: bool,
    },
    /// The release has arrived.
    Released {
        /// Whether it was the holder's.
        counts: bool,
    },
}

/// Whether two tokens are the same secret.
fn same(one: Token, other: Token) -> bool {
    one != 0 && one == other
}

fn presents(tokens: &[Token; 2], row: &Row) -> bool {
    tokens.iter().any(|&token| same(token, row.token))
}

/// The registry, at a moment of its clock.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// What it has committed.
    pub registry: Registry,
    /// What its clock shows.
    pub now: Time,
    pub world: &'a World,
}

impl<'a> At<'a> {
    pub fn new(state: &State, world: &'a World) -> Self {
        Self { registry: state.registry, now: state.now, world }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.world.off.keeps(rule)
    }

    fn row(&self, worker: Worker) -> Option<Row> {
        self.registry.rows[usize::from(worker)]
    }

    /// Everything that it may choose for a request; nothing if it can't serve it.
    pub fn choices(&self, request: &Request) -> Vec<Choice> {
        match request {
            Request::Claim { presented, new } => match self.repeated_claim(*new) {
                Some(worker) => vec![Choice { worker, until: 0 }],
                None => (0..self.world.workers).flat_map(|worker| self.claims_of(worker, presented)).collect(),
            },
            Request::Renew { held, .. } if self.is_holder(held) => {
                let known = self.row(held.worker).map_or(0, |row| row.granted).max(held.grant);
                self.ends(known).map(|until| Choice { worker: held.worker, until }).collect()
            }
            Request::Renew { held, .. } | Request::Release { held, .. } => {
                vec![Choice { worker: held.worker, until: 0 }]
            }
        }
    }

    /// Ends of grants, which are not before `known`.
    fn ends(&self, known: Time) -> impl Iterator<Item = Time> + use<> {
        let beyond = if self.keeps(Rule::GrantsAreBounded) { 0 } else { 1 };
        let longest = self.now + self.world.longest_grant + beyond;
        known.max(self.now + 1)..=longest.max(known).min(self.world.end)
    }

    fn claims_of(&self, worker: usize, presented: &[Token; 2]) -> impl Iterator<Item = Choice> + use<> {
        let worker = Worker::try_from(worker).expect("few workers");
        let row = self.row(worker);
        let free_at = row.map_or(0, |row| row.granted);
        let early = if row.is_some_and(|row| presents(presented, &row)) { self.world.early } else { 0 };
        let is_free = free_at <= self.now + early || !self.keeps(Rule::FreeAfterGrant);
        let may_be_given = is_free && self.registry.not_before <= self.now;
        let ends = may_be_given.then(|| self.ends(free_at)).into_iter().flatten();
        ends.map(move |until| Choice { worker, until })
    }

    /// Serves a request, with one of its choices.
    pub fn serve(&mut self, request: &Request, choice: Choice) -> Answer {
        match request {
            Request::Claim { new, .. } => self.claim(*new, choice),
            Request::Renew { held, new } => self.renew(held, *new, choice),
            Request::Release { held, lowered, new } => self.release(held, *lowered, *new),
        }
    }

    fn repeated_claim(&self, new: Token) -> Option<Worker> {
        let is_repeated = |row: &Option<Row>| row.is_some_and(|row| same(row.token, new));
        let repeated =
            self.registry.rows.iter().position(is_repeated).filter(|_| self.keeps(Rule::RepeatChangesNothing));
        repeated.and_then(|worker| Worker::try_from(worker).ok())
    }

    fn claim(&mut self, new: Token, Choice { worker, until }: Choice) -> Answer {
        let row = self.row(worker);
        if let (Some(_), Some(Row { begins, granted, .. })) = (self.repeated_claim(new), row) {
            return Answer::Claimed { worker, begins, granted };
        }
        let former = row.map_or(0, |row| if self.keeps(Rule::NextBeginsAtGrant) { row.granted } else { row.begins });
        let begins = former.max(self.registry.not_before);
        self.write(worker, Row { token: new, begins, granted: until, is_current: true });
        Answer::Claimed { worker, begins, granted: until }
    }

    fn write(&mut self, worker: Worker, row: Row) {
        self.registry.rows[usize::from(worker)] = Some(row);
    }

    fn renew(&mut self, held: &Lease, new: Token, Choice { until, .. }: Choice) -> Answer {
        if !self.is_holder(held) {
            return Answer::Refused { must_stop: self.is_given_away(held) };
        }
        let row = self.row(held.worker);
        let begins = row.map_or(0, |row| row.begins);
        let token = if self.keeps(Rule::NewTokenWithRenewal) { new } else { held.tokens[0] };
        self.write(held.worker, Row { token, begins, granted: until, is_current: true });
        Answer::Renewed { granted: until }
    }

    /// Whether a server that presents this lease has the worker.
    fn is_holder(&self, held: &Lease) -> bool {
        let decides = self.keeps(Rule::CurrentRowDecides) || self.registry.restored_at.is_none();
        let current = self.row(held.worker).filter(|row| row.is_current && decides);
        let is_answered = current.is_some() && held.has_receipt && held.is_answered;
        let is_proven = self.is_beyond_restore(held) || is_answered;
        let is_due = if current.is_some() { Rule::AnsweredSinceRestore } else { Rule::HeldBeyondRestore };
        if !is_proven && self.keeps(is_due) {
            return false;
        }
        match current {
            Some(row) => {
                (presents(&held.tokens, &row) || !self.keeps(Rule::RenewalPresentsToken))
                    && (held.grant >= row.begins || !self.keeps(Rule::HeldReachesBeginning))
            }
            None => {
                let grants =
                    |row: Row| presents(&held.tokens, &row) && (row.begins..=row.granted).contains(&held.grant);
                held.has_receipt || self.row(held.worker).is_some_and(grants) || !self.keeps(Rule::Receipt)
            }
        }
    }

    /// Whether the worker was given to another server before the grant held has ended. Only where the registry can lose
    /// that: a copy that is told the same elsewhere may issue what is left of its grant.
    fn is_given_away(&self, held: &Lease) -> bool {
        if self.world.beyond != Beyond::UnnoticedRestore {
            return false;
        }
        let is_others = |row: Row| !presents(&held.tokens, &row) && row.begins < held.grant;
        held.has_receipt && self.row(held.worker).is_some_and(is_others)
    }

    /// Whether the grant held is beyond the last restore, by the margin.
    fn is_beyond_restore(&self, held: &Lease) -> bool {
        let margin = if self.keeps(Rule::MarginOfRestore) { self.world.early } else { 0 };
        self.registry.restored_at.is_none_or(|at| held.grant > at + margin)
    }

    fn release(&mut self, held: &Lease, lowered: Time, new: Token) -> Answer {
        let row = self.row(held.worker);
        let is_holder = if self.keeps(Rule::ReleaseAsRenewal) {
            self.is_holder(held)
        } else {
            row.is_some_and(|row| presents(&held.tokens, &row))
        };
        if !is_holder && self.keeps(Rule::ReleasePresentsToken) {
            return Answer::Released { counts: false };
        }
        let begins = row.map_or(0, |row| row.begins);
        let least = if self.keeps(Rule::ReleaseNotBelowBeginning) { begins } else { 0 };
        let known = row.filter(|row| row.is_current).map_or(Time::MAX, |row| row.granted);
        self.write(held.worker, Row { token: new, begins, granted: known.min(lowered.max(least)), is_current: true });
        Answer::Released { counts: true }
    }

    /// Comes back in an earlier state, and notices. It does so when it is called first; nothing of it matters before.
    pub fn restore(&mut self, backup: Registry) {
        self.registry = backup;
        self.registry.restored_at = Some(self.now);
        if self.keeps(Rule::NotBefore) {
            self.registry.not_before = self.now + self.world.longest_grant;
        }
        for row in self.registry.rows.iter_mut().flatten() {
            row.is_current = false;
        }
    }
}
