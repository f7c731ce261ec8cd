//! Waits for the clock.
//!
//! One process sleeps until the clock gets there, the one that has the *turn*. All others queue up behind it. When it has
//! got what it was waiting for, it wakes the first of them, which tries in its turn, and so on as long as there is
//! something to get. So nobody wakes for nothing, however many wait for the same tick, and who has come first is served
//! first, unless the process that has the turn was stopped: then another takes it over.
//!
//! There are two queues: who waits for the next tick must not stand behind one that waits for a second.

use crate::exit_hook::before_exit;
use crate::shared::shared;
use crate::shared::wait_queue::Turns;
use crate::sleep::{SHORT, sleep, wait_event};
use crate::trusted_clock;
use once_cell::sync::OnceCell;

use snowflake_core::layout::Layout;
use snowflake_core::{Tick, UnixMs};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Who waits for its turn takes it over after this time: the process that has it may have been stopped.
const AT_MOST_FOR_A_TURN: Duration = Duration::from_millis(100);

/// The turn of this process, until it is dropped.
struct Turn(&'static Turns);

impl Turn {
    /// Queues up for the turn, to wait so long. Who waits for the next tick does not queue up behind one that waits for a
    /// second.
    fn wait_for(time: Duration, at_most: Duration) -> Option<Self> {
        static AT_EXIT: OnceCell<()> = OnceCell::new();
        AT_EXIT.get_or_init(|| before_exit(leave));
        let turns = if time < SHORT { &shared().near_turns } else { &shared().far_turns };
        turns.wait_for(at_most, wait_event()).then_some(Self(turns))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

fn leave(_code: c_int) {
    shared().near_turns.leave();
    shared().far_turns.leave();
}

/// How long one call has waited for a clock that does not get there. Measured in time that really passes (a budget in
/// wall-clock time would stretch by the very step that is being waited out).
pub struct Patience {
    budget: Duration,
    /// Since when the clock has not got there.
    since: Option<Instant>,
    /// Since when the call has waited at all.
    waiting: Option<Instant>,
    /// Kept until the call has got what it wants, or has given up.
    turn: Option<Turn>,
    marks: Marks,
}

/// The durable marks that one call has seen, all of which had passed when it came to use them.
#[derive(Default)]
struct Marks {
    since: Option<Instant>,
    /// What the call needed when it looked last.
    needed: Tick,
    count: u32,
}

/// How many marks a call may see pass, the one that it finds among them: how long two writes took is known when the
/// third is reserved for.
const MARKS: u32 = 4;

impl Patience {
    /// For a call that may wait so long.
    pub fn new(budget: Duration) -> Self {
        Self { budget, since: None, waiting: None, turn: None, marks: Marks::default() }
    }

    /// Sleeps until the clock reaches `until`, but not for long: what to wait for may be another time by then, when the
    /// clock has been set. False when the budget is used up. A clock that gets there restores the budget: waiting for
    /// one tick after another is how a full generator works, not a clock that is behind. Can be cancelled like any
    /// query.
    pub fn wait_until(&mut self, until: UnixMs, layout: &Layout) -> bool {
        let until = Duration::from_millis(until);
        let remaining = || until.saturating_sub(trusted_clock::now(layout));
        self.waiting.get_or_insert_with(Instant::now);
        self.marks = Marks::default();
        if !remaining().is_zero() {
            let left = self.budget.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
            if left.is_zero() {
                return false;
            }
            self.turn.take_if(|turn| !turn.0.is_mine());
            if self.turn.is_none() {
                self.turn = Turn::wait_for(remaining(), left.min(AT_MOST_FOR_A_TURN));
            }
            let time = remaining();
            if self.turn.is_some() && !time.is_zero() {
                sleep(time.min(left));
            }
        }
        if remaining().is_zero() {
            self.since = None;
        }
        true
    }

    /// Whether a call that needs a tick which the mark, at `limit`, does not cover may have another one written: not if
    /// each of some, over so much time, covered what the call had needed, and had passed when it came to use it.
    pub fn bears(&mut self, tick: Tick, limit: Tick, time: Duration) -> bool {
        let marks = &mut self.marks;
        let since = *marks.since.get_or_insert_with(Instant::now);
        marks.count += u32::from(limit > marks.needed);
        marks.needed = tick;
        marks.count <= MARKS || since.elapsed() < time
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        if let Some(since) = self.waiting {
            shared().statistics.count_wait(since.elapsed());
        }
    }
}
