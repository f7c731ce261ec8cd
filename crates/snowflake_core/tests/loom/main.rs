//! Interleavings explored with loom: all in which threads are preempted up to twice; three times in `make test-all`,
//! and once on arm64.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p snowflake_core --release --test loom`.

#![cfg(loom)]

mod generator;
mod horizon;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use snowflake_core::issue::generator::{Generator, Outcome, Snapshot, Span};
use snowflake_core::issue::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};
use snowflake_core::{Position, Tick};

const BITS: u32 = 1;
const BORROW: Policy = Policy {
    clock_regression: ClockRegression::Borrow,
    sequence_exhaustion: SequenceExhaustion::Wait,
    sequence_start: SequenceStart::Zero,
    max_borrow: 10,
};
/// What the counter shows that replaces the clock: always the same, so it never says that a tick has ended.
const COUNT: u64 = 7;
const SPAN: u64 = 1;
const HISTORY: Policy = Policy { clock_regression: ClockRegression::History, ..BORROW };

struct Server {
    generator: Generator,
    policy: Policy,
    /// Stands for the state file: the end of the ticks that the durable mark covers.
    disk: AtomicU64,
}

impl Server {
    fn new(policy: Policy, disk: Tick) -> Arc<Self> {
        Arc::new(Self { generator: Generator::new(BITS), policy, disk: AtomicU64::new(disk) })
    }

    /// Takes once as a backend does, and gives up where it would have to wait.
    fn take(&self, now: Tick, want: u32) -> Option<Span> {
        let span = self.generator.join(now, want).or_else(|| self.open(now, want))?;
        // I1. Relaxed, so that only the generator's own ordering can make it hold.
        assert!(span.last >> BITS < self.disk.load(Ordering::Relaxed), "issued above the durable mark");
        Some(span)
    }

    /// Takes once without a clock.
    fn take_by_counter(&self, want: u32) -> Option<Span> {
        let span = self.generator.join_open(COUNT, SPAN, want)?;
        assert!(span.last >> BITS < self.disk.load(Ordering::Relaxed), "issued above the durable mark");
        Some(span)
    }

    fn open(&self, now: Tick, want: u32) -> Option<Span> {
        self.ask(Generator::take, now, want)
    }

    /// Takes exactly so many positions of one tick.
    fn block(&self, now: Tick, want: u32) -> Option<Span> {
        let span = self.ask(Generator::take_block, now, want)?;
        assert!(span.last >> BITS < self.disk.load(Ordering::Relaxed), "issued above the durable mark");
        assert_eq!(span.last - span.first + 1, u64::from(want), "a part of a block");
        Some(span)
    }

    /// Takes an odd position, without a clock if that is possible.
    fn odd(&self, now: Tick) -> Option<Span> {
        fn is_odd(position: Position) -> bool {
            position & 1 == 1
        }
        let take = |generator: &Generator, seen: Snapshot, now: Tick, _: u32, policy: &Policy| {
            generator.take_where(seen, now, policy, is_odd)
        };
        let joined = self
            .generator
            .join_open_where(COUNT, SPAN, is_odd)
            .map(|position| Span { first: position, last: position });
        let span = joined.or_else(|| self.ask(take, now, 1))?;
        assert!(span.last >> BITS < self.disk.load(Ordering::Relaxed), "issued above the durable mark");
        assert!(is_odd(span.first) && span.first == span.last);
        Some(span)
    }

    fn ask(&self, take: fn(&Generator, Snapshot, Tick, u32, &Policy) -> Outcome, now: Tick, want: u32) -> Option<Span> {
        loop {
            let seen = self.generator.snapshot();
            self.generator.observe_clock(seen, now);
            match take(&self.generator, seen, now, want, &self.policy) {
                Outcome::Taken(span) => {
                    self.generator.keep_open(span, COUNT + SPAN);
                    return Some(span);
                }
                Outcome::Contended => {}
                Outcome::Extend(_) | Outcome::Wait(_) | Outcome::Behind(_) => return None,
            }
        }
    }

    /// Makes a new mark durable, and then allows the ticks it covers.
    fn extend(&self, end: Tick) {
        self.disk.store(end, Ordering::Relaxed);
        self.generator.cover(end, end);
    }
}

/// Explores every interleaving in which threads are interrupted up to so many times. Loom's authors have found that two
/// or three catch most mistakes; with no bound a model of three threads runs for hours.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(match std::env::var("SNOWFLAKE_PG_TESTS").as_deref() {
        Ok("full") => 3,
        // Under QEMU.
        Ok("least") => 1,
        _ => 2,
    });
    builder.check(model);
}

fn positions(spans: impl IntoIterator<Item = Option<Span>>) -> Vec<Position> {
    spans.into_iter().flatten().flat_map(|span| span.first..=span.last).collect()
}
