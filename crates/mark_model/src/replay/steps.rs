//! Steps of the model that a server can have taken when it records an event.

use crate::found::Found;
use crate::state::{Budget, InPage, Life, Memory, Record, Running, Start, State, WalMark, Write};
use crate::step::Step;
use crate::world::World;
use snowflake_core::mark::start_table::StartPoint;
use snowflake_core::mark::trace::{Event, decision};
use snowflake_core::server::lease::LeaseStart;

/// In place of the number of a life whose record was written, and is not in the trace.
pub(super) const UNTRACED: u64 = u64::MAX;

/// What a start has recorded before it goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traced {
    pub begins: Event,
    pub record: Event,
    pub life: Event,
    pub in_wal: Event,
    pub decided: Event,
}

/// How steps are taken.
pub struct Steps {
    /// With these rules.
    pub world: World,
    /// Whether files can be other ones than those that the server has written.
    pub is_touched: bool,
}

impl Steps {
    fn step(&self, state: &State, step: Step) -> State {
        step_in(state, step, &self.world)
    }

    fn write(&self, state: &State) -> State {
        self.step(state, Step::Write { server: 0 })
    }

    /// The process ends, before or after what it was writing is there.
    pub fn ends(&self, state: &State) -> Vec<State> {
        self.before_or_after_write(state, Step::Crash { server: 0 })
    }

    /// What was being written is given up, before or after it is there.
    pub fn gives_up(&self, state: &State) -> Vec<State> {
        if pending(state).is_none() {
            vec![*state]
        } else {
            self.before_or_after_write(state, Step::Fail { server: 0 })
        }
    }

    fn before_or_after_write(&self, state: &State, step: Step) -> Vec<State> {
        let written = self.half_written(state);
        [Some(*state), written].into_iter().flatten().map(|state| self.step(&state, step)).collect()
    }

    /// What was being written is there, and is not in the trace. Memory does not know of a mark in WAL, either.
    fn half_written(&self, state: &State) -> Option<State> {
        let mut state = *state;
        match pending(&state)? {
            Write::Standby | Write::Publish => return None,
            Write::Record if matches!(state.servers[0].memory, Memory::Starting(_)) => state.lives = UNTRACED - 1,
            Write::Record | Write::Wal | Write::Life(_) | Write::Disown => {}
        }
        let mut written = self.write(&state);
        if let (Memory::Running(before), Memory::Running(after)) =
            (state.servers[0].memory, &mut written.servers[0].memory)
        {
            after.in_wal = before.in_wal;
        }
        Some(written)
    }

    /// A start that decides what the server has decided, and goes on as this event says.
    pub(super) fn begun(&self, state: &State, start: &Traced, goes_on: Option<Event>) -> Option<State> {
        let Event::Begins { now, layout, .. } = start.begins else { return None };
        let Event::Decided { decision: decided, floor, margin_ms, lease, lease_begins, .. } = start.decided else {
            return None;
        };
        let lease = match lease {
            0 => None,
            1 => Some(LeaseStart::Continued(lease_begins)),
            2 => Some(LeaseStart::First(lease_begins)),
            _ => Some(LeaseStart::At(lease_begins)),
        };
        let wait = match goes_on {
            Some(Event::Waits { until }) => margin_ms.checked_sub(floor.checked_sub(until)?)?,
            _ => 0,
        };
        let Event::FoundInWal { others, .. } = start.in_wal else { return None };
        let world = World { borrow: margin_ms, wait, lease, others: Some(others), ..self.world };
        let outcome = Found::new(state, 0, now, &world).decide();
        let is_same = decision(&outcome.map(|StartPoint { reason, .. }| reason)) == decided
            && outcome.map_or(0, |point| point.floor) == floor;
        if !is_same || !matches!(state.servers[0].memory, Memory::Down | Memory::Waiting(_)) {
            return None;
        }
        let Some(Event::Starts { first, mark, limit, wal_mark }) = goes_on else {
            return Some(step_in(state, Step::Begin { server: 0, now, mark: None }, &world));
        };
        let mut state = *state;
        state.servers[0].wal_mark = setting(wal_mark);
        state = step_in(&state, Step::Begin { server: 0, now, mark: Some(mark) }, &world);
        let Memory::Starting(start) = &mut state.servers[0].memory else { return None };
        // The first timestamp is the beginning of a tick, whose length is in the number of the layout: of the one in
        // which the clock is, or of the first one above the mark.
        let length = layout >> 32;
        let lowest = if start.first > now { start.first } else { (now + 1).saturating_sub(length) };
        let ticks = lowest..start.first + length;
        start.first = first;
        (ticks.contains(&first) && (first + 1..=limit).contains(&mark)).then_some(state)
    }

