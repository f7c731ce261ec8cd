//! The lives of a server: from when to when it issued IDs of which worker, why it began there, and how it ended.
//!
//! They are put together from the [events](crate::mark::trace) that a server tells, and kept behind them in the same
//! file, which has room for the last [`ROOM`] lives. A life has 256 bytes:
//!
//! ```text
//!   0               8               16              24              32              40
//!   ┌───────────────┬───────────────┬───────────────┬───────────────┬───────────────┐
//!   │ counts the    │ number of the │ number of the │ system        │ timeline      │   integers are
//!   │ lives, from 1 │ life          │ server's file │ identifier    │               │   little-endian
//!   ├───────────────┼───────────────┼───────────────┼───────────────┼───────────────┤
//!   │ worker        │ began, by the │ row of the    │ first         │ all are known │
//!   │               │ clock, Unix ms│ start table   │ timestamp     │ to be below   │
//!   ├───────────────┼───────────────┼───────────────┼───────────────┼───────────────┘
//!   │ mark: all are │ highest mark  │ highest mark  │ how it ended  │ when, by the  │
//!   │ below         │ that it found │ that it logged│               │ clock         │
//!   ├───────────────┴───────────────┴───────────────┴───────────────┴───────────────┤
//!   │ layout, spelled out, padded with zeros                                        │   100 bytes
//!   └───────────────────────────────────────────────────────────────────────────────┘
//!   252
//!   │ CRC-32C of all bytes before it
//! ```
//!
//! Nothing waits for a life, and nothing is flushed. After a power cut, the end of the last one can be missing: the mark
//! in the record, which is flushed, then bounds it.

use crate::UnixMs;
use crate::id::layout::Layout;
use crate::mark::trace::Event;
use crate::mark::trace::file::EVENTS_END;
use crate::server::identity::Worker;

/// How many lives a file has room for.
pub const ROOM: usize = 512;

/// Length of a life in bytes.
pub const LENGTH: usize = 256;

const NUMBERS: usize = 15;
const LAYOUT: std::ops::Range<usize> = 120..220;
const CHECKED: usize = 252;

/// The greatest length of a file in bytes.
pub const FILE_LENGTH: usize = EVENTS_END + ROOM * LENGTH;

/// Where the nth life begins in a file.
pub fn offset(nth: u64) -> u64 {
    EVENTS_END as u64 + nth % ROOM as u64 * LENGTH as u64
}

/// The lives in a file, in their order.
pub fn read(file: &[u8]) -> Vec<LifeSpan> {
    let (lives, _) = file.get(EVENTS_END..).unwrap_or_default().as_chunks();
    let mut lives: Vec<_> = lives.iter().filter_map(LifeSpan::decode).collect();
    lives.sort_unstable_by_key(|life| life.nth);
    lives
}

/// How a life ended, as far as its server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// It has not, or its server could not tell.
    #[default]
    Open = 0,
    /// By a planned stop.
    Stop = 1,
    /// By a crash. The server has found its last mark afterwards.
    Crash = 2,
    /// By a crash, after which the server has found another mark or none.
    Lost = 3,
    /// The server went on with another worker, or another lease of this one.
    GivenAway = 4,
    /// The life goes on at a much later time.
    Jumped = 5,
}

/// In the place of a row of the start table: the life was there before, and its time has [jumped
/// ahead](crate::mark::reservation::jumps). What is between is no part of it.
const JUMPED: u64 = 12;

/// A life of a server, or a part of one without jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeSpan {
    /// Counts the lives in a file, from 1.
    pub nth: u64,
    /// The random number of the life, which records have, too.
    pub number: u64,
    /// The random number of the [file](crate::mark::trace::file) of its server. Another one than that of the file that it
    /// is in if that file, or an earlier one, is a copy.
    pub server: u64,
    /// PostgreSQL's system identifier.
    pub system_identifier: u64,
    /// PostgreSQL's timeline.
    pub timeline: u64,
    /// The data center and the worker.
    pub worker: Worker,
    /// The layout of its IDs.
    pub layout: Layout,
    /// What the clock showed when it began.
    pub began_at: UnixMs,
    /// Why it began where it did: the row of the start table, as a [decision](crate::mark::trace::decision).
    pub decision: u64,
    /// The first timestamp that it may have issued.
    pub first: UnixMs,
    /// All timestamps up to the last one that it is known to have issued are below this.
    pub issued: UnixMs,
    /// All its timestamps are below this.
    pub mark: UnixMs,
    /// The highest mark of its worker that it has found: everything that its server knows of is below.
    pub found: UnixMs,
    /// The highest mark that it has written to WAL; 0 if none.
    pub logged: UnixMs,
    /// How it ended.
    pub end: End,
    /// What the clock showed then; 0 if it has not ended, or by a crash.
    pub ended_at: UnixMs,
}

