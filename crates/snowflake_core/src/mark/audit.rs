//! Compares the lives of a fleet: whether two of them can have issued the same IDs.

mod twice;

use crate::UnixMs;
use crate::id::layout::Layout;
use crate::mark::lives::LifeSpan;
use crate::server::identity::Worker;
use std::collections::{BTreeMap, BTreeSet};
use twice::{clones, continued_twice, told_differently};

/// A life, as a server of the fleet knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its random number.
    pub number: u64,
    /// The random number of its server.
    pub server: u64,
    /// PostgreSQL's system identifier of its server.
    pub system_identifier: u64,
    /// Whether its server is the one that tells of it. Others have copies of earlier times.
    pub is_own: bool,
    /// Its place among the lives that this data directory has had, from 1.
    pub nth: u64,
    /// PostgreSQL's timeline.
    pub timeline: u64,
    /// Its worker.
    pub worker: Worker,
    /// Its flat layout.
    pub layout: Layout,
    /// Why it began where it did.
    pub reason: String,
    /// No timestamp is below this.
    pub begins: UnixMs,
    /// Timestamps right up to here were issued.
    pub issued: UnixMs,
    /// No timestamp is at or above this.
    pub reserved: UnixMs,
    /// How it ended.
    pub state: State,
    /// What its clock showed then; 0 if it has not ended, or by a crash.
    pub ended: UnixMs,
    /// The highest mark of its worker that its server found at its start; 0 if none.
    pub found: UnixMs,
    /// The highest mark that it wrote to WAL; 0 if none.
    pub logged: UnixMs,
    /// The number of the life whose record its server found; 0 if none.
    pub follows: u64,
}

impl Life {
    /// A life in the file of a server. `is_own` if it is that server's, and `word` is its [state](LifeSpan::state).
    pub fn new(life: &LifeSpan, is_own: bool, word: &str) -> Self {
        Self {
            number: life.number,
            server: life.server,
            system_identifier: life.system_identifier,
            is_own,
            nth: life.nth,
            timeline: life.timeline,
            worker: life.worker,
            layout: life.layout,
            reason: life.reason().to_owned(),
            begins: life.first,
            issued: life.issued,
            reserved: life.mark,
            state: State::of(word),
            ended: life.ended_at,
            found: life.found,
            logged: life.logged,
            follows: life.follows,
        }
    }

    /// Whether its server took the worker of another one over: most likely that of its primary.
    pub fn is_promoted(&self) -> bool {
        self.reason == "promotion or recovery"
    }
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not.
    Running,
    /// All that it has issued is below its mark.
    Ended,
    /// The same, and nobody knows when: its server was killed, or the machine.
    Crashed,
    /// It may have issued more than its server knows.
    Unknown,
}

impl State {
    /// What a word of `snowflake_lives_for_servers(known_version)` says.
    pub fn of(word: &str) -> Self {
        match word {
            "running" => Self::Running,
            "stopped" | "given away" => Self::Ended,
            "crashed" => Self::Crashed,
            _ => Self::Unknown,
        }
    }
}

/// A worker that a registry has leased to a server last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The worker.
    pub worker: Worker,
    /// PostgreSQL's system identifier of the server.
    pub system_identifier: u64,
    /// What the server calls itself.
    pub server: String,
    /// Timestamps of its IDs are below this.
    pub until: UnixMs,
    /// The server has issued IDs right up to here, as it last reported; 0 if none.
    pub issued: UnixMs,
}

/// How long after a server was asked, a registry was asked at the latest, which the server may have told more
/// meanwhile.
const ASKED_MS: UnixMs = 60_000;

impl Grant {
    /// Whether this life is one of the server that has the lease. A clone has the same system identifier.
    fn is_told_by(&self, life: &Life) -> bool {
        let may_be_later = if life.is_own && life.state == State::Running { ASKED_MS } else { 0 };
        (life.worker, life.system_identifier) == (self.worker, self.system_identifier)
            && life.reserved.saturating_add(may_be_later) >= self.issued
    }
}

/// What a server of the fleet has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The lives that it knows.
    pub lives: Vec<Life>,
    /// The leases, if it has a registry.
    pub grants: Vec<Grant>,
    /// A server before it in the list that runs the same life, and whether that is certainly another one.
    pub clone_of: Option<(usize, bool)>,
}

impl Known {
    /// The life that the server runs, and the number of the server.
    pub fn running(&self) -> Option<(u64, u64)> {
        self.running_life().map(|life| (life.server, life.number))
    }

