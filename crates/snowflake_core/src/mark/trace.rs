//! What a server finds, decides and writes of its mark, as events that show afterwards what has happened, and in which
//! order.
//!
//! An event has 64 bytes: its number among the events of this server, what the clock shows with the kind of the event
//! in the highest byte, and six numbers. Nothing waits for an event, and nothing depends on one.

pub mod file;

use crate::UnixMs;
use crate::id::layout::Layout;
use crate::mark::life::LastLife;
use crate::mark::record::Record;
use crate::mark::start_table::{MarkConflict, StartContext, StartPoint, StartReason};
use crate::mark::wal_page::{InWal, PageHorizon};
use crate::server::identity::{Identity, Inode};
use crate::server::lease::LeaseStart;

/// Length of an event in bytes.
pub const LENGTH: usize = 64;

/// How many numbers an event has.
const WORDS: usize = 6;

/// An event, and when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counts the events of a server, from 1.
    pub number: u64,
    /// What the clock of the server showed.
    pub at: UnixMs,
    /// What happened.
    pub event: Event,
}

macro_rules! events {
    ($($(#[$about:meta])* $kind:literal $name:ident { $($(#[$field_about:meta])* $field:ident),* })*) => {
        /// Something that a server has found, decided or done. All fields are numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the fields have the names of what they are in the records and lives")]
        pub enum Event {
            $($(#[$about])* $name { $($(#[$field_about])* $field: u64),* },)*
        }

        impl Event {
            fn words(self) -> (u8, [u64; WORDS]) {
                match self {
                    $(Self::$name { $($field),* } => {
                        let mut words = [0; WORDS];
                        for (word, number) in words.iter_mut().zip([$($field),*] as [u64; _]) {
                            *word = number;
                        }
                        ($kind, words)
                    })*
                }
            }

            fn from_words(kind: u8, words: [u64; WORDS]) -> Option<Self> {
                let mut words = words.into_iter();
                Some(match kind {
                    $($kind => Self::$name { $($field: words.next()?),* },)*
                    _ => return None,
                })
            }
        }
    };
}

events! {
    /// Shared memory was set up: the server has started, or continues after a crash of one of its processes. `server`
    /// is the random number of the file with these events, and `copy_of` that of the file from which it was copied.
    1 Boot { server, copy_of, is_standby }
    /// A start looks for the mark of a worker. See [`directory`] and [`layout`].
    2 Begins { now, timeline, system_identifier, directory, worker, layout }
    /// It has found this record; all numbers are 0 if there is none. `of_worker` is the mark of the worker.
    3 FoundRecord { revision, life, previous_life, mark, logged, of_worker }
    /// It has found this life in the data directory; all numbers are 0 if there is none.
    4 FoundLife { number, revision, wal_mark, worker, is_elsewhere }
    /// It has found this mark of the worker in WAL, and this highest one of other workers. `layout` is that of whoever
    /// wrote last. `is_complete` says whether standbys know how complete they are.
    5 FoundInWal { mark, is_unknown, common, layout, others, is_complete }
    /// The start table has [decided](decision) where IDs begin, or refused.
    6 Decided { decision, floor, margin_ms, was_standby, lease, lease_begins }
    /// Nothing is issued before this time.
    7 Waits { until }
    /// A start goes on to write its first mark, which may not be above `limit`. `wal_mark` is the place of the setting
    /// in [`WalMark`](super::WalMark).
    8 Starts { first, mark, limit, wal_mark }
    /// A running server goes on to write a further mark. Every timestamp that was issued is below `issued`. `jumps_to`
    /// is the timestamp that is needed if it is [far](super::reservation::jumps) from the last one, or 0.
    9 Extends { issued, mark, limit, wal_mark, jumps_to }
    /// A mark was flushed to WAL, where `counts` is the worker's mark now.
    10 Logged { worker, mark, counts }
    /// A worker was flushed to WAL as one that issues IDs without marks there.
    11 Disowned { worker }
    /// A record was flushed. `others` is the highest mark of another worker.
    12 Recorded { revision, life, previous_life, mark, logged, others }
    /// A life was flushed, and is the last one of the data directory.
    13 Born { number, revision, wal_mark, worker }
    /// Timestamps below this mark may be issued.
    14 Used { mark }
    /// A start or an extension was given up.
    15 Failed {}
    /// A planned stop lowers the mark. Every timestamp that was issued is below `issued`.
    16 Stops { issued }
    /// A DBA has accepted whatever is there: IDs begin at this mark. Before them are those of a life, which is 0 if it
    /// is not known, up to the mark that was found.
    17 Accepts { mark, follows, found }
    /// A DBA has reset the mark.
    18 Resets { mark }
    /// A DBA has had IDs begin after this time.
    19 Advances { past }
    /// The registry has granted a worker. Its IDs begin at `begins` or later, and end before `until`.
    20 Granted { worker, begins, until }
    /// The grant has another end.
    21 GrantEnds { until }
    /// The server has noticed that its machine was cloned, and goes on to write that into the record.
    22 Cloned { mark }
}

impl Event {
    /// A record that was found for this worker.
    pub fn found_record(record: Option<&Record>, worker: u64) -> Self {
        let known = |record: &Record| {
            let Record { revision, life, previous_life, mark, logged, .. } = *record;
            Self::FoundRecord { revision, life, previous_life, mark, logged, of_worker: record.mark_of(worker) }
        };
        let none = Self::FoundRecord { revision: 0, life: 0, previous_life: 0, mark: 0, logged: 0, of_worker: 0 };
        record.map_or(none, known)
    }

    /// A record that was flushed.
    pub fn recorded(record: &Record) -> Self {
        let Record { revision, life, previous_life, mark, logged, others, .. } = *record;
        Self::Recorded { revision, life, previous_life, mark, logged, others: others.highest() }
    }

    /// A start of this server.
    pub fn begins(identity: &Identity, now: UnixMs) -> Self {
        let Identity { system_identifier, timeline, worker, .. } = *identity;
        let (directory, layout) = (directory(&identity.directory), layout(&identity.layout));
        Self::Begins { now, timeline: timeline.into(), system_identifier, directory, worker, layout }
    }

    /// A life that was found.
    pub fn found_life(last: Option<LastLife>) -> Self {
        let none = Self::FoundLife { number: 0, revision: 0, wal_mark: 0, worker: 0, is_elsewhere: 0 };
        last.map_or(none, |LastLife { life, elsewhere }| Self::FoundLife {
            number: life.number,
            revision: life.revision,
            wal_mark: life.wal_mark,
            worker: life.worker,
            is_elsewhere: elsewhere.into(),
        })
    }

    /// What was found in WAL.
    pub fn found_in_wal(wal: &InWal) -> Self {
        let InWal { mark, is_unknown, common, others, layout: written, horizon } = *wal;
        let layout = written.as_ref().map_or(0, layout);
        let is_complete = (horizon != PageHorizon::Unknown).into();
        Self::FoundInWal { mark: mark.unwrap_or(0), is_unknown: is_unknown.into(), common, layout, others, is_complete }
    }

    /// What the start table has decided.
    pub fn decided(decided: &Result<StartPoint, MarkConflict>, context: &StartContext) -> Self {
        let (lease, lease_begins) = match context.lease {
            None => (0, 0),
            Some(LeaseStart::Continued(begins)) => (1, begins),
            Some(LeaseStart::First(begins)) => (2, begins),
            Some(LeaseStart::At(begins)) => (3, begins),
        };
        Self::Decided {
            decision: decision(&decided.map(|point| point.reason)),
            floor: decided.map_or(0, |point| point.floor),
            margin_ms: context.start_margin_ms,
            was_standby: context.was_standby.into(),
            lease,
            lease_begins,
        }
    }
}

/// A row of the start table as a number: from 1 on those that begin, from 101 on those that refuse.
pub fn decision(decided: &Result<StartReason, MarkConflict>) -> u64 {
    match decided {
        Ok(StartReason::Restart) => 1,
        Ok(StartReason::Promotion) => 2,
        Ok(StartReason::WalMark) => 3,
        Ok(StartReason::Continued) => 4,
        Ok(StartReason::WalSetBack) => 5,
        Ok(StartReason::Moved) => 6,
        Ok(StartReason::NewerRecord) => 7,
        Ok(StartReason::Restored) => 8,
        Ok(StartReason::OtherWorker) => 9,
        Ok(StartReason::Missing) => 10,
        Ok(StartReason::Leased) => 11,
        Err(MarkConflict::Copy) => 101,
        Err(MarkConflict::OtherCluster) => 102,
        Err(MarkConflict::NewerTimeline) => 103,
        Err(MarkConflict::NotTheLast) => 104,
        Err(MarkConflict::LeftBehind) => 105,
        Err(MarkConflict::NotInWal) => 106,
        Err(MarkConflict::OtherLayout) => 107,
        Err(MarkConflict::OtherLayoutInWal(_)) => 108,
        Err(MarkConflict::OtherGeneration) => 109,
    }
}

/// A number for a directory among its copies.
pub fn directory(inode: &Inode) -> u64 {
    inode.born_ns.wrapping_mul(31).wrapping_add(inode.number)
}

/// A number for a layout: a checksum, and in the higher half the milliseconds of a tick.
pub fn layout(layout: &Layout) -> u64 {
    u64::from(crc32c::crc32c(layout.to_string().as_bytes())) | layout.tick_ms() << 32
}

impl Entry {
    /// The bytes of an event.
    pub fn encode(&self) -> [u8; LENGTH] {
        let (kind, words) = self.event.words();
        let [one, two, three, four, five, six] = words;
        let at = self.at & (u64::MAX >> 8) | u64::from(kind) << 56;
        let mut bytes = [0; LENGTH];
        bytes.copy_from_slice([self.number, at, one, two, three, four, five, six].map(u64::to_le_bytes).as_flattened());
        bytes
    }

    /// The event; `None` if there is none, or one that this version does not know.
    pub fn decode(bytes: &[u8; LENGTH]) -> Option<Self> {
        let (numbers, _) = bytes.as_chunks();
        let [number, at, words @ ..] = <[[u8; 8]; 8]>::try_from(numbers).ok()?.map(u64::from_le_bytes);
        let event = Event::from_words(at.to_le_bytes()[7], words)?;
        (number > 0).then_some(Self { number, at: at & (u64::MAX >> 8), event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_it_was_written() {
        for event in [
            Event::Begins { now: 1, timeline: 2, system_identifier: 3, directory: 4, worker: 5, layout: 6 },
            Event::Failed {},
            Event::Used { mark: u64::MAX },
        ] {
            let entry = Entry { number: 7, at: (1 << 56) - 1, event };
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
        assert_eq!(Entry::decode(&[0; LENGTH]), None, "nothing was written there");
    }
}