    /// The mark is in WAL, and standbys have it, or need not.
    pub fn logged(&self, state: &State, worker: usize, counts: u64) -> Option<State> {
        let state = (pending(state) == Some(Write::Wal)).then(|| self.write(state))?;
        (state.servers[0].page.workers[worker] == InPage::Mark(counts)).then(|| self.write(&state))
    }

    pub fn disowned(&self, state: &State, worker: usize) -> Option<State> {
        if pending(state) == Some(Write::Disown) {
            return Some(self.write(state));
        }
        // A server that was refused remembers that.
        let mut state = *state;
        let at = &mut state.servers[0];
        at.page.workers[worker] = InPage::Unknown;
        at.page.layout = Some(at.layout);
        at.page.is_complete = false;
        (at.memory == Memory::Down).then_some(state)
    }

    /// A record is there: of a start, of an extension, or of a planned stop.
    pub fn recorded(&self, state: &State, event: Event) -> Option<State> {
        let Event::Recorded { revision, life, previous_life, mark, logged, .. } = event else { return None };
        let mut state = *state;
        if pending(&state) == Some(Write::Wal) {
            state = self.step(&state, Step::SkipWal { server: 0 });
        }
        let least = match state.servers[0].memory {
            Memory::Starting(Start { write: Write::Record, first, .. }) => Some(first + 1),
            Memory::Running(Running { extension: Some((_, Write::Record)), next, .. }) => Some(next + 1),
            Memory::Down => None,
            _ => return None,
        };
        if let Some(least) = least {
            state.lives = life.checked_sub(1)?;
            state = self.step(&state, Step::Lower { server: 0, mark: mark.max(least) });
            state = self.write(&state);
        }
        let record = state.directories[0].record?;
        let has = (record.revision, record.life, record.previous_life, record.mark, record.logged);
        (has == (revision, life, previous_life, mark, logged)).then_some(state)
    }

    /// A life is there: of a start, or one that a DBA has begun.
    pub fn born(&self, state: &State, event: Event, by_hand: Option<Life>) -> Option<State> {
        let Event::Born { number, revision, wal_mark, .. } = event else { return None };
        let mut state = match pending(state) {
            Some(Write::Life(_)) => self.write(state),
            _ => *state,
        };
        if by_hand.is_some() {
            state.servers[0].life = by_hand;
        }
        let life = state.servers[0].life?;
        ((life.number, life.revision, life.wal_mark) == (number, revision, wal_mark)).then_some(state)
    }

    /// Everything below this mark may be issued.
    pub fn used(&self, state: &State, mark: u64) -> Option<State> {
        let before = match state.servers[0].memory {
            Memory::Running(Running { covered, .. }) => covered,
            _ => 0,
        };
        let state = (pending(state) == Some(Write::Publish)).then(|| self.write(state))?;
        let Memory::Running(running) = state.servers[0].memory else { return None };
        (running.covered == mark.max(before) && !state.broken.i2).then_some(state)
    }

