//! Cuts the power before each step of a journal, starts a server on everything that the disk can have then, and counts
//! what comes of it.

use super::disk::{Disk, Found};
use super::start::{Failure, Files, MARGIN_MS, Server, record};
use super::wal::Wal;
use snowflake_core::UnixMs;
use snowflake_core::mark::WalMark;
use snowflake_core::mark::wal_page::WalPage;
use snowflake_core::server::identity::Worker;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Display};
use testbed::Event;

/// Clocks that are right, and a day behind.
const BEHIND_MS: [u64; 2] = [0, 24 * 3600 * 1000];

/// What a test says in a journal.
#[derive(Clone, Debug)]
pub enum Note {
    /// From now on, the server does this.
    Operation(String),
    /// The configuration of the next start.
    Configured(Worker, WalMark),
    /// A client has received an ID with this timestamp.
    Issued(Worker, UnixMs),
    /// The test has given the state file of a stopped server these bytes. A start may refuse until the next ID is
    /// issued.
    Exchanged(Vec<u8>),
}

/// What was tried, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Writes, flushes, renames and removals.
    pub steps: usize,
    /// How many of them were outstanding at the same time, at most.
    pub outstanding: usize,
    /// What a disk could have, at all points in time.
    pub disks: usize,
    /// What a disk could have after the power was cut again, in a start on one of these.
    pub again: usize,
    /// Starts on all of them, without the ones on what has been tried before.
    pub starts: usize,
    /// The outcome of the starts after the first cut.
    pub outcomes: BTreeMap<String, usize>,
}

/// What is tried once: the disk, WAL, the worker and whether marks go to WAL, how far the clock is behind, and how
/// often the power is cut again.
type Tried = (Found, Vec<u8>, Worker, String, u64, usize);

/// What a start came to: where IDs begin, and why; or why it was refused.
type Outcome = Result<(UnixMs, String), String>;

pub struct Judge {
    disk: Disk,
    wal: Wal,
    server: Server,
    limit: usize,
    cuts: usize,
    operation: String,
    issued: BTreeMap<Worker, UnixMs>,
    may_refuse: bool,
    /// The highest mark that was ever found, and the latest time that was ever seen.
    highest: UnixMs,
    tried: HashMap<Tried, Outcome>,
    tallies: Vec<(String, Tally)>,
}

impl Judge {
    /// With a disk that is empty. Of the steps that are outstanding, the last `limit` can be lost. The power is cut so
    /// many times more in the starts that follow.
    pub fn new(server: Server, limit: usize, cuts: usize) -> Self {
        Self {
            disk: Disk::default(),
            wal: Wal::default(),
            server,
            limit,
            cuts,
            operation: String::new(),
            issued: BTreeMap::new(),
            may_refuse: false,
            highest: 0,
            tried: HashMap::new(),
            tallies: Vec::new(),
        }
    }

    /// Goes through the journal, and cuts the power before each of its steps, and after the last one.
    pub fn go_through(&mut self, events: &[(Event, Option<Note>)]) {
        for (event, note) in events {
            match note {
                Some(Note::Issued(worker, at)) => {
                    self.issued.insert(*worker, *at);
                    self.highest = self.highest.max(*at);
                    self.may_refuse = false;
                    continue;
                }
                Some(Note::Operation(name)) => {
                    self.operation.clone_from(name);
                    self.cut_power();
                    continue;
                }
                Some(Note::Exchanged(bytes)) => {
                    self.cut_power();
                    self.disk.exchange_mark(bytes);
                    self.may_refuse = true;
                    continue;
                }
                Some(Note::Configured(worker, wal_mark)) => {
                    self.cut_power();
                    (self.server.worker, self.server.wal_mark) = (*worker, *wal_mark);
                    continue;
                }
                None => {}
            }
            let (mut disk, pages) = (self.disk.clone(), self.wal.outcomes());
            let has_changed = disk.apply(event) | self.wal.apply(event);
            self.wal.check_page(event);
            if has_changed {
                self.cut_power_on(&pages);
                self.tally().steps += 1;
            }
            self.disk = disk;
        }
        self.cut_power();
    }

    /// The disk as it is now.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What was tried, by what the server did then.
    pub fn tallies(&self) -> &[(String, Tally)] {
        &self.tallies
    }

    fn tally(&mut self) -> &mut Tally {
        if self.tallies.last().is_none_or(|(name, _)| *name != self.operation) {
            self.tallies.push((self.operation.clone(), Tally::default()));
        }
        &mut self.tallies.last_mut().expect("the one of now").1
    }

    fn cut_power(&mut self) {
        let pages = self.wal.outcomes();
        self.cut_power_on(&pages);
    }

    fn cut_power_on(&mut self, pages: &[WalPage]) {
        let (disks, outstanding) = (self.disk.outcomes(self.limit), self.disk.outstanding());
        disks.iter().for_each(|found| self.check_file(found));
        for page in pages {
            for found in &disks {
                for behind_ms in BEHIND_MS {
                    self.start(found, page, behind_ms);
                }
            }
        }
        let tally = self.tally();
        tally.disks += disks.len() * pages.len();
        tally.outstanding = tally.outstanding.max(outstanding);
    }

