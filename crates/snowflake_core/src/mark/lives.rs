//! The lives of a server: from when to when it issued IDs of which worker, why it began there, and how it ended.
//!
//! They are put together from the [events](crate::mark::trace) that a server records, and kept behind them in the same
//! file, which has room for the last [`ROOM`] lives. [`formats`](crate::formats) has the places of their bytes.
//!
//! Nothing waits for a life, and nothing is flushed. After a power cut, the end of the last one can be missing: the
//! mark in the record, which is flushed, then bounds it.

use crate::UnixMs;
use crate::id::layout::Layout;
use crate::mark::trace::Event;
use crate::mark::trace::file::EVENTS_END;
use crate::server::identity::Worker;

/// How many lives a file has room for.
pub const ROOM: usize = 512;

/// Length of a life in bytes.
pub const LENGTH: usize = 256;

const NUMBERS: usize = 17;
const LAYOUT: std::ops::Range<usize> = 136..236;
const CHECKED: usize = 252;

/// The greatest length of a file in bytes.
pub const FILE_LENGTH: usize = BEGIN + ROOM * LENGTH;

/// Where the lives begin in a file: none is on two pages, so each is written as a whole.
pub const BEGIN: usize = EVENTS_END.next_multiple_of(4096);

/// Where the nth life begins in a file.
pub fn offset(nth: u64) -> u64 {
    BEGIN as u64 + nth % ROOM as u64 * LENGTH as u64
}

/// The lives in what a file has from [`BEGIN`] on, in their order.
pub fn read(bytes: &[u8]) -> Vec<LifeSpan> {
    let (lives, _) = bytes.as_chunks();
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
}

/// A life of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeSpan {
    /// Counts the lives in a file, from 1.
    pub nth: u64,
    /// The random number of the life, which records have, too.
    pub number: u64,
    /// The random number of the [file](crate::mark::trace::file) of its server. Another one than that of the file that
    /// it is in if that file, or an earlier one, is a copy.
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
    /// It has issued timestamps right up to here. The end of those before the first jump, if its time has
    /// [jumped](crate::mark::reservation::jumps): it may have left out some after that.
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
    /// The number of the life whose record the start found; 0 if it found none.
    pub follows: u64,
    /// What the clock showed when its time jumped first; 0 if it never has.
    pub jumped_at: UnixMs,
}

impl LifeSpan {
    /// Its bytes.
    pub fn encode(&self) -> [u8; LENGTH] {
        let Self { nth, number, server, system_identifier, timeline, worker, began_at, decision, first, .. } = *self;
        let Self { issued, mark, found, logged, end, ended_at, follows, jumped_at, .. } = *self;
        let numbers = [nth, number, server, system_identifier, timeline, worker, began_at, decision, first];
        let mut bytes = [0; LENGTH];
        bytes[..72].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
        let numbers = [issued, mark, found, logged, end as u64, ended_at, follows, jumped_at];
        bytes[72..NUMBERS * 8].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
        let layout = self.layout.to_string();
        let length = layout.len().min(LAYOUT.len());
        bytes[LAYOUT][..length].copy_from_slice(&layout.as_bytes()[..length]);
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
        let [.., issued, mark, found, logged, end, ended_at, follows, jumped_at] = numbers;
        let layout = std::str::from_utf8(&bytes[LAYOUT]).ok()?.trim_end_matches('\0').parse().ok()?;
        let ends = [End::Open, End::Stop, End::Crash, End::Lost, End::GivenAway];
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
            follows,
            jumped_at,
        };
        (nth > 0).then_some(life)
    }
}

impl LifeSpan {
    /// The life, all of whose timestamps are below this.
    #[must_use]
    pub fn until(&self, end: UnixMs) -> Self {
        // mutant: audit-jump
        Self { issued: if self.jumped_at > 0 { self.issued } else { end }, mark: end, ..*self }
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
        }
    }

    /// Why it began where it did, in words; see docs/architecture.md, "The start table".
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
            ACCEPTED => "accepted mark",
            _ => "unknown",
        }
    }
}

/// Why a life began with which a DBA accepted a mark: no row of the start table. It issues nothing.
const ACCEPTED: u64 = 12;

/// What a process has recorded of a start, and of a mark that is being written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lives {
    begins: Option<Begins>,
    is_again: bool,
    record: FoundRecord,
    found: UnixMs,
    decision: u64,
    logged: UnixMs,
    first: Option<UnixMs>,
    accepted: Option<UnixMs>,
    is_written: bool,
    issued: UnixMs,
    jumps_to: UnixMs,
}

/// The record that a start has found.
#[derive(Clone, Copy, Debug, Default)]
struct FoundRecord {
    life: u64,
    mark: UnixMs,
}

#[derive(Clone, Copy, Debug)]
struct Begins {
    timeline: u64,
    system_identifier: u64,
    worker: Worker,
}

