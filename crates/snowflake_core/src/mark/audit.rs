//! Compares the lives of a fleet: whether two of them can have issued the same IDs.

use crate::UnixMs;
use crate::id::layout::Layout;
use crate::mark::lives::LifeSpan;
use crate::server::identity::Worker;
use std::collections::{BTreeMap, BTreeSet};

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
    /// Its worker.
    pub worker: Worker,
    /// Its flat layout.
    pub layout: Layout,
    /// Why it began where it did.
    pub reason: String,
    /// No timestamp is below this.
    pub begins: UnixMs,
    /// Timestamps up to here are known to have been issued.
    pub issued: UnixMs,
    /// No timestamp is at or above this.
    pub reserved: UnixMs,
    /// How it ended.
    pub state: State,
    /// The highest mark of its worker that its server found at its start; 0 if none.
    pub found: UnixMs,
    /// The highest mark that it wrote to WAL; 0 if none.
    pub logged: UnixMs,
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
            worker: life.worker,
            layout: life.layout,
            reason: life.reason().to_owned(),
            begins: life.first,
            issued: life.issued,
            reserved: life.mark,
            state: State::of(word),
            found: life.found,
            logged: life.logged,
        }
    }
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs, or was stopped: what it has issued is known exactly.
    Exact,
    /// All that it has issued is below its mark.
    Bounded,
    /// It may have issued more than its server knows.
    Unknown,
}

