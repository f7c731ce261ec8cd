//! A server whose generator and mark are real, and whose disk and clocks are simulated. It checks what it issues.

use crate::disk::Disk;
use crate::events::Event;
use snowflake_core::id::layout::Layout;
use snowflake_core::issue::generator::{Generator, Outcome, Snapshot, Span};
use snowflake_core::issue::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};
use snowflake_core::mark::reservation;
use snowflake_core::mark::{Begin, Mark, MarkSettings, MarkState, Need, WalMark, need};
use snowflake_core::{Position, Tick, UnixMs};

pub const RESERVE_AHEAD: u64 = 2000;
pub const MAX_BORROW: u64 = 5000;
/// How long a restart takes at least. One that takes less than the two steps by which it can raise the mark, of 50 ms
/// each, would drive a server away from its clock, if it came again and again.
const RESTART: u64 = 100;
/// How many counts, one a millisecond, the counter replaces the clock.
const SPAN: u64 = 1;

/// [`Generator::take`] or [`Generator::take_block`].
type Take = fn(&Generator, Snapshot, Tick, u32, &Policy) -> Outcome;

pub struct Server {
    pub layout: Layout,
    /// Whether marks go to WAL.
    wal_mark: WalMark,
    pub clock: UnixMs,
    /// A steady counter, one count a millisecond.
    counter: u64,
    /// The clock that the open tick may still go by.
    read: UnixMs,
    pub disk: Disk,
    /// Shared memory, lost in every crash.
    pub generator: Generator,
    /// Shared memory, too.
    state: MarkState,
    /// The mark on disk when the generator was started.
    mark_at_start: Option<UnixMs>,
    pub policy: Policy,
    /// Every position that a client has received, in order.
    pub received: Vec<Position>,
    /// No position at or below an advance may come after it.
    advanced: Tick,
    /// Whether a policy was in force that does not promise order.
    pub unordered: bool,
}

impl Server {
    pub fn new(layout: Layout, wal_mark: WalMark) -> Self {
        let policy = Policy {
            clock_regression: ClockRegression::Borrow,
            sequence_exhaustion: SequenceExhaustion::Wait,
            sequence_start: SequenceStart::Random,
            max_borrow: MAX_BORROW,
        };
        Self {
            layout,
            wal_mark,
            clock: 1_000_000,
            counter: 0,
            read: 0,
            disk: Disk::new(layout),
            generator: Generator::new(layout.sequence_bits()),
            state: MarkState::default(),
            mark_at_start: None,
            policy,
            received: Vec::new(),
            advanced: 0,
            unordered: false,
        }
    }

    pub fn happen(&mut self, event: &Event) {
        match *event {
            Event::Pass(ms) => self.pass(ms),
            Event::Miscount(count) => self.counter = count,
            Event::Step(ms) => self.clock = self.clock.saturating_add_signed(ms).max(1),
            Event::Call(want) => self.call(want),
            Event::Block(want) => self.block(want.min(1 << self.layout.sequence_bits())),
            Event::Saturate(ms) => {
                for _ in 0..ms {
                    self.pass(1);
                    self.call(1 << self.layout.sequence_bits());
                }
            }
            Event::Crash => self.die(),
            Event::Configure(wal_mark) => {
                self.die();
                self.wal_mark = wal_mark;
            }
            Event::FailOver(wal_mark, step) => {
                self.die();
                self.wal_mark = wal_mark;
                self.disk.fail_over();
                self.clock = self.clock.saturating_add_signed(step).max(1);
            }
            Event::Lose => {
                self.die();
                self.disk.lose();
                self.call(1);
                self.clock = self.clock.max(self.state.not_before());
                self.call(1);
            }
            Event::Shutdown => {
                // A failure does no harm.
                let _ = self.mark().lower();
                self.die();
            }
            Event::CrashWriting(writes) => {
                self.disk.writes_left = writes;
                let _ = if self.generator.is_started() {
                    self.extend(self.generator.covered_until())
                } else {
                    self.start()
                };
                self.disk.writes_left = usize::MAX;
                self.die();
            }
            Event::Disk { works } => self.disk.works = works,
            Event::Advance(ahead) => {
                let past = self.tick_at(self.clock + ahead);
                if self.generator.is_started() && (past < self.generator.covered_until() || self.extend(past)) {
                    self.generator.advance(past);
                    self.advanced = self.advanced.max(past);
                }
            }
            Event::Reload(policy) => {
                self.policy = policy;
                self.unordered |= !policy.clock_regression.keeps_order();
            }
        }
        let covered = self.generator.covered_until();
        assert!(
            covered == 0 || Some(self.layout.time_of(covered - 1)) < self.disk.mark(),
            "I1: what may be issued is not covered by the mark on disk"
        );
    }

    pub fn pass(&mut self, ms: u64) {
        self.clock += ms;
        self.disk.elapsed += ms;
        self.counter = self.counter.wrapping_add(ms);
    }

    /// Loses what is in shared memory. No server is back at once.
    fn die(&mut self) {
        self.disk.was_standby = false;
        self.disk.boot();
        self.generator = Generator::new(self.layout.sequence_bits());
        self.state = MarkState::default();
        self.pass(RESTART);
    }