/// The server that records.
#[derive(Clone, Copy, Debug)]
pub struct Recorder {
    /// The number of its file.
    pub server: u64,
    /// The layout of its IDs.
    pub layout: Layout,
    /// The place of the last life in the file; 0 if there is none.
    pub last: u64,
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
        recorder: &Recorder,
        last: impl FnOnce() -> Option<LifeSpan>,
    ) -> [Option<LifeSpan>; 2] {
        match event {
            Event::Begins { timeline, system_identifier, worker, .. } => {
                let begins = Some(Begins { timeline, system_identifier, worker });
                // A start that has written its record, and WAL then, begins anew. What it finds now is its own.
                *self = match self.first {
                    Some(_) => Self { begins, first: None, is_again: true, ..*self },
                    None => Self { begins, ..Self::default() },
                };
            }
            Event::FoundRecord { life, mark, of_worker, .. } if !self.is_again => {
                self.record = FoundRecord { life, mark };
                self.found = self.found.max(of_worker);
            }
            Event::FoundInWal { mark, .. } if !self.is_again => self.found = self.found.max(mark),
            Event::Decided { decision, .. } if !self.is_again => self.decision = decision,
            Event::Accepts { mark, follows: life @ 1.., found } => {
                self.record = FoundRecord { life, mark: found };
                // mutant: audit-accepted
                (self.accepted, self.decision, self.found) = (Some(mark), ACCEPTED, found);
            }
            Event::Starts { first, .. } => self.first = Some(first),
            Event::Logged { counts, .. } => self.logged = counts,
            // The next start finds this record, and what was accepted with it.
            Event::Born { number, .. } if self.accepted.is_some() => {
                let known = std::mem::take(self);
                let (Some(begins), Some(mark)) = (known.begins, known.accepted) else { return [None, None] };
                let accepted =
                    LifeSpan { number, end: End::Stop, ended_at: at, ..known.begun(begins, mark, at, recorder) };
                return [last().and_then(|last| known.ended(last, at, recorder)), Some(accepted)];
            }
            Event::Born { number, .. } => {
                let (Some(begins), Some(first)) = (self.begins, self.first) else { return [None, None] };
                let last = last();
                // Known before an ID is issued, so that the next start knows the record, however this one ends.
                let begun = LifeSpan { number, ..self.begun(begins, first, at, recorder) };
                if std::mem::replace(&mut self.is_written, true) {
                    return [last.map(|life| LifeSpan { nth: life.nth, ..begun }), None];
                }
                return [last.and_then(|last| self.ended(last, at, recorder)), Some(begun)];
            }
            Event::Extends { issued, jumps_to, .. } => *self = Self { issued, jumps_to, ..Self::default() },
            Event::Failed {} => *self = Self::default(),
            Event::Used { mark } => {
                let last = last();
                let known = std::mem::take(self);
                let life = last.map(|life| match known.begins {
                    Some(_) => LifeSpan { mark, logged: known.logged.max(life.logged), ..life },
                    None => known.longer(life, mark, at),
                });
                return [life.filter(|_| known.begins.is_none() || known.is_written), None];
            }
            Event::Stops { issued } => {
                let stopped = |life: LifeSpan| LifeSpan { end: End::Stop, ended_at: at, ..life.until(issued) };
                return [last().filter(|_| recorder.has_begun).map(stopped), None];
            }
            _ => {}
        }
        [None, None]
    }

    /// The last life, which has a further mark.
    fn longer(&self, life: LifeSpan, mark: UnixMs, at: UnixMs) -> LifeSpan {
        let life = LifeSpan { logged: self.logged.max(life.logged), ..life.until(self.issued.max(life.issued)) };
        let jumped_at = if self.jumps_to > 0 && life.jumped_at == 0 { at } else { life.jumped_at };
        LifeSpan { mark, jumped_at, ..life }
    }

    /// The last life, if it ended without a word.
    fn ended(&self, last: LifeSpan, at: UnixMs, recorder: &Recorder) -> Option<LifeSpan> {
        if last.end != End::Open || last.server != recorder.server {
            None
        } else if recorder.has_begun {
            Some(LifeSpan { end: End::GivenAway, ended_at: at, ..last })
        } else if self.record.life == last.number {
            Some(LifeSpan { end: End::Crash, mark: last.mark.max(self.record.mark), ..last })
        } else {
            Some(LifeSpan { end: End::Lost, ..last })
        }
    }

    fn begun(&self, begins: Begins, first: UnixMs, at: UnixMs, recorder: &Recorder) -> LifeSpan {
        let Begins { timeline, system_identifier, worker } = begins;
        LifeSpan {
            nth: recorder.last + 1,
            number: 0,
            server: recorder.server,
            system_identifier,
            timeline,
            worker,
            layout: recorder.layout,
            began_at: at,
            decision: self.decision,
            first,
            issued: first,
            mark: first,
            found: self.found,
            logged: self.logged,
            end: End::Open,
            ended_at: 0,
            follows: self.record.life,
            jumped_at: 0,
        }
    }
}

#[cfg(test)]
mod tests;
