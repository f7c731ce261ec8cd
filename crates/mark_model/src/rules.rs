//! The rules of the mark, each of which can be switched off. Most keep a timestamp from being issued twice; some keep a
//! plain restart from looking like something else.

use std::fmt::{self, Display};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// The mark is flushed before timestamps below it are issued.
    MarkBeforeIds,
    /// The mark is in WAL before it is in the record, which names it: otherwise a server that is killed in between takes
    /// WAL for an older one. Without the rule, the record is written first, and names the mark that WAL is to have.
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
    /// The record names the life before: otherwise a server that is killed between the record and the life takes the
    /// record for another server's, and warns of it.
    RecordNamesLifeBefore,
    /// A record knows the directory in which it was written.
    RecordNamesDirectory,
    /// A record knows the timeline on which it was written.
    RecordNamesTimeline,
    /// A record knows how far the mark in WAL was. A planned stop lowers the record alone: otherwise the server would
    /// continue at the mark in WAL, and leave a gap.
    ///
    /// It also shows that WAL is at an older state, from which somebody may have continued. That takes a data directory
    /// that is put back with its own life twice, and an old state directory: limits of the mark, which no world has.
    RecordNamesWal,
    /// A record keeps the marks of other workers, which are nowhere else if WAL could not be written.
    MarksOfOthers,
    /// The mark in WAL counts at a start.
    WalCounts,
    /// A mark in WAL is above the one before it, so anyone who knows the former sees that there were more.
    ///
    /// [`LifeInDataDirectory`](Self::LifeInDataDirectory) implies it in every world here. Only row S1 begins below the mark
    /// in WAL; the mark of all others rises anyway. S1 needs a record of the life that the data directory knows, or of the
    /// next one, which has issued nothing yet. A life keeps its record in one directory, which it locks, so that record has
    /// its last mark, whatever WAL says. The rule would matter if a record and a data directory went back together while
    /// WAL did not, which happens in no world.
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
