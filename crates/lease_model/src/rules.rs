//! The rules of the protocol, each of which can be switched off.

use std::fmt::{self, Display};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// Registry: the next holder of a worker begins at or above the grant.
    NextBeginsAtGrant,
    /// Registry: a worker is free only when its grant has ended by the registry's clock.
    FreeAfterGrant,
    /// Registry: a renewal presents the token of the row.
    RenewalPresentsToken,
    /// Registry: a renewal replaces the token.
    NewTokenWithRenewal,
    /// Registry: the grant of the server that renews reaches to where the row's holder began. A claim that arrives late
    /// gives its old token to the row again, after other holders.
    HeldReachesBeginning,
    /// Registry: a release presents the token of the row.
    ReleasePresentsToken,
    /// Registry: a release does not lower the grant below where the row's holder began.
    ReleaseNotBelowBeginning,
    /// Registry: a claim that was served before gets the same answer, and changes nothing.
    RepeatChangesNothing,
    /// Registry: after a restore, no worker is given to another server before the grants of before have ended.
    NotBefore,
    /// Registry: no grant reaches further ahead than a restore keeps workers back. A clock that is ahead does not
    /// lengthen it.
    GrantsAreBounded,
    /// Registry: if the row was not written since a restore, the grant held is beyond the restore.
    HeldBeyondRestore,
    /// Registry: if the row was written since the restore, the grant held is beyond the restore, too, or the receipt is
    /// newer than the restore. A request from before the restore can have written the row late.
    AnsweredSinceRestore,
    /// Registry: a release is refused where a renewal would be. The row that it writes decides afterwards.
    ReleaseAsRenewal,
    /// Registry: the grant is so far beyond the restore that nobody can have claimed the worker early.
    MarginOfRestore,
    /// Registry: if the row was not written since a restore, there is a receipt.
    Receipt,
    /// Registry: if the row was written since a restore, the token decides.
    CurrentRowDecides,
    /// Server: the mark never passes the grant.
    MarkWithinGrant,
    /// Server: the mark is flushed before IDs below it are issued.
    MarkBeforeIds,
    /// Server: it begins at its mark.
    BeginsAtMark,
    /// Server: the lease file has where the lease began, and a start does not begin below.
    BeginningInLeaseFile,
    /// Server: the token of a claim is not used for a renewal.
    ClaimsStayClaims,
    /// Server: the token of a renewal is in the lease file before the registry has it.
    TokenInLeaseFile,
    /// Server: a lease file counts only beside a mark of its worker.
    LeaseBesideMark,
    /// Server: the limit is raised only after the answer.
    LimitAfterAnswer,
    /// Server: the lease file is written before the limit is raised.
    LeaseFileBeforeLimit,
    /// Server: a lease file of another boot or machine does not count.
    SameBoot,
    /// Server: a copied lease file does not count.
    OwnFile,
    /// Server: a planned stop lowers the limit before it sends the release.
    CapBeforeRelease,
    /// Server: a planned stop writes the lease file before it sends the release.
    LeaseFileBeforeRelease,
    /// Server: it stops at once when the registry has given its worker to another server for the same time.
    StopsWhenGivenAway,
    /// Server: a release brings a new token, which the next renewal has, too. A release that arrives late would lower
    /// the grant of a server that has started again.
    NewTokenWithRelease,
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&model_explorer::words(self))
    }
}

/// Which rules are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Off(u32);

impl Off {
    /// Every rule is on.
    pub const NOTHING: Self = Self(0);

    /// This one rule is.
    pub const fn only(rule: Rule) -> Self {
        Self(1 << rule as u32)
    }

    /// Whether a rule is on.
    pub const fn keeps(self, rule: Rule) -> bool {
        self.0 & Self::only(rule).0 == 0
    }
}