    fn running_life(&self) -> Option<&Life> {
        self.lives.iter().find(|life| life.is_own && life.state == State::Running)
    }

    /// Whether this is the first life that it keeps, and not the first one.
    fn is_cut_before(&self, life: &Life) -> bool {
        life.nth > 1 && self.lives.iter().all(|other| other.nth >= life.nth)
    }
}

/// What a server of the fleet has told; an error is why it has not.
pub type Told = Result<Known, String>;

/// Something that the audit has found. Servers are named by their index in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields have the names of what they are in a life")]
pub enum Finding {
    /// So many lives of a worker are known, from one time to another, and no two of them overlap.
    Apart { worker: Worker, layout: Layout, lives: usize, begins: UnixMs, until: UnixMs },
    /// Two lives of a worker have issued IDs of this span of time, or can have done so.
    Overlap { one: Box<(usize, Life)>, other: Box<(usize, Life)>, begins: UnixMs, until: UnixMs, is_certain: bool },
    /// Two servers run one life: the machine was cloned, or put back to an earlier time and resumed. If that is not
    /// certain, they may be one that is listed twice.
    Cloned { one: Box<(usize, Life)>, other: Box<(usize, Life)>, begins: UnixMs, until: UnixMs, is_certain: bool },
    /// A server has not told.
    Silent { at: usize, why: String },
    /// A data directory has had so many more lives than it keeps, before this time.
    Forgotten { at: usize, lives: u64, before: UnixMs },
    /// So many lives of a data directory are missing, before this time.
    Missing { at: usize, lives: u64, before: UnixMs },
    /// This is the last that a copy knows of a server that was not asked.
    NotAsked { at: usize, life: Box<Life>, is_promoted: bool },
    /// The mark of a life was lost: it can have issued more.
    MarkLost { at: usize, life: Box<Life> },
    /// When this life began, its server found a mark which no known life has written: IDs up to there were issued by
    /// one that is not known.
    Predecessor { at: usize, life: Box<Life> },
    /// A copy knows this life, and its server keeps earlier ones, but not this: they were put back, or their end was
    /// lost.
    Removed { at: usize, life: Box<Life> },
    /// A registry has leased a worker to a server that has told of no life with it.
    Leased { at: usize, grant: Box<Grant> },
    /// Lives in another layout than most were not compared with the rest.
    OtherLayout { layout: Layout, lives: usize },
    /// There are more overlaps than are shown.
    More,
}

impl Finding {
    /// Whether this is something that could not be seen.
    pub fn is_unseen(&self) -> bool {
        !matches!(self, Self::Apart { .. } | Self::Overlap { .. } | Self::Cloned { .. } | Self::More)
    }

    /// Whether this is an overlap of this worker.
    fn is_of(&self, worker: Worker, layout: &Layout) -> bool {
        let (Self::Overlap { one, .. } | Self::Cloned { one, .. }) = self else { return false };
        (one.1.worker, one.1.layout) == (worker, *layout)
    }
}

/// The time from which all lives of a fleet are known; `None` if there is none.
pub fn seen_since(findings: &[Finding], first: UnixMs) -> Option<UnixMs> {
    let seen_from = |finding: &Finding| match finding {
        &Finding::Forgotten { before, .. } | &Finding::Missing { before, .. } => Some(before),
        _ => None,
    };
    // mutant: audit-since
    let unseen = findings.iter().filter(|finding| finding.is_unseen());
    unseen.map(seen_from).try_fold(first, |since, from| Some(since.max(from?)))
}

/// The most overlaps that are shown: if two servers had one worker for long, each start adds one.
const MOST_OVERLAPS: usize = 100;

