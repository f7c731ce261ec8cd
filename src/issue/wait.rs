//! Waits for the clock.
//!
//! One process, the *leader*, sleeps until the clock reaches the time. All others wait behind it. When the leader has
//! its ID, it wakes the first of them, which tries next. No process wakes in vain, however many wait for the same tick,
//! and the first to come is served first. If the leader was stopped, another process takes the lead over.
//!
//! There are two queues, so that a call for the next tick does not wait behind a call that waits for a second.

use crate::postgres::exit_hook::before_exit;
use crate::postgres::sleep::{SHORT, WaitEvent, sleep};
use crate::shared::shared;
use crate::shared::wait_queue::WaitQueue;
use crate::trusted_clock;
use once_cell::sync::OnceCell;
use snowflake_core::id::layout::Layout;
use snowflake_core::{Tick, UnixMs};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// After this time a process takes the lead over: the leader may have been stopped.
const MAX_WAIT_TO_LEAD: Duration = Duration::from_millis(100);

/// This process leads a queue until it is dropped.
struct Lead(&'static WaitQueue);

impl Lead {
    /// Waits to lead the queue of those who wait about so long.
    fn wait_for(time: Duration, at_most: Duration) -> Option<Self> {
        static AT_EXIT: OnceCell<()> = OnceCell::new();
        AT_EXIT.get_or_init(|| before_exit(leave));
        let queue = if time < SHORT { &shared().tick_queue } else { &shared().clock_queue };
        queue.wait_to_lead(at_most, WaitEvent::Clock.number()).then(|| Self(queue))
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.0.hand_off();
    }
}

fn leave(_code: c_int) {
    shared().tick_queue.leave();
    shared().clock_queue.leave();
}

/// How long one call may still wait for a clock that is behind. Measured in elapsed time: a budget in the clock's time
/// would grow by the step that is waited out.
pub struct WaitBudget {
    budget: Duration,
    /// Since when the clock has been behind.
    since: Option<Instant>,
    /// When the call first waited.
    waiting: Option<Instant>,
    /// Kept until the call has its ID or fails.
    lead: Option<Lead>,
    mark_attempts: MarkAttempts,
}

/// The durable marks written for one call. The clock overtook each of them before the call could use it.
#[derive(Default)]
struct MarkAttempts {
    since: Option<Instant>,
    /// The tick that the last mark was to cover.
    needed: Tick,
    count: u32,
}

/// How many marks may be written for a call, with the one that it finds. The third is already reserved by the time that
/// two writes took.
const MAX_MARK_ATTEMPTS: u32 = 4;

impl WaitBudget {
    /// The budget of a call that may wait so long.
    pub fn new(budget: Duration) -> Self {
        Self { budget, since: None, waiting: None, lead: None, mark_attempts: MarkAttempts::default() }
    }

    /// Sleeps until the clock reaches `until`, or for a short time: the clock may be set meanwhile. False when the
    /// budget is used up. A clock that reaches the time restores the budget, since a call for a large batch waits for
    /// one tick after another. Can be cancelled like any query.
    pub fn wait_until(&mut self, until: UnixMs, layout: &Layout) -> bool {
        let until = Duration::from_millis(until);
        let remaining = || until.saturating_sub(trusted_clock::now(layout));
        self.waiting.get_or_insert_with(Instant::now);
        self.mark_attempts = MarkAttempts::default();
        if !remaining().is_zero() {
            let left = self.budget.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
            if left.is_zero() {
                return false;
            }
            self.lead.take_if(|lead| !lead.0.leads());
            if self.lead.is_none() {
                self.lead = Lead::wait_for(remaining(), left.min(MAX_WAIT_TO_LEAD));
            }
            let time = remaining();
            if self.lead.is_some() && !time.is_zero() {
                sleep(time.min(left));
            }
        }
        if remaining().is_zero() {
            self.since = None;
        }
        true
    }

    /// Whether a call for this tick may have another mark written past `limit`. False once more than
    /// [`MAX_MARK_ATTEMPTS`] marks have been written for it over at least `time`, and the clock has overtaken each
    /// before the call could use it.
    pub fn may_retry_mark(&mut self, tick: Tick, limit: Tick, time: Duration) -> bool {
        let attempts = &mut self.mark_attempts;
        let since = *attempts.since.get_or_insert_with(Instant::now);
        attempts.count += u32::from(limit > attempts.needed);
        attempts.needed = tick;
        attempts.count <= MAX_MARK_ATTEMPTS || since.elapsed() < time
    }
}

impl Drop for WaitBudget {
    fn drop(&mut self) {
        if let Some(since) = self.waiting {
            shared().statistics.count_wait(since.elapsed());
        }
    }
}
