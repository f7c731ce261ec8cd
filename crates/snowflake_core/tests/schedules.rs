//! Random schedules of clock steps, crashes, restarts, failing disks and calls, on a model of a server whose only real
//! part is the generator.

#![cfg(not(loom))]

use proptest::prelude::*;
use snowflake_core::generator::{Generator, Outcome};
use snowflake_core::identity::{Directory, Facts, Identity, Record, decide};
use snowflake_core::layout::Layout;
use snowflake_core::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};
use snowflake_core::{Position, Tick, UnixMs, reservation};

const BITS: u32 = 1;
const RESERVE_AHEAD: u64 = 2000;
const MAX_BORROW: u64 = 5000;
const FAILOVER_GUARD: u64 = 1000;

/// One thing that happens to a server.
#[derive(Clone, Debug)]
enum Event {
    /// Time goes by.
    Pass(u64),
    /// The clock is set, by this much.
    Step(i64),
    /// A client asks for this many IDs.
    Call(u32),
    /// Clients ask for as many IDs as there are, for this long.
    Saturate(u64),
    /// The server dies and comes back.
    Crash,
    /// The server is stopped as planned, which lowers the mark to what was issued.
    Shutdown,
    /// The server dies with a new mark on disk that it has not begun to use.
    CrashAfterWrite,
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
    let start = prop_oneof![
        Just(SequenceStart::Zero),
        Just(SequenceStart::Random(127)),
        (0_u32..4).prop_map(SequenceStart::Rotate),
    ];
    (regression, exhaustion, start, 1_u64..3000).prop_map(|(regression, exhaustion, start, history_ticks)| Policy {
        clock_regression: regression,
        sequence_exhaustion: exhaustion,
        sequence_start: start,
        max_borrow: MAX_BORROW,
        history_ticks,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1_u64..3000).prop_map(Event::Pass),
        2 => (-12_000_i64..12_000).prop_map(Event::Step),
        2 => (-3_000_i64..0).prop_map(Event::Step),
        8 => (1_u32..40).prop_map(Event::Call),
        1 => (1_u64..1500).prop_map(Event::Saturate),
        2 => Just(Event::Crash),
        1 => Just(Event::Shutdown),
        1 => Just(Event::CrashAfterWrite),
        1 => any::<bool>().prop_map(|works| Event::Disk { works }),
        1 => (0_u64..4000).prop_map(Event::Advance),
        2 => policy().prop_map(Event::Reload),
    ]
}

fn identity() -> Identity {
    let directory = Directory { inode: 1, born_ns: 1 };
    let layout = "twitter".parse().expect("a preset");
    Identity { system_identifier: 1, timeline: 1, directory, datacenter: 0, worker: 1, layout }
}