/// What the lives of a fleet say. First the spans of all workers, then what overlaps, then what could not be seen.
pub fn audit(fleet: &[Told]) -> Vec<Finding> {
    let known = best_known(fleet);
    let numbers: BTreeSet<_> = known.iter().map(|(_, life)| life.number).collect();
    let mut workers: BTreeMap<(String, Worker), Vec<&(usize, Life)>> = BTreeMap::new();
    for life in &known {
        workers.entry((life.1.layout.to_string(), life.1.worker)).or_default().push(life);
    }
    let (mut apart, mut unseen) = (Vec::new(), Vec::new());
    let mut overlaps = clones(fleet);
    overlaps.extend(continued_twice(fleet, &known));
    overlaps.extend(told_differently(fleet));
    for lives in workers.values_mut() {
        lives.sort_by_key(|(_, life)| (life.begins, life.reserved));
        let found = overlaps_of(lives, MOST_OVERLAPS);
        let (first, until) = (lives[0].1.begins, lives.iter().map(|(_, life)| life.reserved).max().unwrap_or(0));
        let (worker, layout) = (lives[0].1.worker, lives[0].1.layout);
        if found.is_empty() && !overlaps.iter().any(|finding| finding.is_of(worker, &layout)) {
            apart.push(Finding::Apart { worker, layout, lives: lives.len(), begins: first, until });
        }
        overlaps.extend(found);
        let is_cut = |at: usize, life: &Life| fleet[at].as_ref().is_ok_and(|known| known.is_cut_before(life));
        let unseen_of = |(at, life): &&(usize, Life)| unseen_of(*at, life, lives, &numbers, is_cut(*at, life));
        unseen.extend(lives.iter().filter_map(unseen_of));
    }
    if overlaps.len() > MOST_OVERLAPS {
        overlaps.truncate(MOST_OVERLAPS);
        overlaps.push(Finding::More);
    }
    let mut after_gaps = BTreeSet::new();
    for (at, told) in fleet.iter().enumerate() {
        match told {
            Err(why) => unseen.push(Finding::Silent { at, why: why.clone() }),
            Ok(server) => unseen.extend(unseen_by(at, server, &known, &mut after_gaps)),
        }
    }
    unseen.extend(removed(fleet, &known));
    unseen.extend(not_asked(fleet));
    unseen.extend(other_layouts(&known));
    apart.into_iter().chain(overlaps).chain(unseen).collect()
}

/// Each life once, as the one that knows most of it tells: its own server, or else the latest copy.
fn best_known(fleet: &[Told]) -> Vec<(usize, Life)> {
    let mut best: BTreeMap<(u64, u64), (usize, &Life)> = BTreeMap::new();
    for (at, life) in all_told(fleet) {
        let entry = best.entry((life.server, life.number)).or_insert((at, life));
        if (life.is_own, life.reserved) > (entry.1.is_own, entry.1.reserved) {
            *entry = (at, life);
        }
    }
    best.into_values().map(|(at, life)| (at, life.clone())).collect()
}

fn all_told(fleet: &[Told]) -> impl Iterator<Item = (usize, &Life)> {
    let known = fleet.iter().enumerate().filter_map(|(at, told)| Some((at, told.as_ref().ok()?)));
    known.flat_map(|(at, known)| known.lives.iter().map(move |life| (at, life)))
}

/// Pairs of lives of a worker that can have issued the same timestamps; one more than these if there are more.
fn overlaps_of(lives: &[&(usize, Life)], most: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    for (position, one) in lives.iter().enumerate() {
        for other in lives[position + 1..].iter().take_while(|other| other.1.begins < one.1.reserved) {
            // mutant: audit-reserved
            let (begins, until) = (other.1.begins, one.1.reserved.min(other.1.reserved));
            if begins >= until || found.len() > most {
                continue;
            }
            // What is there twice for certain is not all: a life that crashed has issued more than its server knows.
            let is_certain = begins < one.1.issued.min(other.1.issued);
            let [one, other] = [one, other].map(|life| Box::new((*life).clone()));
            found.push(Finding::Overlap { one, other, begins, until, is_certain });
        }
    }
    found
}

/// What is not known around a life. `is_cut` if its server has forgotten the life before it, and says so.
fn unseen_of(
    at: usize,
    life: &Life,
    lives: &[&(usize, Life)],
    numbers: &BTreeSet<u64>,
    is_cut: bool,
) -> Option<Finding> {
    let boxed = || Box::new(life.clone());
    let earlier = || lives.iter().map(|(_, other)| other).filter(|other| other.begins < life.begins);
    // It can have gone on since, or lost its end: then only its timeline tells whether the mark is its own.
    let is_near = |other: &Life| {
        other.system_identifier == life.system_identifier
            && [life.timeline, life.timeline.saturating_sub(1)].contains(&other.timeline)
    };
    let has_written = |other: &Life| {
        // mutant: audit-writer
        let is_writer = [other.reserved, other.logged].contains(&life.found) || is_near(other);
        other.begins < life.found && other.reserved.max(other.logged) >= life.found && is_writer
    };
    let is_after_known = match (life.follows, life.reason.as_str()) {
        // The record that it found is its own.
        // mutant: audit-removed
        (1.., "restart") => is_cut || numbers.contains(&life.follows),
        (follows, _) if follows > 0 && !numbers.contains(&follows) => false,
        (_, "lease") => earlier().next().is_some(),
        _ => life.found == 0 || earlier().any(has_written),
    };
    if life.state == State::Unknown && life.is_own {
        Some(Finding::MarkLost { at, life: boxed() })
    } else {
        // mutant: audit-predecessor
        (!is_after_known).then(|| Finding::Predecessor { at, life: boxed() })
    }
}

