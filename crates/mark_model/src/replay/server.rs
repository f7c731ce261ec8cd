//! One server: the states in which it can be after each of its events.

use super::Touch;
use super::grants::Grants;
use super::numbers::{Numbers, Outside, Written};
use super::steps::{Steps, Traced, advanced, by_hand, is_running, without_doubles};
use crate::state::{Budget, Directory, Life, Record, SERVERS, Server, State};
use crate::world::World;
use snowflake_core::mark::trace::Event;
use std::collections::BTreeMap;

/// The row of the start table that refuses since the machine was cloned.
const OTHER_GENERATION: u64 = 109;

/// How many states are followed at a time.
const MOST: usize = 64;

/// Follows a server.
pub struct Replay<'a> {
    pub(super) written: &'a Written,
    pub(super) steps: Steps,
    /// Whether WAL can have a mark that no server has written.
    pub(super) is_planted: bool,
    pub(super) numbers: Numbers,
    /// Where the server can be.
    states: Vec<State>,
    /// What a start has recorded up to now.
    start: Vec<Event>,
    pub(super) grants: Grants,
    /// Whether a DBA decides what is written next.
    by_hand: bool,
    /// What was not as the server had left it, and how often.
    pub explained: BTreeMap<&'static str, u64>,
    /// How often each row of the start table was found.
    pub rows: BTreeMap<u64, u64>,
    /// The most states at a time.
    pub most: usize,
}

impl<'a> Replay<'a> {
    /// A server of this world, which has done nothing yet.
    pub fn new(written: &'a Written, touch: Touch, world: World) -> Self {
        let mut state = State {
            now: 0,
            servers: [Server::default(); SERVERS],
            directories: [Directory::default(); SERVERS + 1],
            issued: Default::default(),
            lives: 0,
            timelines: 1,
            budget: Budget::default(),
            broken: Default::default(),
        };
        state.servers[0].timeline = 1;
        Self {
            written,
            steps: Steps { world, is_touched: touch >= Touch::Files },
            is_planted: touch == Touch::Anything,
            numbers: Numbers::default(),
            states: vec![state],
            start: Vec::new(),
            grants: Grants::default(),
            by_hand: false,
            explained: BTreeMap::new(),
            rows: BTreeMap::new(),
            most: 1,
        }
    }

    /// Follows the server through an event. False if it can't have happened.
    pub fn follow(&mut self, event: Event) -> Result<bool, Outside> {
        if !self.grants.follow(event) {
            return Ok(false);
        }
        let states = std::mem::take(&mut self.states);
        self.states = without_doubles(self.after(states, event)?);
        self.most = self.most.max(self.states.len());
        // With all rules there are few. Without one, what is not recorded can be anything.
        if self.states.len() > MOST {
            return Err(Outside("servers could be in too many states"));
        }
        Ok(!self.states.is_empty())
    }