    fn tick_at(&self, at: UnixMs) -> Tick {
        self.layout.tick_at(at).expect("a layout of thousands of years")
    }

    pub fn mark(&mut self) -> Mark<'_, &mut Disk> {
        let borrows_ticks = self.policy.sequence_exhaustion.borrows_ticks();
        let tick_ms = self.layout.tick_ms();
        let start_wait_ms = reservation::start_wait_ms(0, RESERVE_AHEAD, tick_ms);
        let settings = MarkSettings {
            layout: self.layout,
            reserve_ahead_ms: RESERVE_AHEAD,
            max_borrow_ms: MAX_BORROW,
            borrows_ticks,
            start_wait_ms,
            first_wait_ms: start_wait_ms.max(MAX_BORROW),
            wal_mark: self.wal_mark,
        };
        Mark::new(&self.generator, &self.state, settings, &mut self.disk)
    }

    /// Makes a mark past a tick durable, if the disk lets it.
    pub fn extend(&mut self, needed: Tick) -> bool {
        let now = self.clock;
        self.mark().extend(|| needed, now).is_ok()
    }

    /// Starts the generator, if the disk and the clock let it.
    fn start(&mut self) -> bool {
        let (mark, now) = (self.disk.mark(), self.clock);
        let has_begun = self.mark().start(now).is_ok_and(|begin| matches!(begin, Begin::At { .. }));
        if has_begun {
            self.mark_at_start = mark;
        }
        has_begun
    }

    /// Asks for IDs as the extension does; gives up where it would wait or fail.
    pub fn call(&mut self, want: u32) {
        self.ask(want, |server, seen, now, want, policy| {
            let joined = server.generator.join_open(server.counter, SPAN, want).map(Outcome::Taken);
            joined.unwrap_or_else(|| server.take_by_clock(Generator::take, seen, now, want, policy))
        });
    }

    /// Asks for a block.
    fn block(&mut self, want: u32) {
        self.ask(want, |server, seen, now, left, policy| {
            assert_eq!(left, want, "a part of a block");
            server.take_by_clock(Generator::take_block, seen, now, want, policy)
        });
    }

    fn take_by_clock(&mut self, take: Take, seen: Snapshot, now: Tick, want: u32, policy: &Policy) -> Outcome {
        self.generator.observe_clock(seen, now);
        let outcome = take(&self.generator, seen, now, want, policy);
        if let Outcome::Taken(span) = outcome {
            // After a span from the history, as after a block that finds no room, callers still go by the reading
            // before.
            if self.is_open(span) {
                self.read = self.clock;
            }
            self.generator.keep_open(span, self.counter.wrapping_add(SPAN));
        }
        outcome
    }

    /// Whether a span is of the open tick, not from the history.
    fn is_open(&self, span: Span) -> bool {
        self.generator.last_tick() == span.last >> self.layout.sequence_bits()
    }

    /// Does what the generator asks for until `take` has taken all.
    fn ask(&mut self, mut want: u32, take: impl Fn(&mut Self, Snapshot, Tick, u32, &Policy) -> Outcome) {
        let mut extended = 0;
        while want > 0 {
            let now = self.tick_at(self.clock);
            let policy = Policy { max_borrow: MAX_BORROW / self.layout.tick_ms(), ..self.policy };
            let seen = self.generator.snapshot();
            extended += 1;
            match take(self, seen, now, want, &policy) {
                Outcome::Taken(span) => {
                    let mark = self.disk.mark().expect("issued without a mark on disk");
                    let bits = self.layout.sequence_bits();
                    let (first, last) = (span.first >> bits, self.layout.time_of(span.last >> bits));
                    assert!(last < mark, "I1: issued above the durable mark");
                    assert!(
                        Some(self.layout.time_of(first)) >= self.mark_at_start,
                        "I2: issued below the mark that was found"
                    );
                    assert!(first > self.advanced || self.advanced == 0, "issued below an advance");
                    let read = if self.is_open(span) { self.read } else { self.clock };
                    assert!(last.saturating_sub(read) <= MAX_BORROW, "issued too far ahead of the clock");
                    self.received.extend(span.first..=span.last);
                    extended = 0;
                    want -= u32::try_from(span.last - span.first + 1).expect("at most what was wanted");
                }
                Outcome::Extend(tick) if extended > 1000 => {
                    panic!("tick {tick} is not covered, however often it is asked for")
                }
                Outcome::Extend(_) if !self.generator.is_started() => {
                    if !self.start() {
                        return;
                    }
                }
                Outcome::Extend(needed) => match need(&self.generator, needed) {
                    Need::None => panic!("nobody else is there to take it on"),
                    Need::Early => _ = self.extend(needed),
                    Need::Now if !self.extend(needed) => return,
                    Need::Now => {}
                },
                Outcome::Wait(_) | Outcome::Behind(_) => return,
                Outcome::Contended => panic!("nobody else takes positions"),
            }
        }
    }
}
