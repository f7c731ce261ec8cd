//! Gives IDs to a backend.
//!
//! [`join`] issues nearly all IDs, with one look at the time and one compare-and-swap, and without a call of
//! PostgreSQL. [`take`] does the rest: the first call of a tick, a full tick, a mark to extend, a clock that is behind.

use crate::config::{gucs, preload};
use crate::durable::{extend, lease, mark, request, start, trace};
use crate::errors::{ClockLimit, ConfigurationError, IssueError};
use crate::issue::wait::WaitBudget;
use crate::issue::writer;
use crate::postgres::{clock, tsc};
use crate::shared::machine;
use crate::shared::shared;
use crate::stops;
use crate::trusted_clock;
use crate::worker::{self, citus_group};
use once_cell::sync::OnceCell;
use snowflake_core::id::layout::{Layout, Series};
use snowflake_core::issue::generator::{Generator, Outcome, Snapshot, Span};
use snowflake_core::issue::policy::Policy;
use snowflake_core::mark::trace::Event;
use snowflake_core::mark::{Need, need};
use snowflake_core::{Position, Tick, UnixMs};
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// What a backend needs to issue IDs. It does not change while the server runs.
struct Issuer {
    layout: Layout,
    series: Series,
    generator: &'static Generator,
    /// See [`tsc::max_age`].
    max_age: u64,
}

/// The next ID of the open tick; `None` if there is none, and for the first ID of a transaction. Does not call
/// PostgreSQL, and cannot panic.
#[inline]
pub fn join() -> Option<i64> {
    if !writer::has_entered() {
        return None;
    }
    let issuer = ISSUER.get()?;
    issuer.join(1).map(|span| issuer.id_at(span.first))
}

/// The next ID, whatever it takes.
pub fn take() -> Result<i64, IssueError> {
    let issuer = issuer()?;
    issuer.next(1).map(|span| issuer.id_at(span.first))
}

/// The next ID that `place` accepts, with the tag that it chooses. `place` must accept one now and then.
pub fn take_placed(place: impl Fn(i64) -> Option<i64>) -> Result<i64, IssueError> {
    let issuer = issuer()?;
    // The position that is taken is the one that was looked at last.
    let placed = Cell::new(None);
    let looks = Cell::new(0_u32);
    let fits = |position| {
        // A tick can have 2^31 positions, and a position thousands of tags.
        looks.set(looks.get().wrapping_add(1));
        if looks.get().is_multiple_of(1024) {
            pgrx::check_for_interrupts!();
        }
        placed.set(place(issuer.id_at(position)));
        placed.get().is_some()
    };
    issuer.enter(|| {
        if let Some(position) = issuer.join_where(fits) {
            return Ok(Span { first: position, last: position });
        }
        let since = Instant::now();
        // Each tick counts as full, and a call may always wait for the next one.
        issuer.take(|snapshot, now, policy| match issuer.generator.take_where(snapshot, now, policy, fits) {
            Outcome::Wait(_) if since.elapsed() > issuer.max_wait() => Err(IssueError::NothingFits(since.elapsed())),
            outcome => Ok(outcome),
        })
    })?;
    Ok(placed.get().expect("it fits"))
}

/// An ID that has what all IDs of this server have, and is 0 otherwise.
pub fn id_of_server() -> Result<i64, IssueError> {
    issuer().map(|issuer| issuer.id_at(0))
}

/// The layout of the IDs.
pub fn layout() -> Result<Layout, IssueError> {
    issuer().map(|issuer| issuer.layout)
}

/// The next `count` IDs of one tick, which must have so many. Adjacent where the sequence is the lowest field.
pub fn next_block(count: u32) -> Result<RangeInclusive<i64>, IssueError> {
    let issuer = issuer()?;
    issuer
        .enter(|| issuer.take(|snapshot, now, policy| Ok(issuer.generator.take_block(snapshot, now, count, policy))))
        .map(|span| issuer.id_at(span.first)..=issuer.id_at(span.last))
}

/// The next `count` IDs (at least 1), in ascending order, and the last of them.
pub fn next_batch(count: u32) -> Result<(impl Iterator<Item = i64>, i64), IssueError> {
    let issuer = issuer()?;
    let mut spans = Vec::new();
    let mut missing = count;
    while missing > 0 {
        let span = issuer.next(missing)?;
        missing -= u32::try_from(span.last - span.first + 1).expect("a span is not longer than what was asked for");
        spans.push(span);
    }
    // With clock_regression = history, later spans can be lower.
    spans.sort_unstable_by_key(|span| span.first);
    let last = issuer.id_at(spans.last().expect("at least one ID").last);
    Ok((spans.into_iter().flat_map(|span| span.first..=span.last).map(|position| issuer.id_at(position)), last))
}

/// Starts the generator, as the first ID does, unless it runs. Returns the layout and the series of its IDs.
pub fn start() -> Result<(Layout, Series), IssueError> {
    let issuer = issuer()?;
    issuer.start()?;
    Ok((issuer.layout, issuer.series))
}

