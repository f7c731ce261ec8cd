//! The rules of the mark, each of which can be switched off. Most keep a timestamp from being issued twice; some keep a
//! plain restart from looking like something else.

use std::fmt::{self, Display};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// The mark is flushed before timestamps below it are issued.
    MarkBeforeIds,
    /// The mark is in WAL before it is in the record, which names it: otherwise a server that is killed in between
    /// takes WAL for an older one. Without the rule, the record is written first, and names the mark that WAL is to
    /// have.
    WalBeforeRecord,
    /// A server begins at the mark that it finds.
    BeginsAtMark,
    /// A server begins at what its clock shows, or later: while it was down, another one can have had its worker.
    BeginsAtClock,
    /// A server without a certain mark begins above the start margin.
    StartMargin,
    /// The start margin is as long as a server can be ahead of its clock.
    AboveLead,
    /// The data directory knows the last life that it wrote.
    LifeInDataDirectory,
    /// A life that was copied with its data directory says nothing.
    CopiedLifeSaysNothing,
    /// The record names the life before: otherwise a server that is killed between the record and the life takes the
    /// record for another server's, and warns of it.
    RecordNamesLifeBefore,
    /// A record knows the directory in which it was written.
    RecordNamesDirectory,
    /// A record knows the timeline on which it was written.
    RecordNamesTimeline,
    /// A record knows how far the mark in WAL was: otherwise a server that is put back to it does not see that IDs were
    /// issued without marks in WAL since, and each planned restart leaves a gap, since a stop lowers the mark in the
    /// record alone.
    RecordNamesWal,
    /// A record keeps the marks of other workers, which are nowhere else if WAL could not be written.
    MarksOfOthers,
    /// The mark in WAL counts at a start.
    WalCounts,
    /// A mark in WAL is above the one before it, so a server that is put back to a record that knows the former sees
    /// that there were more.
    WalRises,
    /// WAL says of a worker without marks there that it has none.
    DisownedInWal,
    /// A start with another layout is refused.
    SameLayout,
    /// A server begins at or above the marks of other workers in WAL that its clock can reach.
    BeginsAboveOthers,
    /// A promoted standby with a leased worker begins above the start margin, as with any other.
    LeasedAboveMargin,
    /// There is no horizon below the marks of other workers in WAL.
    HorizonAboveOthers,
    /// With `require`, nothing is issued before a standby has the mark.
    WaitsForStandby,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 21] = [
        Self::MarkBeforeIds,
        Self::WalBeforeRecord,
        Self::BeginsAtMark,
        Self::BeginsAtClock,
        Self::StartMargin,
        Self::AboveLead,
        Self::LifeInDataDirectory,
        Self::CopiedLifeSaysNothing,
        Self::RecordNamesLifeBefore,
        Self::RecordNamesDirectory,
        Self::RecordNamesTimeline,
        Self::RecordNamesWal,
        Self::MarksOfOthers,
        Self::WalCounts,
        Self::WalRises,
        Self::DisownedInWal,
        Self::SameLayout,
        Self::BeginsAboveOthers,
        Self::LeasedAboveMargin,
        Self::HorizonAboveOthers,
        Self::WaitsForStandby,
    ];
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&model_explorer::words(self))
    }
}