    fn after(&mut self, states: Vec<State>, event: Event) -> Result<Vec<State>, Outside> {
        Ok(match event {
            Event::Boot { .. } => {
                self.start.clear();
                self.each(&states, |steps, state| steps.ends(state))
            }
            Event::Begins { .. } => {
                self.start = vec![event];
                states
            }
            Event::FoundRecord { .. } | Event::FoundLife { .. } | Event::FoundInWal { .. } => {
                self.start.push(event);
                states
            }
            Event::Decided { decision, .. } => {
                *self.rows.entry(decision).or_default() += 1;
                self.start.push(event);
                let is_refused = decision > 100;
                // The model has one machine, which nobody clones. A refusal leaves all as it is.
                if decision == OTHER_GENERATION {
                    self.start.clear();
                    return Ok(self.each(&states, |steps, state| steps.gives_up(state)));
                }
                // A process that found this before another one started records it late.
                let is_late = states.iter().all(is_running);
                if is_refused && !is_late { self.begin(&states, None)? } else { states }
            }
            Event::Waits { .. } | Event::Starts { .. } => self.begin(&states, Some(event))?,
            Event::Logged { worker, counts, .. } => {
                let worker = usize::from(self.numbers.worker(worker)?);
                self.each(&states, |steps, state| steps.logged(state, worker, counts))
            }
            Event::Disowned { worker } => {
                let worker = usize::from(self.numbers.worker(worker)?);
                self.each(&states, |steps, state| steps.disowned(state, worker))
            }
            Event::Recorded { life, revision, .. } => {
                let recorded = self.each(&states, |steps, state| steps.recorded(state, event));
                if recorded.is_empty() && (self.by_hand || self.steps.is_touched) {
                    let known = self.record(life, revision)?;
                    self.explain("records were written by hand, or after they were lost");
                    states.iter().map(|state| by_hand(state, known)).collect()
                } else {
                    recorded
                }
            }
            Event::Born { number, .. } => {
                let known = if self.by_hand { self.life(number) } else { None };
                self.each(&states, |steps, state| steps.born(state, event, known))
            }
            Event::Used { mark } => {
                self.by_hand = false;
                self.each(&states, |steps, state| steps.used(state, mark))
            }
            Event::Extends { .. } => self.each(&states, |steps, state| steps.extends(state, event)),
            Event::Failed {} => self.each(&states, |steps, state| steps.gives_up(state)),
            Event::Stops { issued } => self.each(&states, |steps, state| steps.stops(state, issued)),
            Event::Accepts { .. } | Event::Resets { .. } | Event::Cloned { .. } => {
                self.by_hand = true;
                states
            }
            Event::Advances { past } => states.into_iter().map(|state| advanced(state, past)).collect(),
            // Grants have nothing to do with what is written.
            Event::Granted { .. } | Event::GrantEnds { .. } => states,
        })
    }

    fn each<I: IntoIterator<Item = State>>(&self, states: &[State], next: impl Fn(&Steps, &State) -> I) -> Vec<State> {
        states.iter().flat_map(|state| next(&self.steps, state)).collect()
    }

    pub(super) fn explain(&mut self, what: &'static str) {
        *self.explained.entry(what).or_default() += 1;
    }

    /// A record that somebody has written.
    pub(super) fn record(&mut self, life: u64, revision: u64) -> Result<Option<Record>, Outside> {
        let Some(written) = self.written.records.get(&(life, revision)).copied() else { return Ok(None) };
        let (worker, layout) = (self.numbers.worker(written.worker)?, self.numbers.layout(written.layout)?);
        let cluster = self.numbers.cluster(written.system_identifier)?;
        Ok(Some(Record { worker, layout, cluster, ..written.record }))
    }

    /// A life that somebody has written.
    pub(super) fn life(&self, number: u64) -> Option<Life> {
        self.written.lives.get(&number).copied()
    }

    /// Whether the registry has granted what a start begins with.
    fn is_granted(&mut self, start: &Traced, goes_on: Option<Event>) -> bool {
        let (Some(Event::Starts { first, limit, .. }), Event::Begins { worker, .. }) = (goes_on, start.begins) else {
            return true;
        };
        let Event::Decided { lease, lease_begins, .. } = start.decided else { return true };
        self.grants.start(worker, (lease > 0).then_some(lease_begins), first, limit)
    }

    /// A start that goes on as this event says, or waits, or is refused.
    fn begin(&mut self, states: &[State], goes_on: Option<Event>) -> Result<Vec<State>, Outside> {
        let start: Result<[Event; 5], _> = std::mem::take(&mut self.start).try_into();
        let Ok([begins, record, life, in_wal, decided]) = start else { return Ok(Vec::new()) };
        let start = Traced { begins, record, life, in_wal, decided };
        if !self.is_granted(&start, goes_on) {
            return Ok(Vec::new());
        }
        let found = self.each(states, |steps, state| steps.gives_up(state));
        for adopts in [false, true] {
            if adopts && !self.steps.is_touched {
                break;
            }
            let seen = self.with_found(&found, &start, adopts)?;
            let begun = self.each(&seen, |steps, state| steps.begun(state, &start, goes_on));
            if !begun.is_empty() {
                return Ok(begun);
            }
        }
        Ok(Vec::new())
    }
}