/// Moves an idle server to the tick of the clock, as an ID would: no more IDs get into earlier ticks. As far as the
/// mark can be extended, and without an error: a reader can do without.
pub fn move_to_clock() {
    let Ok(issuer) = issuer() else { return };
    let Ok((now, _)) = issuer.now() else { return };
    let (generator, limit) = (issuer.generator, issuer.generator.covered_until());
    let past = now.saturating_sub(1);
    if past < generator.last_tick() {
        return;
    }
    if past >= limit {
        if gucs::wal_mark().is_required() {
            shared().wanted.raise(limit);
            shared().wake_keeper();
        } else {
            // Who wants an ID is told what is wrong.
            let _ = extend::start_or_extend(&issuer.layout, || past, limit);
        }
    }
    // mutant: moves-within-mark
    generator.advance(past.min(generator.covered_until() - 1));
    if past >= limit {
        // The page with the new mark has the horizon from before.
        // mutant: keeper-told-of-move
        shared().wake_keeper();
    }
}

/// Puts all new IDs into later ticks than this one.
pub fn advance(past: Tick) -> Result<(), IssueError> {
    let issuer = issuer()?;
    let mut budget = WaitBudget::new(issuer.max_wait());
    while past >= issuer.generator.covered_until() {
        issuer.extend(past, &mut budget)?;
    }
    trace::record(&[Event::Advances { past: issuer.layout.time_of(past) }]);
    issuer.generator.advance(past);
    Ok(())
}

static ISSUER: OnceCell<Issuer> = OnceCell::new();

fn issuer() -> Result<&'static Issuer, IssueError> {
    ISSUER.get_or_try_init(|| {
        if !preload::is_done() {
            return Err(IssueError::NotPreloaded);
        }
        let (layout, series) = match worker::layout_and_series() {
            Err(IssueError::Configuration(ConfigurationError::NoGroup(_))) => {
                start::check_may_start()?;
                citus_group::wait();
                worker::layout_and_series()?
            }
            Err(IssueError::Lease(_)) => {
                start::check_may_start()?;
                lease::wait_for_grant(&worker::layout_in_force()?, 0)?;
                worker::layout_and_series()?
            }
            known => known?,
        };
        Ok(Issuer { layout, series, generator: &shared().generator, max_age: tsc::max_age() })
    })
}

impl Issuer {
    #[inline]
    fn id_at(&self, position: u64) -> i64 {
        // A layout that generates has at most 63 bits.
        self.series.id_at(position).cast_signed()
    }

    /// The tick that the clock shows, and the count at which it ends.
    fn now(&self) -> Result<(Tick, u64), IssueError> {
        // The counter first: what it has counted since only shortens the time.
        let count = tsc::now();
        let now = trusted_clock::now(&self.layout);
        let ms = UnixMs::try_from(now.as_millis()).unwrap_or(UnixMs::MAX);
        let tick = self.layout.tick_at(ms).map_err(|error| IssueError::Clock(ms, error))?;
        let end = Duration::from_millis(self.layout.time_of(tick) + self.layout.tick_ms());
        Ok((tick, count.wrapping_add(tsc::counts_in(end.saturating_sub(now)))))
    }

    /// Takes up to `want` positions of the tick that is open, if that is the present one. Nearly all IDs are taken
    /// here: no call into PostgreSQL, nothing that can fail.
    #[inline(always)]
    fn join(&self, want: u32) -> Option<Span> {
        if self.max_age > 0 {
            return self.generator.join_open(tsc::now(), self.max_age, want);
        }
        let now = self.layout.tick_at(clock::unix_ms()).ok()?;
        self.generator.join(now, want)
    }

    /// Takes the next position of the open tick that fits.
    fn join_where(&self, fits: impl Fn(Position) -> bool) -> Option<Position> {
        if self.max_age == 0 {
            return None;
        }
        self.generator.join_open_where(tsc::now(), self.max_age, fits)
    }

    /// Takes up to `want` positions, whatever it takes.
    fn next(&self, want: u32) -> Result<Span, IssueError> {
        let take = |snapshot, now, policy: &Policy| Ok(self.generator.take(snapshot, now, want, policy));
        self.enter(|| self.join(want).map_or_else(|| self.take(take), Ok))
    }

    /// Takes positions for a transaction that has [entered](writer::enter).
    fn enter(&self, take: impl FnOnce() -> Result<Span, IssueError>) -> Result<Span, IssueError> {
        // A bound from before the start would be below all IDs.
        // mutant: enter-after-start
        self.start()?;
        // mutant: enter-before-id
        let entering = writer::enter(self.generator);
        let span = take()?;
        if let Some(entering) = entering {
            entering.settle(span.first);
        }
        Ok(span)
    }