impl LifeSpan {
    /// Its bytes.
    pub fn encode(&self) -> [u8; LENGTH] {
        let Self { nth, number, server, system_identifier, timeline, worker, began_at, decision, first, .. } = *self;
        let Self { issued, mark, found, logged, end, ended_at, .. } = *self;
        let numbers = [nth, number, server, system_identifier, timeline, worker, began_at, decision, first];
        let mut bytes = [0; LENGTH];
        bytes[..72].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
        let numbers = [issued, mark, found, logged, end as u64, ended_at];
        bytes[72..NUMBERS * 8].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
        let layout = self.layout.to_string();
        bytes[LAYOUT][..layout.len()].copy_from_slice(layout.as_bytes());
        let checksum = crc32c::crc32c(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The life in these bytes; `None` if there is none, or only a part of one.
    pub fn decode(bytes: &[u8; LENGTH]) -> Option<Self> {
        if crc32c::crc32c(&bytes[..CHECKED]).to_le_bytes() != bytes[CHECKED..] {
            return None;
        }
        let (numbers, _) = bytes[..NUMBERS * 8].as_chunks();
        let numbers = <[[u8; 8]; NUMBERS]>::try_from(numbers).ok()?.map(u64::from_le_bytes);
        let [nth, number, server, system_identifier, timeline, worker, began_at, decision, first, ..] = numbers;
        let [.., issued, mark, found, logged, end, ended_at] = numbers;
        let layout = std::str::from_utf8(&bytes[LAYOUT]).ok()?.trim_end_matches('\0').parse().ok()?;
        let ends = [End::Open, End::Stop, End::Crash, End::Lost, End::GivenAway, End::Jumped];
        let end = *ends.get(usize::try_from(end).ok()?)?;
        let life = Self {
            nth,
            number,
            server,
            system_identifier,
            timeline,
            worker,
            layout,
            began_at,
            decision,
            first,
            issued,
            mark,
            found,
            logged,
            end,
            ended_at,
        };
        (nth > 0).then_some(life)
    }
}

impl LifeSpan {
    /// The life, of which all timestamps up to now are below this.
    #[must_use]
    pub fn with_issued(&self, issued: UnixMs) -> Self {
        // No ID was issued after the jump yet, and the clock may have been set back.
        let first = if self.decision == JUMPED && issued <= self.first { self.found } else { self.first };
        Self { first, issued: issued.max(self.issued), ..*self }
    }

    /// How it ended, in words, as the server tells whose life it is if `is_own`.
    pub fn state(&self, is_own: bool, is_running: bool) -> &'static str {
        match self.end {
            End::Open if is_running => "running",
            End::Open if is_own => "crashed",
            // A copy of the file of its server does not tell more.
            End::Open => "unknown",
            End::Stop => "stopped",
            End::Crash => "crashed",
            End::Lost => "mark lost",
            End::GivenAway => "given away",
            End::Jumped => "jumped",
        }
    }

    /// Why it began where it did, in words; see docs/guarantees.md, "Where a server begins".
    pub fn reason(&self) -> &'static str {
        match self.decision {
            1 => "restart",
            2 => "promotion or recovery",
            3 => "mark in WAL",
            4 => "later mark in WAL",
            5 => "earlier mark in WAL",
            6 => "state directory moved",
            7 => "newer mark than the data directory's",
            8 => "data directory restored",
            9 => "other worker",
            10 => "no mark",
            11 => "lease",
            JUMPED => "jump",
            _ => "unknown",
        }
    }
}

/// What a process has told of a start, and of a mark that is being written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lives {
    begins: Option<Begins>,
    /// The number of the life and the mark in the record that was found.
    record: (u64, UnixMs),
    found: UnixMs,
    decision: u64,
    logged: UnixMs,
    first: Option<UnixMs>,
    life: u64,
    issued: UnixMs,
    jumps_to: UnixMs,
}

#[derive(Clone, Copy, Debug)]
struct Begins {
    timeline: u64,
    system_identifier: u64,
    worker: Worker,
}