    /// The file alone has a mark above every ID, whatever WAL has.
    fn check_file(&self, found: &Found) {
        let Server { worker, .. } = self.server;
        let issued = self.issued.get(&worker).copied().unwrap_or(0);
        let mark = record(found).map_or(0, |record| record.mark_of(worker));
        let is_covered = issued == 0 || issued < mark || self.may_refuse;
        assert!(is_covered, "{}: an ID had {issued}, above the mark {mark} in the file", self.told(found));
    }

    fn start(&mut self, found: &Found, page: &WalPage, behind_ms: u64) {
        let worker = self.server.worker;
        let issued = self.issued.get(&worker).copied().unwrap_or(0);
        let name = match self.outcome(found, page, behind_ms, self.cuts) {
            Ok((floor, reason)) => {
                assert!(floor > issued, "{}: IDs begin at {floor}, and one had {issued}: {reason}", self.told(found));
                reason
            }
            Err(refusal) => {
                assert!(self.may_refuse, "{}: {refusal}", self.told(found));
                refusal
            }
        };
        *self.tally().outcomes.entry(name).or_default() += 1;
    }

    /// What a start comes to, and the lowest time at which IDs begin if the power is cut so many times more, in this
    /// start and in those after it.
    fn outcome(&mut self, found: &Found, page: &WalPage, behind_ms: u64, cuts: usize) -> Outcome {
        let Server { worker, wal_mark, .. } = self.server;
        let tried = (found.clone(), page.encode(), worker, wal_mark.to_string(), behind_ms, cuts);
        if let Some(outcome) = self.tried.get(&tried) {
            return outcome.clone();
        }
        self.tally().starts += 1;
        let outcome = self.try_start(found, page, behind_ms, cuts);
        self.tried.insert(tried, outcome.clone());
        outcome
    }

    fn try_start(&mut self, found: &Found, page: &WalPage, behind_ms: u64, cuts: usize) -> Outcome {
        let files = Files::new(self.server, found, page, cuts as u64);
        let in_wal = page.look_up(self.server.worker).highest();
        self.highest = self.highest.max(in_wal).max(record(found).map_or(0, |record| record.highest_mark()));
        let now = self.issued.values().max().copied().unwrap_or(EARLIEST) - behind_ms;
        let mut whole = files.clone();
        let first = whole.start(now).map_err(|failure| failure.name())?;
        let most = self.highest.max(now) + MARGIN_MS;
        assert!(first.floor <= most, "{}: IDs begin at {}, after {most}", self.told(found), first.floor);
        let steps = usize::MAX - whole.steps_left;
        // After all that this start has written.
        let again = whole.start(now).map_err(|failure| failure.name());
        let goes_on = again.as_ref().is_ok_and(|again| again.floor >= first.floor);
        assert!(goes_on, "{}: {again:?} after {first:?}", self.told(found));
        let mut lowest = first.floor;
        for cut in (1..steps).filter(|_| cuts > 0) {
            let mut files = files.clone();
            files.steps_left = cut;
            assert!(matches!(files.start(now), Err(Failure::PowerCut)), "{}: no end at step {cut}", self.told(found));
            for left in files.disk.outcomes(self.limit) {
                self.tally().again += 1;
                let next = self.outcome(&left, &files.wal, behind_ms, cuts - 1);
                let next = next.unwrap_or_else(|refusal| panic!("{}: {refusal} after step {cut}", self.told(found)));
                lowest = lowest.min(next.0);
            }
        }
        Ok((lowest, format!("{:?}", first.reason)))
    }

    fn told(&self, found: &Found) -> String {
        let (record, length) = (record(found), found.mark.as_ref().map(|(_, bytes)| bytes.len()));
        let step = self.tallies.last().map(|(_, tally)| tally.steps);
        format!("{}, step {step:?}: {record:?} in a file of {length:?} bytes", self.operation)
    }
}

/// A time in the default layout, if nothing was issued yet.
const EARLIEST: UnixMs = 1_700_000_000_000;

impl Tally {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.outstanding = self.outstanding.max(other.outstanding);
        self.disks += other.disks;
        self.again += other.again;
        self.starts += other.starts;
        for (name, count) in &other.outcomes {
            *self.outcomes.entry(name.clone()).or_default() += count;
        }
    }
}

/// As a row of a table.
impl Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, outstanding, disks, again, starts, outcomes } = self;
        let outcomes: Vec<_> = outcomes.iter().map(|(name, count)| format!("{name} {count}")).collect();
        write!(formatter, "{steps:>6} {outstanding:>4} {disks:>8} {again:>8} {starts:>8}  {}", outcomes.join(", "))
    }
}

/// A table of what was tried.
pub fn table(tallies: &[(String, Tally)]) -> String {
    let mut all = Tally::default();
    let mut lines = vec![format!(
        "{:<34} {:>6} {:>4} {:>8} {:>8} {:>8}  outcomes",
        "the power is cut in", "steps", "open", "disks", "again", "starts"
    )];
    let names: BTreeSet<_> = tallies.iter().map(|(name, _)| name).collect();
    for name in names {
        let mut of_name = Tally::default();
        tallies.iter().filter(|(other, _)| other == name).for_each(|(_, tally)| of_name.add(tally));
        lines.push(format!("{name:<34} {of_name}"));
        all.add(&of_name);
    }
    lines.push(format!("{:<34} {all}", "in all"));
    lines.join("\n")
}