impl State {
    /// What a word of `snowflake_lives()` says.
    pub fn of(word: &str) -> Self {
        match word {
            "running" | "stopped" => Self::Exact,
            "crashed" | "given away" | "jumped" => Self::Bounded,
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
}

/// What a server of the fleet has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The lives that it knows.
    pub lives: Vec<Life>,
    /// The leases, if it has a registry.
    pub grants: Vec<Grant>,
    /// Another server of the list that runs beside this one and has its number.
    pub clone_of: Option<usize>,
}

impl Known {
    /// The number of the server, if it has told of a life of its own.
    pub fn server(&self) -> Option<u64> {
        self.lives.iter().find(|life| life.is_own).map(|life| life.server)
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
    /// Two servers take themselves for the same one: the machine was cloned, or put back to an earlier time and resumed.
    Cloned { one: usize, other: usize },
    /// A server has not told.
    Silent { at: usize, why: String },
    /// A data directory has had more lives than it keeps: those before this time are not known.
    Forgotten { at: usize, before: UnixMs },
    /// A life was seen until then by a server that is a copy of its own, which was not asked.
    NotAsked { at: usize, life: Box<Life> },
    /// The mark of a life was lost: it can have issued more.
    MarkLost { at: usize, life: Box<Life> },
    /// When this life began, its server found a mark which no known life has written: IDs up to there were issued by one
    /// that is not known.
    Predecessor { at: usize, life: Box<Life> },
    /// A registry has leased a worker to a server that has told of no life with it.
    Leased { at: usize, grant: Box<Grant> },
    /// Lives in another layout than most were not compared with the rest.
    OtherLayout { layout: Layout, lives: usize },
}

/// What the lives of a fleet say. First the spans of all workers, then what overlaps, then what could not be seen.
pub fn audit(fleet: &[Told]) -> Vec<Finding> {
    let known = best_known(fleet);
    let mut workers: BTreeMap<(String, Worker), Vec<&(usize, Life)>> = BTreeMap::new();
    for life in &known {
        workers.entry((life.1.layout.to_string(), life.1.worker)).or_default().push(life);
    }
    let (mut apart, mut overlaps, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    for lives in workers.values_mut() {
        lives.sort_by_key(|(_, life)| (life.begins, life.reserved));
        let found = overlaps_of(lives);
        let (first, until) = (lives[0].1.begins, lives.iter().map(|(_, life)| end(life)).max().unwrap_or(0));
        if found.is_empty() {
            let (worker, layout) = (lives[0].1.worker, lives[0].1.layout);
            apart.push(Finding::Apart { worker, layout, lives: lives.len(), begins: first, until });
        }
        overlaps.extend(found);
        unseen.extend(lives.iter().filter_map(|(at, life)| unseen_of(*at, life, lives)));
    }
    for (at, told) in fleet.iter().enumerate() {
        match told {
            Err(why) => unseen.push(Finding::Silent { at, why: why.clone() }),
            Ok(Known { lives, grants, clone_of }) => {
                overlaps.extend(clone_of.map(|one| Finding::Cloned { one, other: at }));
                let is_seen = |grant: &Grant| {
                    known.iter().any(|(_, life)| {
                        (life.worker, life.system_identifier) == (grant.worker, grant.system_identifier)
                    })
                };
                let missing = grants.iter().filter(|grant| !is_seen(grant));
                unseen.extend(missing.map(|grant| Finding::Leased { at, grant: Box::new(grant.clone()) }));
                if let Some(first) = lives.iter().min_by_key(|life| life.nth).filter(|life| life.nth > 1) {
                    unseen.push(Finding::Forgotten { at, before: first.begins });
                }
            }
        }
    }
    let layouts: BTreeSet<_> = known.iter().map(|(_, life)| life.layout.to_string()).collect();
    if layouts.len() > 1 {
        let of = |layout: &String| known.iter().filter(|(_, life)| life.layout.to_string() == *layout).count();
        let most = layouts.iter().max_by_key(|layout| of(layout));
        for (layout, lives) in layouts.iter().filter(|layout| Some(*layout) != most).map(|layout| (layout, of(layout)))
        {
            if let Ok(layout) = layout.parse() {
                unseen.push(Finding::OtherLayout { layout, lives });
            }
        }
    }
    apart.into_iter().chain(overlaps).chain(unseen).collect()
}

/// Each life once, as the one that knows most of it tells: its own server, or else the latest copy.
fn best_known(fleet: &[Told]) -> Vec<(usize, Life)> {
    let mut best: BTreeMap<(u64, u64, u64), (usize, &Life)> = BTreeMap::new();
    for (at, known) in fleet.iter().enumerate().filter_map(|(at, told)| Some((at, told.as_ref().ok()?))) {
        for life in &known.lives {
            let entry = best.entry((life.server, life.number, life.nth)).or_insert((at, life));
            if (life.is_own, life.reserved) > (entry.1.is_own, entry.1.reserved) {
                *entry = (at, life);
            }
        }
    }
    best.into_values().map(|(at, life)| (at, life.clone())).collect()
}

/// Where a life ends, as far as is known.
fn end(life: &Life) -> UnixMs {
    if life.state == State::Exact { life.issued } else { life.reserved }
}

/// Each pair of lives of a worker that can have issued the same timestamps.
fn overlaps_of(lives: &[&(usize, Life)]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (position, one) in lives.iter().enumerate() {
        for other in lives[position + 1..].iter().take_while(|other| other.1.begins < end(&one.1)) {
            let (begins, until) = (other.1.begins, end(&one.1).min(end(&other.1)));
            if begins < until && one.1.number != other.1.number {
                let certain = one.1.issued.min(other.1.issued);
                let is_certain = begins < certain;
                let until = if is_certain { certain } else { until };
                let [one, other] = [one, other].map(|life| Box::new((*life).clone()));
                found.push(Finding::Overlap { one, other, begins, until, is_certain });
            }
        }
    }
    found
}

/// What is not known around a life.
fn unseen_of(at: usize, life: &Life, lives: &[&(usize, Life)]) -> Option<Finding> {
    let boxed = Box::new(life.clone());
    let writes = |other: &Life| other.reserved.max(other.logged);
    let follows_itself = ["restart", "jump"].contains(&life.reason.as_str());
    let is_explained = lives.iter().any(|(_, other)| other.number != life.number && writes(other) >= life.found);
    if life.state == State::Unknown && !life.is_own {
        Some(Finding::NotAsked { at, life: boxed })
    } else if life.state == State::Unknown {
        Some(Finding::MarkLost { at, life: boxed })
    } else if !follows_itself && life.found > 0 && !is_explained {
        Some(Finding::Predecessor { at, life: boxed })
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(server: char, number: u64, begins: UnixMs, until: UnixMs) -> Life {
        Life {
            number,
            server: server.into(),
            system_identifier: 9,
            is_own: true,
            nth: 1,
            worker: 5,
            layout: "flat".parse().expect("a preset"),
            reason: "restart".to_owned(),
            begins,
            issued: until,
            reserved: until,
            state: State::Exact,
            found: 0,
            logged: 0,
        }
    }

    fn told(lives: Vec<Life>) -> Told {
        Ok(Known { lives, ..Known::default() })
    }

    fn kinds(fleet: &[Told]) -> Vec<String> {
        audit(fleet)
            .iter()
            .map(|finding| format!("{finding:?}").split([' ', '{']).next().unwrap_or("").to_owned())
            .collect()
    }

    #[test]
    fn lives_one_after_another_do_not_overlap() {
        let fleet = [told(vec![life('a', 1, 10, 20), life('a', 2, 20, 30)]), told(vec![life('b', 3, 30, 40)])];
        let [Finding::Apart { worker: 5, lives: 3, begins: 10, until: 40, .. }] = audit(&fleet)[..] else {
            panic!("{:?}", audit(&fleet));
        };
    }

    #[test]
    fn lives_of_different_workers_may_have_the_same_times() {
        let other = Life { worker: 6, ..life('b', 2, 10, 20) };
        assert_eq!(kinds(&[told(vec![life('a', 1, 10, 20)]), told(vec![other])]), ["Apart", "Apart"]);
    }

    #[test]
    fn two_lives_that_have_issued_ids_of_the_same_times_overlap() {
        let fleet = [told(vec![life('a', 1, 10, 20)]), told(vec![life('b', 2, 15, 30)])];
        let [Finding::Overlap { begins: 15, until: 20, is_certain: true, .. }] = audit(&fleet)[..] else {
            panic!("{:?}", audit(&fleet));
        };
    }

    #[test]
    fn what_was_only_reserved_may_overlap() {
        let crashed = Life { issued: 15, state: State::Bounded, ..life('a', 1, 10, 20) };
        let fleet = [told(vec![crashed]), told(vec![life('b', 2, 16, 30)])];
        let [Finding::Overlap { begins: 16, until: 20, is_certain: false, .. }] = audit(&fleet)[..] else {
            panic!("{:?}", audit(&fleet));
        };
    }

    #[test]
    fn a_copy_of_a_life_is_the_same_life_and_its_own_server_knows_best() {
        let copied = Life { is_own: false, state: State::Unknown, ..life('a', 1, 10, 12) };
        let fleet = [told(vec![copied.clone(), life('b', 2, 25, 30)]), told(vec![life('a', 1, 10, 20)])];
        assert_eq!(kinds(&fleet), ["Apart"]);
        assert_eq!(kinds(&fleet[..1]), ["Apart", "NotAsked"], "its server was not asked");
    }

    #[test]
    fn a_server_that_does_not_answer_is_never_a_silent_yes() {
        assert_eq!(kinds(&[told(vec![life('a', 1, 10, 20)]), Err("no route".to_owned())]), ["Apart", "Silent"]);
    }

    #[test]
    fn what_a_data_directory_has_forgotten_is_said() {
        let late = Life { nth: 7, ..life('a', 1, 10, 20) };
        assert_eq!(kinds(&[told(vec![late])]), ["Apart", "Forgotten"]);
    }

    #[test]
    fn a_mark_that_no_known_life_has_written_is_of_one_that_is_not_known() {
        let promoted = Life { reason: "promotion or recovery".to_owned(), found: 30, ..life('b', 2, 40, 50) };
        let primary = life('a', 1, 10, 20);
        assert_eq!(kinds(&[told(vec![primary.clone(), promoted.clone()])]), ["Apart", "Predecessor"]);
        let logged = Life { logged: 30, ..primary };
        assert_eq!(kinds(&[told(vec![logged, promoted])]), ["Apart"], "its last mark was lowered at a planned stop");
    }

    #[test]
    fn a_life_whose_mark_was_lost_may_have_issued_more() {
        let lost = Life { state: State::Unknown, ..life('a', 1, 10, 20) };
        assert_eq!(kinds(&[told(vec![lost])]), ["Apart", "MarkLost"]);
    }

    #[test]
    fn lives_of_another_layout_are_not_compared() {
        let other = Life { layout: "discord".parse::<Layout>().expect("a preset").flat(), ..life('b', 2, 10, 20) };
        let fleet = [told(vec![life('a', 1, 10, 20), life('a', 3, 20, 30)]), told(vec![other])];
        assert_eq!(kinds(&fleet), ["Apart", "Apart", "OtherLayout"]);
    }

    #[test]
    fn a_lease_of_which_no_life_was_told_is_said() {
        let grant = Grant { worker: 5, system_identifier: 9, server: "pg-5".to_owned(), until: 40 };
        let registry = |grant| Ok(Known { grants: vec![grant], ..Known::default() });
        let server = told(vec![life('a', 1, 10, 20)]);
        assert_eq!(kinds(&[server.clone(), registry(grant.clone())]), ["Apart"]);
        for grant in [Grant { worker: 6, ..grant.clone() }, Grant { system_identifier: 8, ..grant }] {
            assert_eq!(kinds(&[server.clone(), registry(grant)]), ["Apart", "Leased"]);
        }
    }

    #[test]
    fn a_server_that_runs_twice_is_no_silent_yes() {
        let server = Known { lives: vec![life('a', 1, 10, 20)], ..Known::default() };
        let clone = Known { clone_of: Some(0), ..server.clone() };
        assert_eq!(kinds(&[Ok(server), Ok(clone)]), ["Apart", "Cloned"]);
    }
}