/// What a server does not know. The same gap is said once: it is also in copies, and in a server that is listed twice.
fn unseen_by(
    at: usize,
    server: &Known,
    known: &[(usize, Life)],
    after_gaps: &mut BTreeSet<(u64, u64)>,
) -> Vec<Finding> {
    let mut unseen = Vec::new();
    let missing = server.grants.iter().filter(|grant| !known.iter().any(|(_, life)| grant.is_told_by(life)));
    unseen.extend(missing.map(|grant| Finding::Leased { at, grant: Box::new(grant.clone()) }));
    let mut lives: Vec<_> = server.lives.iter().collect();
    lives.sort_by_key(|life| life.nth);
    let mut is_new = |life: &Life| after_gaps.insert((life.server, life.number));
    // mutant: audit-forgotten
    if let Some(first) = lives.first().filter(|first| first.nth > 1 && is_new(first)) {
        unseen.push(Finding::Forgotten { at, lives: first.nth - 1, before: first.begins });
    }
    unseen.extend(lives.windows(2).filter_map(|pair| {
        let lives = pair[1].nth.saturating_sub(pair[0].nth).saturating_sub(1);
        (lives > 0 && is_new(pair[1])).then_some(Finding::Missing { at, lives, before: pair[1].begins })
    }));
    unseen
}

/// Lives that only copies know, although their servers were asked and keep earlier ones.
fn removed(fleet: &[Told], known: &[(usize, Life)]) -> Vec<Finding> {
    let mut kept_from: BTreeMap<u64, u64> = BTreeMap::new();
    for (_, life) in all_told(fleet).filter(|(_, life)| life.is_own) {
        let first = kept_from.entry(life.server).or_insert(life.nth);
        *first = life.nth.min(*first);
    }
    let is_kept = |life: &Life| kept_from.get(&life.server).is_some_and(|&first| life.nth >= first);
    // mutant: audit-lives-removed
    let lost = known.iter().filter(|(_, life)| !life.is_own && is_kept(life));
    lost.map(|(at, life)| Finding::Removed { at: *at, life: Box::new(life.clone()) }).collect()
}

/// Servers whose copies were asked, and which were not asked themselves.
fn not_asked(fleet: &[Told]) -> Vec<Finding> {
    let asked: BTreeSet<_> = all_told(fleet).filter(|(_, life)| life.is_own).map(|(_, life)| life.server).collect();
    let mut last: BTreeMap<u64, (usize, &Life)> = BTreeMap::new();
    for (at, life) in all_told(fleet).filter(|(_, life)| !asked.contains(&life.server)) {
        let entry = last.entry(life.server).or_insert((at, life));
        if life.reserved > entry.1.reserved {
            *entry = (at, life);
        }
    }
    let finding = |(at, life): (usize, &Life)| {
        let is_promoted = all_told(fleet).any(|(by, own)| by == at && own.is_own && own.is_promoted());
        Finding::NotAsked { at, life: Box::new(life.clone()), is_promoted }
    };
    // mutant: audit-not-asked
    last.into_values().map(finding).collect()
}

fn other_layouts(known: &[(usize, Life)]) -> Vec<Finding> {
    let mut layouts: BTreeMap<String, (Layout, usize)> = BTreeMap::new();
    for (_, life) in known {
        layouts.entry(life.layout.to_string()).or_insert((life.layout, 0)).1 += 1;
    }
    let most = layouts.values().map(|(_, lives)| *lives).max();
    let mut others: Vec<_> = layouts.into_values().collect();
    if let Some(place) = others.iter().position(|(_, lives)| Some(*lives) == most) {
        others.remove(place);
    }
    others.into_iter().map(|(layout, lives)| Finding::OtherLayout { layout, lives }).collect()
}

#[cfg(test)]
mod tests;
