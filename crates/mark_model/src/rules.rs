//! The rules that keep a timestamp from being issued twice, each of which can be switched off.

use std::fmt::{self, Display};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// The mark is flushed before timestamps below it are issued.
    MarkBeforeIds,
    /// The mark is in WAL before it is in the record.
    WalBeforeRecord,
    /// A server begins at the mark that it finds.
    BeginsAtMark,
    /// A server without a certain mark begins above the start margin.
    StartMargin,
    /// The start margin is as long as a server can be ahead of its clock.
    AboveLead,
    /// The data directory knows the last life that it wrote.
    LifeInDataDirectory,
    /// A life that was copied with its data directory says nothing.
    CopiedLifeSaysNothing,
    /// The record names the life before, so that a server that dies between the two knows its own record.
    RecordNamesLifeBefore,
    /// A record knows the directory in which it was written.
    RecordNamesDirectory,
    /// A record knows the timeline on which it was written.
    RecordNamesTimeline,
    /// A record knows how far the mark in WAL was.
    RecordNamesWal,
    /// A record keeps the marks of other workers.
    MarksOfOthers,
    /// The mark in WAL counts at a start.
    WalCounts,
    /// A mark in WAL is above the one before it, so that who knows the former sees that there were more.
    WalRises,
    /// WAL says of a worker without marks there that it has none.
    DisownedInWal,
    /// A start with another layout is refused.
    SameLayout,
    /// With `require`, nothing is issued before a standby has the mark.
    WaitsForStandby,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 17] = [
        Self::MarkBeforeIds,
        Self::WalBeforeRecord,
        Self::BeginsAtMark,
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
        Self::WaitsForStandby,
    ];
}

impl Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&model_explorer::words(self))
    }
}
