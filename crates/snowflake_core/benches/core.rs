//! What the steps of an ID cost by themselves, without PostgreSQL: `make demo NAME=steps`.
//!
//! `join_open` and `join` are the way of nearly all IDs; how many instructions that has in the extension,
//! tests/servers/instructions.rs counts.

use criterion::{Criterion, criterion_group, criterion_main};
use snowflake_core::id::layout::Layout;
use snowflake_core::id::text::{Encoding, Notation};
use snowflake_core::issue::generator::{Generator, Outcome};
use snowflake_core::issue::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};
use std::hint::black_box;

const POLICY: Policy = Policy {
    clock_regression: ClockRegression::Borrow,
    sequence_exhaustion: SequenceExhaustion::Wait,
    sequence_start: SequenceStart::Random,
    max_borrow: 5000,
};
const HISTORY: Policy = Policy { clock_regression: ClockRegression::History, ..POLICY };

fn layout(text: &str) -> Layout {
    text.parse().expect("a layout")
}

/// A generator with ticks that no benchmark can use up, the first of them open.
fn generator() -> Generator {
    let generator = Generator::new(40);
    generator.start(1, 1);
    generator.cover(1 << 20, 1 << 20);
    let Outcome::Taken(span) = open(&generator, 2, &POLICY) else { panic!("nothing was issued before") };
    generator.keep_open(span, 1000);
    generator
}

fn open(generator: &Generator, now: u64, policy: &Policy) -> Outcome {
    let seen = generator.snapshot();
    generator.observe_clock(seen, now);
    generator.take(seen, now, 1, policy)
}

fn issuing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("issuing");
    let busy = generator();
    group.bench_function("join the open tick by the counter", |b| b.iter(|| busy.join_open(black_box(999), 1000, 1)));
    group.bench_function("join the open tick by the clock", |b| b.iter(|| busy.join(black_box(2), 1)));
    group.bench_function("join it for 1,000 IDs", |b| b.iter(|| busy.join(black_box(2), 1000)));
    for (name, policy, ticks) in [
        ("open a tick", POLICY, 1),
        ("open a tick, and enter the last one in the history", HISTORY, 1),
        ("open a tick after a pause of 10 s or more, and enter all of it in the history", HISTORY, 10_000),
    ] {
        let (fresh, mut now) = (Generator::new(12), 1);
        fresh.start(1, 1);
        fresh.cover(1 << 50, 1 << 50);
        group.bench_function(name, |b| {
            b.iter(|| {
                now += ticks;
                open(&fresh, now, &policy)
            });
        });
    }
    let at = 1_800_000_000_000;
    for (name, text) in [("tick of a time, 1 ms", "twitter"), ("tick of a time, 10 ms", "sonyflake")] {
        let layout = layout(text);
        group.bench_function(name, |b| b.iter(|| layout.tick_at(black_box(at))));
    }
    let series = layout("twitter").series(1, 1).expect("numbers that fit");
    group.bench_function("ID at a position", |b| b.iter(|| series.id_at(black_box(1 << 40))));
    group.finish();
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reading");
    let (layout, id) = (layout("twitter"), 1_541_815_603_606_036_480);
    group.bench_function("time of an ID", |b| b.iter(|| layout.issued_at(black_box(id))));
    group.bench_function("all its parts", |b| b.iter(|| layout.unpack(black_box(id))));
    group.bench_function("its base62", |b| {
        let notation = Notation::from(Encoding::Base62);
        b.iter(|| notation.encode(black_box(id)));
    });
    group.finish();
}

criterion_group!(benches, issuing, reading);
criterion_main!(benches);
