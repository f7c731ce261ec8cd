//! What servers, their directories and their WAL remember.

use std::ops::Range;

/// A timestamp, and what a right clock shows.
pub type Time = u64;

/// A worker ID.
pub type Worker = u8;

/// The most servers that a world has room for.
pub const SERVERS: usize = 3;

/// The most workers.
pub const WORKERS: usize = 2;

/// The state directory outside all data directories.
pub const SHARED: usize = SERVERS;

/// The record in a state directory. Either of the two slots counts, so a write that is cut off has not happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub revision: u64,
    pub life: u64,
    pub previous_life: u64,
    pub mark: Time,
    pub logged: Time,
    pub cluster: u8,
    pub timeline: u32,
    pub directory: u64,
    pub worker: Worker,
    pub layout: u8,
    /// The mark of the other worker.
    pub other: Time,
}

/// What a data directory knows of the record that it wrote last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    pub number: u64,
    pub revision: u64,
    pub worker: Worker,
    pub wal_mark: Time,
    pub directory: u64,
    /// Whether this data directory wrote it. A copy says nothing.
    pub is_own: bool,
}

/// What a page in WAL says of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InPage {
    /// Nothing.
    #[default]
    Unwritten,
    /// The worker issues IDs without marks in WAL.
    Unknown,
    Mark(Time),
}

/// The page with the marks, as far as a data directory has WAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Page {
    pub workers: [InPage; WORKERS],
    /// The layout of the server that wrote last.
    pub layout: Option<u8>,
    /// Whether standbys know how complete they are. Only a replay knows, which reads it in a trace.
    pub is_complete: bool,
}

/// A state directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Directory {
    /// 0 if there is none.
    pub inode: u64,
    pub record: Option<Record>,
}

/// `snowflake_pg.wal_mark`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WalMark {
    Off,
    #[default]
    Prefer,
    Require,
}

/// A server with its data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    /// PostgreSQL's system identifier.
    pub cluster: u8,
    /// 0 if there is no such server.
    pub timeline: u32,
    pub page: Page,
    pub life: Option<Life>,
    pub worker: Worker,
    pub layout: u8,
    pub wal_mark: WalMark,
    /// The number of its state directory.
    pub directory: usize,
    /// The primary of a standby.
    pub follows: Option<usize>,
    /// Whether this process is a promoted standby.
    pub is_promoted: bool,
    /// Whether a standby of this server was promoted: it may only come back after pg_rewind.
    pub is_superseded: bool,
    /// Whether anything but crashes, stops and starts has happened to it.
    pub is_disturbed: bool,
    /// Whether a planned stop has lowered the mark, and no start has written one since.
    pub is_lowered: bool,
    pub memory: Memory,
    /// Whether its process has ended at this time, or that of a primary whose place it has taken.
    pub has_just_ended: bool,
    /// When its process ended last, where servers take turns.
    pub ended: Time,
    /// The mark in WAL before a start that failed, and the one that this start wrote there.
    pub unfinished: Option<(Time, Time)>,
    /// An earlier state of the data directory.
    pub image: Option<Image>,
}

/// A backup of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    pub timeline: u32,
    pub page: Page,
    pub life: Option<Life>,
    /// The record, if the state directory is inside.
    pub record: Option<Record>,
}

/// The shared memory of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Memory {
    /// The generator has not been started.
    #[default]
    Down,
    /// It waits for its clock: no mark is certain.
    Waiting(Wait),
    Starting(Start),
    Running(Running),
}

/// A wait for the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// What the clock must show.
    pub until: Time,
    /// Where IDs then begin.
    pub floor: Time,
}

/// A start of which something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// The wait for its clock, if it has waited.
    pub waited: Option<Wait>,
    pub first: Time,
    pub mark: Time,
    pub in_wal: Time,
    pub known: Time,
    pub write: Write,
}

/// What is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    Wal,
    /// Nothing, but a standby must have the mark in WAL.
    Standby,
    Record,
    /// Of a start: the life in the data directory.
    Life(Life),
    /// Of a start without marks in WAL, which says so there.
    Disown,
    /// The mark is used.
    Publish,
}

/// A generator that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    /// The next timestamp.
    pub next: Time,
    /// Everything below may be issued.
    pub covered: Time,
    /// How far timestamps are ahead of the clock.
    pub lag: Time,
    pub in_wal: Time,
    pub life: u64,
    pub revision: u64,
    pub directory: u64,
    /// A further mark, and what is written next of it.
    pub extension: Option<(Time, Write)>,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub now: Time,
    pub servers: [Server; SERVERS],
    pub directories: [Directory; SERVERS + 1],
    /// What was issued of each worker.
    pub issued: [Issued; WORKERS],
    /// The number of the last life.
    pub lives: u64,
    pub timelines: u32,
    pub budget: Budget,
    pub broken: Broken,
}

/// Timestamps that were issued: the first 64 one by one, later ones by the end of the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Issued {
    first: u64,
    end: Time,
}

/// How often things can still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Crashes and planned stops.
    pub ends: u8,
    /// Writes that fail.
    pub failures: u8,
    pub backups: u8,
    pub promotions: u8,
    /// How often another server is set up with the worker, which then takes turns with the first one.
    pub turns: u8,
    pub rewinds: u8,
    pub changes: u8,
    pub images: u8,
    /// How often a DBA has IDs begin later.
    pub advances: u8,
}

/// What does not hold any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken {
    pub uniqueness: bool,
    pub i1: bool,
    pub i2: bool,
    pub alarm: bool,
    pub ahead: bool,
    pub horizon: bool,
}

impl Issued {
    /// Adds timestamps. False if one of them, or later ones of those after the first 64, were issued before.
    pub fn add(&mut self, timestamps: Range<Time>) -> bool {
        let bit = |time: Time| 1_u64.checked_shl(u32::try_from(time).unwrap_or(u32::MAX)).unwrap_or(0);
        let new = bit(timestamps.end).wrapping_sub(bit(timestamps.start));
        let is_new = if timestamps.start < 64 { self.first & new == 0 } else { timestamps.start >= self.end };
        self.first |= new;
        self.end = self.end.max(timestamps.end);
        is_new
    }

    /// How many of the first 64 were issued.
    pub fn count(&self) -> u64 {
        self.first.count_ones().into()
    }

    /// All are below this.
    pub fn end(&self) -> Time {
        self.end
    }
}

impl Record {
    /// Every timestamp that a worker is known to have issued is below this.
    pub fn mark_of(&self, worker: Worker) -> Time {
        if worker == self.worker { self.mark } else { self.other }
    }
}

impl Page {
    /// The mark that counts for a worker; 0 if there is none.
    pub fn highest(&self, worker: Worker) -> Time {
        match self.workers[usize::from(worker)] {
            InPage::Mark(mark) => mark,
            InPage::Unwritten | InPage::Unknown => 0,
        }
    }
}