struct Server {
    clock: UnixMs,
    /// The state file.
    disk: Option<UnixMs>,
    disk_works: bool,
    /// Shared memory, lost in every crash.
    generator: Generator,
    /// What stood in the state file when the generator was started.
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
    fn new() -> Self {
        let policy = Policy {
            clock_regression: ClockRegression::Borrow,
            sequence_exhaustion: SequenceExhaustion::Wait,
            sequence_start: SequenceStart::Random(127),
            max_borrow: MAX_BORROW,
            history_ticks: 2000,
        };
        Self {
            clock: 1_000_000,
            disk: None,
            disk_works: true,
            generator: Generator::new(BITS),
            found: None,
            policy,
            received: Vec::new(),
            advanced: 0,
            unordered: false,
        }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Pass(ms) => self.clock += ms,
            Event::Step(ms) => self.clock = self.clock.saturating_add_signed(ms).max(1),
            Event::Call(want) => self.call(want),
            Event::Saturate(ms) => {
                for _ in 0..ms {
                    self.clock += 1;
                    self.call(1 << BITS);
                }
            }
            Event::Crash => self.generator = Generator::new(BITS),
            Event::Shutdown => {
                if self.generator.is_started() && self.disk_works {
                    self.disk = Some(self.generator.last_tick() + 1);
                }
                self.generator = Generator::new(BITS);
            }
            Event::CrashAfterWrite => {
                if self.generator.is_started() {
                    self.write(self.generator.covered_until());
                }
                self.generator = Generator::new(BITS);
            }
            Event::Disk { works } => self.disk_works = works,
            Event::Advance(ahead) => {
                let past = self.clock + ahead;
                if self.generator.is_started() && (past < self.generator.covered_until() || self.extend(past)) {
                    self.generator.advance(past);
                    self.advanced = self.advanced.max(past);
                }
            }
            Event::Reload(policy) => {
                self.policy = policy;
                self.unordered |= policy.clock_regression == ClockRegression::History;
            }
        }
        assert!(
            Some(self.generator.covered_until()) <= self.disk.max(Some(0)),
            "I1: what may be issued is not covered by the mark on disk"
        );
    }

    fn write(&mut self, needed: Tick) -> Option<UnixMs> {
        let mark = reservation::next_mark(self.clock, needed, self.generator.covered_until(), RESERVE_AHEAD);
        self.disk_works.then(|| *self.disk.insert(mark))
    }

    /// Makes a mark past a tick durable, and lets the generator use it.
    fn extend(&mut self, needed: Tick) -> bool {
        let Some(mark) = self.write(needed) else { return false };
        self.generator.cover(reservation::early(self.clock, needed, mark), mark);
        true
    }

    /// Starts the generator where the table says, if the disk lets it.
    fn start(&mut self, needed: Tick) -> bool {
        let guard_ms = reservation::guard_ms(FAILOVER_GUARD, RESERVE_AHEAD);
        let found = self.disk.map(|mark| Record { mark, identity: identity() });
        let facts = Facts { now: self.clock, guard_ms, wal_mark: None };
        let floor = decide(found.as_ref(), &identity(), facts).expect("its own mark").floor;
        let before = self.disk;
        if self.write(needed.max(floor)).is_none() {
            return false;
        }
        self.found = before;
        self.generator.start(floor, self.clock);
        true
    }

    /// Asks for IDs as the extension does; gives up where it would wait or fail.
    fn call(&mut self, mut want: u32) {
        while want > 0 {
            let now = self.clock;
            let seen = self.generator.look();
            let taken = self.generator.join(now, want).map(Outcome::Taken);
            let outcome = taken.unwrap_or_else(|| {
                self.generator.note_clock(seen, now);
                self.generator.take(seen, now, want, &self.policy)
            });
            match outcome {
                Outcome::Taken(run) => {
                    let mark = self.disk.expect("issued without a mark on disk");
                    assert!(run.last >> BITS < mark, "I1: issued above the durable mark");
                    assert!(Some(run.first >> BITS) >= self.found, "I2: issued below the mark that was found");
                    assert!(run.first >> BITS > self.advanced || self.advanced == 0, "issued below an advance");
                    assert!((run.last >> BITS).saturating_sub(now) <= MAX_BORROW, "issued too far ahead of the clock");
                    self.received.extend(run.first..=run.last);
                    want -= u32::try_from(run.last - run.first + 1).expect("at most what was wanted");
                }
                Outcome::Extend(needed) if !self.generator.is_started() => {
                    if !self.start(needed) {
                        return;
                    }
                }
                Outcome::Extend(needed) if needed < self.generator.covered_until() => {
                    assert!(self.generator.take_on_extension(), "nobody else is there to take it on");
                    self.extend(needed);
                }
                Outcome::Extend(needed) => {
                    if !self.extend(needed) {
                        return;
                    }
                }
                Outcome::Wait(_) | Outcome::Behind(_) => return,
                Outcome::Lost => panic!("nobody else takes positions"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Strictly ascending over all of a server's lives: nothing twice, nothing out of order, unless the policy is to go back
    /// with the clock. Then nothing twice.
    #[test]
    fn no_schedule_makes_a_server_issue_an_id_twice_or_out_of_order(events in prop::collection::vec(event(), 1..60)) {
        let mut server = Server::new();
        for event in &events {
            server.happen(event);
        }
        if server.unordered {
            server.received.sort_unstable();
        }
        let rising = server.received.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert!(rising, "{:?}", server.received);
    }

    /// A server whose disk works is never stuck: once the clock has passed every mark, IDs flow.
    #[test]
    fn a_server_always_recovers_once_its_clock_has_caught_up(events in prop::collection::vec(event(), 1..60)) {
        let mut server = Server::new();
        for event in &events {
            server.happen(event);
        }
        let before = server.received.len();
        server.disk_works = true;
        server.clock += 10_000_000;
        server.call(1);
        // It may have had to wait for the guard of a start.
        server.clock += 10_000;
        server.call(1);
        prop_assert!(server.received.len() > before);
    }
}

proptest! {
    #[test]
    fn an_id_decodes_to_what_it_was_made_from(
        flat: bool, epoch in 0_u64..253_402_300_799_999, tick in 0_u64..1 << 41, datacenter in 0..32_i32,
        worker in 0..32_i32, sequence in 0_u64..4096,
    ) {
        let layout: Layout = format!("{} epoch={epoch}", if flat { "flat" } else { "twitter" }).parse().unwrap();
        let datacenter = if flat { 0 } else { datacenter };
        let id = layout.series(datacenter, worker).unwrap().id_at(tick << 12 | sequence);
        prop_assert!(i64::try_from(id).is_ok());
        let parts = layout.unpack(id);
        prop_assert_eq!(parts.issued_at, epoch + tick);
        prop_assert_eq!(parts.sequence, sequence);
        prop_assert_eq!(parts.worker, u64::try_from(worker).ok());
        prop_assert_eq!(parts.datacenter, if flat { None } else { u64::try_from(datacenter).ok() });
        prop_assert!(layout.min_id(tick) <= id && (tick == layout.last_tick() || id < layout.min_id(tick + 1)));
    }
}
