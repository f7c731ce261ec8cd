//! Random schedules of clock steps, crashes, restarts, failing disks and calls, on a server whose generator and mark are
//! real, and whose disk and clocks are simulated.

#![cfg(not(loom))]

#[path = "schedules/disk.rs"]
mod disk;

use disk::Disk;

use proptest::prelude::*;
use snowflake_core::id::layout::Layout;
use snowflake_core::issue::generator::{Generator, Outcome, Snapshot, Span};
use snowflake_core::issue::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};
use snowflake_core::mark::reservation;
use snowflake_core::mark::{Begin, Mark, MarkSettings, MarkState, Need, WalMark, need};
use snowflake_core::{Position, Tick, UnixMs};

const RESERVE_AHEAD: u64 = 2000;
const MAX_BORROW: u64 = 5000;
const LEAST_START_MARGIN: u64 = 1000;
/// How long a restart takes at least. One that takes less than the two steps by which it can raise the mark, of 50 ms
/// each, would drive a server away from its clock, if it came again and again.
const RESTART: u64 = 100;
/// For how many counts, one a millisecond, the counter stands in for the clock.
const SPAN: u64 = 1;

/// [`Generator::take`] or [`Generator::take_block`].
type Take = fn(&Generator, Snapshot, Tick, u32, &Policy) -> Outcome;

/// One thing that happens to a server.
#[derive(Clone, Debug)]
enum Event {
    /// Time goes by.
    Pass(u64),
    /// The clock is set, by this much.
    Step(i64),
    /// The counter that stands in for the clock goes wrong: it jumps to this count.
    Miscount(u64),
    /// A client asks for this many IDs.
    Call(u32),
    /// A client asks for this many adjacent IDs, or for as many as a tick has.
    Block(u32),
    /// Clients ask for as many IDs as there are, for this long.
    Saturate(u64),
    /// The server dies and comes back.
    Crash,
    /// The server is stopped as planned, which lowers the mark to what was issued.
    Shutdown,
    /// The server dies while it extends its mark or starts, after so many writes.
    CrashWriting(usize),
    /// The server dies, and its mark is lost. IDs are asked for as soon as there can be any.
    Lose,
    /// The server is killed, and started with this setting.
    Configure(WalMark),
    /// The server dies, and a standby without a record takes over, whose clock is off by this much.
    FailOver(WalMark, i64),
    /// From now on writing the mark fails, or works again.
    Disk { works: bool },
    /// A DBA raises the floor past the clock by this much.
    Advance(u64),
    /// The configuration is reloaded, with another policy.
    Reload(Policy),
}

fn policy() -> impl Strategy<Value = Policy> {
    let regression = prop_oneof![
        Just(ClockRegression::Borrow),
        Just(ClockRegression::Wait),
        Just(ClockRegression::Error),
        Just(ClockRegression::History),
    ];
    let exhaustion = prop_oneof![Just(SequenceExhaustion::Wait), Just(SequenceExhaustion::Borrow)];
    let start = prop_oneof![Just(SequenceStart::Zero), Just(SequenceStart::Random), Just(SequenceStart::Rotate),];
    (regression, exhaustion, start).prop_map(|(clock_regression, sequence_exhaustion, sequence_start)| Policy {
        clock_regression,
        sequence_exhaustion,
        sequence_start,
        max_borrow: MAX_BORROW,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1_u64..3000).prop_map(Event::Pass),
        2 => (-12_000_i64..12_000).prop_map(Event::Step),
        2 => (-3_000_i64..0).prop_map(Event::Step),
        1 => any::<u64>().prop_map(Event::Miscount),
        8 => (1_u32..40).prop_map(Event::Call),
        2 => (1_u32..20).prop_map(Event::Block),
        1 => (1_u64..1500).prop_map(Event::Saturate),
        2 => Just(Event::Crash),
        1 => Just(Event::Shutdown),
        2 => (0_usize..5).prop_map(Event::CrashWriting),
        1 => any::<bool>().prop_map(|works| Event::Disk { works }),
        1 => (0_u64..4000).prop_map(Event::Advance),
        2 => policy().prop_map(Event::Reload),
    ]
}

/// Ticks that are exhausted soon, of several lengths.
fn layout() -> impl Strategy<Value = Layout> {
    const TEXTS: &[&str] = &["t50 s1", "t50 s1", "t45 s1 unit=10ms", "t40 s4 unit=1000ms", "t40 s2 unit=333ms", "t50"];
    prop::sample::select(TEXTS).prop_map(|text| format!("{text} epoch=0").parse().expect("a layout"))
}

fn wal_mark() -> impl Strategy<Value = WalMark> {
    prop::sample::select(vec![WalMark::Off, WalMark::Prefer, WalMark::Require])
}

struct Server {
    layout: Layout,
    /// Whether marks go to WAL.
    wal_mark: WalMark,
    clock: UnixMs,
    /// A steady counter, one count a millisecond.
    counter: u64,
    /// The clock that the open tick may still go by.
    read: UnixMs,
    disk: Disk,
    /// Shared memory, lost in every crash.
    generator: Generator,
    /// Shared memory, too.
    state: MarkState,
    /// The mark on disk when the generator was started.
    found: Option<UnixMs>,
    policy: Policy,
    /// Every position that a client has received, in order.
    received: Vec<Position>,
    /// No position at or below an advance may come after it.
    advanced: Tick,
    /// Whether a policy was in force that does not promise order.
    unordered: bool,
}