    /// A running server wants another mark.
    pub fn extends(&self, state: &State, event: Event) -> Vec<State> {
        let Event::Extends { issued, mark, limit, wal_mark, .. } = event else { return Vec::new() };
        if !(issued..=limit).contains(&mark) {
            return Vec::new();
        }
        let extended = |state: State| {
            let mut state = self.issues(&state, issued)?;
            state.servers[0].wal_mark = setting(wal_mark);
            let extended = self.step(&state, Step::Extend { server: 0, mark: Some(mark) });
            pending(&extended).is_some().then_some(extended)
        };
        self.gives_up(state).into_iter().filter_map(extended).collect()
    }

    /// A planned stop, which lowers the mark or fails to. A start can have ended when its generator is there, before an
    /// ID was issued.
    pub fn stops(&self, state: &State, issued: u64) -> Vec<State> {
        let is_begun = |start: Start| start.write == Write::Publish && start.first == issued;
        let begun = matches!(state.servers[0].memory, Memory::Starting(start) if is_begun(start));
        let begun = begun.then(|| self.write(state));
        let issued = self.gives_up(state).into_iter().chain(begun).filter_map(|state| self.issues(&state, issued));
        let ends = |state| [Step::Stop { server: 0 }, Step::Crash { server: 0 }].map(|end| self.step(&state, end));
        issued.flat_map(ends).collect()
    }

    /// Everything below this was issued.
    fn issues(&self, state: &State, issued: u64) -> Option<State> {
        let Memory::Running(running) = state.servers[0].memory else { return None };
        if issued <= running.next {
            return Some(*state);
        }
        if issued > running.covered {
            return None;
        }
        let mut state = self.step(state, Step::Issue { server: 0, end: Some(issued) });
        // Somebody can have removed what showed later ones.
        state.broken.uniqueness &= !self.is_touched;
        (!state.broken.uniqueness && !state.broken.i1).then_some(state)
    }
}

fn step_in(state: &State, step: Step, world: &World) -> State {
    let mut state = *state;
    // As often as it takes.
    state.budget = Budget {
        ends: 9,
        failures: 9,
        backups: 9,
        promotions: 9,
        rewinds: 9,
        changes: 9,
        images: 9,
        advances: 9,
        turns: 9,
    };
    state.happen(step, world);
    state
}

pub fn is_running(state: &State) -> bool {
    matches!(state.servers[0].memory, Memory::Running(_))
}

/// What is written next.
fn pending(state: &State) -> Option<Write> {
    match state.servers[0].memory {
        Memory::Starting(start) => Some(start.write),
        Memory::Running(running) => running.extension.map(|(_, write)| write),
        Memory::Down | Memory::Waiting(_) => None,
    }
}

/// The setting at this place in the core's enum.
fn setting(place: u64) -> WalMark {
    use snowflake_core::mark::WalMark as Setting;
    let settings = [(Setting::Off, WalMark::Off), (Setting::Prefer, WalMark::Prefer)];
    settings.into_iter().find(|&(of_core, _)| of_core as u64 == place).map_or(WalMark::Require, |(_, setting)| setting)
}

/// Another record than the model's is there.
pub fn by_hand(state: &State, record: Option<Record>) -> State {
    let mut state = *state;
    state.directories[0].record = record;
    if let Memory::Running(running) = &mut state.servers[0].memory
        && let (Some((mark, write)), Some(record)) = (&mut running.extension, record)
    {
        (*mark, *write) = (record.mark.min(*mark), Write::Publish);
        running.revision = record.revision;
    }
    state
}

/// Nothing up to this is issued any more.
pub fn advanced(mut state: State, past: u64) -> State {
    if let Memory::Running(running) = &mut state.servers[0].memory {
        running.next = running.next.max(past + 1);
    }
    state
}

/// Each state once.
pub fn without_doubles(states: Vec<State>) -> Vec<State> {
    let mut different: Vec<State> = Vec::new();
    for mut state in states {
        state.budget = Budget::default();
        if !different.contains(&state) {
            different.push(state);
        }
    }
    different
}