    /// Takes positions by a method of the generator, and does what that asks for until it returns positions.
    #[cold]
    fn take(&self, by: impl Fn(Snapshot, Tick, &Policy) -> Result<Outcome, IssueError>) -> Result<Span, IssueError> {
        let policy = gucs::policy(self.layout.tick_ms());
        let mut budget = WaitBudget::new(self.max_wait());
        loop {
            // mutant: generation-checked
            machine::check()?;
            let snapshot = self.generator.snapshot();
            let (now, open_until) = self.now()?;
            if let Some(step) = self.generator.observe_clock(snapshot, now) {
                trusted_clock::record_regression(
                    self.layout.time_of(now),
                    step * self.layout.tick_ms(),
                    policy.clock_regression,
                );
            }
            if let Some(least) = self.generator.least_of_history(snapshot, now, &policy) {
                // mutant: history-entered
                writer::lower(least);
            }
            match by(snapshot, now, &policy)? {
                Outcome::Taken(span) => {
                    stops::here("claim-return");
                    self.generator.keep_open(span, open_until);
                    return Ok(span);
                }
                Outcome::Contended => {}
                Outcome::Extend(tick) => self.extend(tick, &mut budget)?,
                Outcome::Wait(tick) => self.wait(&mut budget, self.layout.time_of(tick))?,
                Outcome::Behind(shown) => {
                    let (now, shown) = (self.layout.time_of(now), self.layout.time_of(shown));
                    return Err(IssueError::ClockWentBack { now, shown });
                }
            }
        }
    }

    /// Starts the generator, unless it runs.
    fn start(&self) -> Result<(), IssueError> {
        let mut budget = WaitBudget::new(self.max_wait());
        while !self.generator.is_started() {
            self.extend(self.now()?.0, &mut budget)?;
        }
        Ok(())
    }

    /// Has the mark extended past `tick`, as early as there is reason to.
    fn extend(&self, tick: Tick, budget: &mut WaitBudget) -> Result<(), IssueError> {
        let limit = self.generator.covered_until();
        match need(self.generator, tick) {
            Need::None => return Ok(()),
            Need::Early => {
                extend::extend_early(&self.layout, tick, limit);
                return Ok(());
            }
            Need::Now => {}
        }
        // A disk can be slow. Not afterwards: an advance that was covered and cancelled would leave the mark far ahead.
        pgrx::check_for_interrupts!();
        if !budget.may_retry_mark(tick, limit, request::max_wait()) {
            return Err(mark::too_slow());
        }
        let since = Instant::now();
        let covered = extend::cover(&self.layout, tick);
        shared().statistics.count_mark_wait(since.elapsed());
        if let Some(until) = covered? {
            self.wait(budget, until)?;
        }
        Ok(())
    }

    /// Waits for the clock, as long as the call may.
    fn wait(&self, budget: &mut WaitBudget, until: UnixMs) -> Result<(), IssueError> {
        if budget.wait_until(until, &self.layout) {
            return Ok(());
        }
        if !self.generator.is_started() {
            return Err(start::pending(clock::unix_ms(), until));
        }
        Err(behind(&self.layout, clock::unix_ms(), until))
    }

    fn max_wait(&self) -> Duration {
        max_wait(&self.layout)
    }
}

/// The error that a call will end with because of the clock; `None` if it gets an ID, perhaps after a wait. Of a
/// generator that is started.
pub fn clock_error(layout: &Layout) -> Option<IssueError> {
    let ms = clock::unix_ms();
    let now = layout.tick_at(ms).ok()?;
    match shared().generator.outlook(now, &gucs::policy(layout.tick_ms()))? {
        Outcome::Behind(shown) => Some(IssueError::ClockWentBack { now: ms, shown: layout.time_of(shown) }),
        Outcome::Wait(tick) => {
            let until = layout.time_of(tick);
            (Duration::from_millis(until.saturating_sub(ms)) > max_wait(layout)).then(|| behind(layout, ms, until))
        }
        _ => None,
    }
}

fn behind(layout: &Layout, now: UnixMs, until: UnixMs) -> IssueError {
    let policy = gucs::policy(layout.tick_ms());
    let limit = if policy.clock_regression.may_borrow() {
        ClockLimit::MaxBorrow { ms: gucs::max_borrow_ms() }
    } else {
        ClockLimit::MaxWait { ms: gucs::max_wait_ms(), regression: policy.clock_regression }
    };
    let (last, issued) = (shared().last_timestamp(layout), shared().generator.counts().issued > 0);
    IssueError::ClockBehind { last, issued, now, until, limit }
}

/// How long a call may wait for the clock. The first call after a start may have to let the clock pass the floor, which
/// is not the clock's fault. Ticks may be long: IDs begin in the one above the floor, and the clock has to reach one,
/// as if a tick is full.
fn max_wait(layout: &Layout) -> Duration {
    let mut max_wait = gucs::max_wait_ms();
    if shared().generator.counts().issued == 0 {
        // Twice the wait, in case it was counted from a little later.
        let is_started = shared().generator.is_started();
        let wait = if is_started { gucs::start_wait_ms(layout) } else { gucs::first_wait_ms(layout) };
        max_wait = max_wait.max(2 * wait);
    }
    // mutant: waits-for-ticks
    Duration::from_millis(max_wait.saturating_add(2 * layout.tick_ms()))
}