impl Server {
    fn new(layout: Layout, wal_mark: WalMark) -> Self {
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
            found: None,
            policy,
            received: Vec::new(),
            advanced: 0,
            unordered: false,
        }
    }

    fn happen(&mut self, event: &Event) {
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

    fn pass(&mut self, ms: u64) {
        self.clock += ms;
        self.disk.elapsed += ms;
        self.counter = self.counter.wrapping_add(ms);
    }

    /// Loses what is in shared memory. No server is back at once.
    fn die(&mut self) {
        self.disk.was_standby = false;
        self.generator = Generator::new(self.layout.sequence_bits());
        self.state = MarkState::default();
        self.pass(RESTART);
    }

    fn tick_at(&self, at: UnixMs) -> Tick {
        self.layout.tick_at(at).expect("a layout of thousands of years")
    }

    fn mark(&mut self) -> Mark<'_, &mut Disk> {
        let borrows_ticks = self.policy.sequence_exhaustion.borrows_ticks();
        let tick_ms = self.layout.tick_ms();
        let settings = MarkSettings {
            layout: self.layout,
            reserve_ahead_ms: RESERVE_AHEAD,
            max_borrow_ms: MAX_BORROW,
            borrows_ticks,
            start_margin_ms: reservation::start_margin_ms(
                LEAST_START_MARGIN,
                RESERVE_AHEAD,
                tick_ms,
                borrows_ticks,
                MAX_BORROW,
            ),
            wal_mark: self.wal_mark,
        };
        Mark::new(&self.generator, &self.state, settings, &mut self.disk)
    }

    /// Makes a mark past a tick durable, if the disk lets it.
    fn extend(&mut self, needed: Tick) -> bool {
        let now = self.clock;
        self.mark().extend(|| needed, now).is_ok()
    }

    /// Starts the generator, if the disk and the clock let it.
    fn start(&mut self) -> bool {
        let (found, now) = (self.disk.mark(), self.clock);
        let has_begun = self.mark().start(now).is_ok_and(|begin| matches!(begin, Begin::At { .. }));
        if has_begun {
            self.found = found;
        }
        has_begun
    }

    /// Asks for IDs as the extension does; gives up where it would wait or fail.
    fn call(&mut self, want: u32) {
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
            // After a span from the history, as after a block that finds no room, callers still go by the reading before.
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
                    assert!(Some(self.layout.time_of(first)) >= self.found, "I2: issued below the mark that was found");
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

/// What happens to a worker that moves from server to server, and whose mark goes through WAL or does not.
fn moving() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => event(),
        2 => wal_mark().prop_map(Event::Configure),
        1 => (wal_mark(), -20_000_i64..20_000).prop_map(|(wal_mark, step)| Event::FailOver(wal_mark, step)),
    ]
}

/// What happens where the clock is right, and the configuration stays.
fn uneventful() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (1_u64..3000).prop_map(Event::Pass),
        8 => (1_u32..40).prop_map(Event::Call),
        2 => (1_u32..20).prop_map(Event::Block),
        1 => (1_u64..1500).prop_map(Event::Saturate),
        4 => Just(Event::Crash),
        2 => Just(Event::Shutdown),
        2 => (0_usize..5).prop_map(Event::CrashWriting),
        2 => Just(Event::Lose),
    ]
}

/// How many schedules are tried: more in `make test-all`.
fn cases() -> u32 {
    if std::env::var_os("SNOWFLAKE_PG_TESTS").is_none() { 2_500 } else { 10_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Strictly ascending over all of a server's lives: nothing twice, nothing out of order, unless the policy is to go
    /// back with the clock. Then nothing twice.
    #[test]
    fn no_schedule_makes_a_server_issue_an_id_twice_or_out_of_order(
        layout in layout(), wal_mark in wal_mark(), events in prop::collection::vec(event(), 1..60),
    ) {
        let mut server = Server::new(layout, wal_mark);
        for event in &events {
            server.happen(event);
        }
        if server.unordered {
            server.received.sort_unstable();
        }
        let rising = server.received.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert!(rising, "{:?}", server.received);
    }

    /// Whoever takes the worker over knows how far it has come, or is refused, and stays so when it is started again.
    #[test]
    fn no_schedule_makes_two_servers_issue_an_id_of_one_worker_twice_whatever_becomes_of_wal_mark(
        layout in layout(), wal_mark in wal_mark(), events in prop::collection::vec(moving(), 1..60),
    ) {
        let mut server = Server::new(layout, wal_mark);
        for event in &events {
            server.happen(event);
        }
        server.received.sort_unstable();
        let twice = server.received.windows(2).find(|pair| pair[0] >= pair[1]);
        prop_assert_eq!(twice, None);
    }

    /// A server whose disk works is never stuck: once the clock has passed every mark, IDs flow.
    #[test]
    fn a_server_always_recovers_once_its_clock_has_caught_up(
        layout in layout(), wal_mark in wal_mark(), events in prop::collection::vec(event(), 1..60),
    ) {
        let mut server = Server::new(layout, wal_mark);
        for event in &events {
            server.happen(event);
        }
        let before = server.received.len();
        server.disk.works = true;
        server.clock += 10_000_000;
        server.call(1);
        // It may have had to wait for the start margin of a start.
        server.clock += 10_000;
        server.call(1);
        prop_assert!(server.received.len() > before);
    }

    /// A mark that is lost is made up for by the guard, however far ahead the ticks and the policy let IDs be.
    #[test]
    fn a_server_that_loses_its_mark_under_a_right_clock_issues_nothing_twice(
        layout in layout(), wal_mark in wal_mark(), policy in policy(), events in prop::collection::vec(uneventful(), 1..60),
    ) {
        let mut server = Server::new(layout, wal_mark);
        server.policy = policy;
        for event in &events {
            server.happen(event);
        }
        server.received.sort_unstable();
        let twice = server.received.windows(2).find(|pair| pair[0] >= pair[1]);
        prop_assert_eq!(twice, None);
    }
}
