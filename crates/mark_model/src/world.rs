//! The bounds of an exploration: what can happen, how often, and which rule is off.

use crate::rules::Rule;
use crate::state::{Budget, Time, WalMark};
use snowflake_core::server::lease::LeaseStart;

#[derive(Clone, Copy, Debug)]
pub struct World {
    /// The last time that the clock shows.
    pub end: Time,
    /// How far the mark is ahead of the clock.
    pub reserve: Time,
    /// How long a server without a certain mark waits.
    pub wait: Time,
    /// How far ahead of its clock a server issues timestamps, if the clock is right: `max_borrow`.
    pub borrow: Time,
    pub wal_mark: WalMark,
    /// How often things happen at most.
    pub budget: Budget,
    /// Whether the state directory is outside of data directories, and shared by servers that take turns.
    pub is_shared: bool,
    /// Whether the clock can show any time when a server starts. If so, no start may rely on the clock alone, and a
    /// standby has all of its primary's WAL when it is promoted.
    pub wrong_clocks: bool,
    /// What happens that the mark is not meant to survive.
    pub beyond: Beyond,
    /// Whether a registry leases workers.
    pub is_leased: bool,
    /// Where the lease of the worker begins, if it is leased, in a replay.
    pub lease: Option<LeaseStart>,
    /// The highest mark of another worker in WAL, in a replay, where there can be more workers.
    pub others: Option<Time>,
    pub off: Option<Rule>,
}

/// What no rule protects against (docs/guarantees.md, "Limits").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beyond {
    /// None of it.
    #[default]
    Nothing,
    /// A primary whose clock was wrong is lost with marks that it had not sent.
    LostWithWrongClock,
    /// A primary continues, or comes back as it was, beside its promoted standby.
    OldPrimary,
}

impl World {
    /// One server that crashes, stops and starts.
    pub const ALONE: Self = Self {
        end: 5,
        reserve: 2,
        wait: 2,
        borrow: 2,
        wal_mark: WalMark::Prefer,
        budget: Budget {
            ends: 3,
            failures: 0,
            backups: 0,
            promotions: 0,
            turns: 0,
            rewinds: 0,
            changes: 0,
            images: 0,
            advances: 0,
        },
        is_shared: false,
        wrong_clocks: false,
        beyond: Beyond::Nothing,
        is_leased: false,
        lease: None,
        others: None,
        off: None,
    };

    /// This world with `wal_mark = off`.
    pub const fn off(self) -> Self {
        Self { wal_mark: WalMark::Off, ..self }
    }

    /// This world with `wal_mark = require`.
    pub const fn require(self) -> Self {
        Self { wal_mark: WalMark::Require, ..self }
    }

    /// This world with a state directory outside of all data directories.
    pub const fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }

    /// This world without a rule.
    pub const fn without(self, rule: Rule) -> Self {
        Self { off: Some(rule), ..self }
    }

    /// This world, in which something happens that no rule protects against.
    pub const fn with(self, beyond: Beyond) -> Self {
        Self { beyond, ..self }
    }

    /// The start margin, as `MarkSettings::start_margin_ms`.
    pub fn margin(&self) -> Time {
        if self.keeps(Rule::AboveLead) { self.wait.max(self.borrow) } else { self.wait }
    }

    /// Whether all servers are of one cluster, and none is lost with IDs that no other can know of.
    pub fn is_one_line(&self) -> bool {
        self.beyond == Beyond::Nothing && self.budget.turns == 0 && self.budget.advances == 0
    }

    /// Whether a rule is on.
    pub fn keeps(&self, rule: Rule) -> bool {
        self.off != Some(rule)
    }
}