/// The server that tells.
#[derive(Clone, Copy, Debug)]
pub struct Teller {
    /// The number of its file.
    pub server: u64,
    /// The layout of its IDs.
    pub layout: Layout,
    /// The place of the last life in the file; 0 if there is none.
    pub last: u64,
    /// Whether IDs keep their order, so that none is of an earlier time than the one before it.
    pub keeps_order: bool,
    /// Whether a life has begun since the server was started, or has crashed.
    pub has_begun: bool,
}

impl Lives {
    /// The lives that an event of this process changes, to be written at their places; `last` is the life that was
    /// written last.
    pub fn after(
        &mut self,
        event: Event,
        at: UnixMs,
        teller: &Teller,
        last: impl FnOnce() -> Option<LifeSpan>,
    ) -> [Option<LifeSpan>; 2] {
        match event {
            Event::Begins { timeline, system_identifier, worker, .. } => {
                *self = Self { begins: Some(Begins { timeline, system_identifier, worker }), ..Self::default() };
            }
            Event::FoundRecord { life, mark, of_worker, .. } => {
                self.record = (life, mark);
                self.found = self.found.max(of_worker);
            }
            Event::FoundInWal { mark, .. } => self.found = self.found.max(mark),
            Event::Decided { decision, .. } => self.decision = decision,
            Event::Starts { first, .. } => self.first = Some(first),
            Event::Logged { counts, .. } => self.logged = counts,
            Event::Born { number, .. } => self.life = number,
            Event::Extends { issued, jumps_to, .. } => *self = Self { issued, jumps_to, ..Self::default() },
            Event::Failed {} => *self = Self::default(),
            Event::Used { mark } => {
                let last = last();
                let told = std::mem::take(self);
                return match (told.begins, told.first) {
                    (Some(begins), Some(first)) => {
                        let ended = last.and_then(|last| told.ended(last, at, teller));
                        [ended, Some(told.begun(begins, first, mark, at, teller))]
                    }
                    _ if told.jumps_to > 0 && teller.keeps_order => last.map_or([None, None], |life| {
                        let Self { issued, logged, jumps_to: first, .. } = told;
                        let before = LifeSpan { end: End::Jumped, ended_at: at, ..life.with_issued(issued) };
                        let next = LifeSpan { nth: life.nth + 1, began_at: at, decision: JUMPED, first, ..life };
                        let issued = issued.min(first);
                        [Some(before), Some(LifeSpan { issued, mark, found: life.mark, logged, ..next })]
                    }),
                    _ => [last.map(|life| told.longer(life, mark)), None],
                };
            }
            Event::Stops { issued } => {
                let stopped = |life: LifeSpan| LifeSpan {
                    mark: issued,
                    end: End::Stop,
                    ended_at: at,
                    ..life.with_issued(issued)
                };
                return [last().filter(|_| teller.has_begun).map(stopped), None];
            }
            _ => {}
        }
        [None, None]
    }

    /// The last life, which has a further mark.
    fn longer(&self, life: LifeSpan, mark: UnixMs) -> LifeSpan {
        LifeSpan { mark, logged: self.logged.max(life.logged), ..life.with_issued(self.issued) }
    }

    /// The last life, if it ended without a word.
    fn ended(&self, last: LifeSpan, at: UnixMs, teller: &Teller) -> Option<LifeSpan> {
        let (life, mark) = self.record;
        if last.end != End::Open || last.server != teller.server {
            None
        } else if teller.has_begun {
            Some(LifeSpan { end: End::GivenAway, ended_at: at, ..last })
        } else if life == last.number {
            Some(LifeSpan { end: End::Crash, mark: last.mark.max(mark), ..last })
        } else {
            Some(LifeSpan { end: End::Lost, ..last })
        }
    }

    fn begun(&self, begins: Begins, first: UnixMs, mark: UnixMs, at: UnixMs, teller: &Teller) -> LifeSpan {
        let Begins { timeline, system_identifier, worker } = begins;
        LifeSpan {
            nth: teller.last + 1,
            number: self.life,
            server: teller.server,
            system_identifier,
            timeline,
            worker,
            layout: teller.layout,
            began_at: at,
            decision: self.decision,
            first,
            issued: first,
            mark,
            found: self.found,
            logged: self.logged,
            end: End::Open,
            ended_at: 0,
        }
    }
}

#[cfg(test)]
mod tests;
