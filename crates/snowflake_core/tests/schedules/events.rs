//! What can happen to a server, and how often.

use crate::server::MAX_BORROW;
use proptest::prelude::*;
use snowflake_core::id::layout::Layout;
use snowflake_core::issue::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};
use snowflake_core::mark::WalMark;

/// One thing that happens to a server.
#[derive(Clone, Debug)]
pub enum Event {
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
    /// Makes writing the mark fail from now on, or work again.
    Disk { works: bool },
    /// A DBA raises the floor past the clock by this much.
    Advance(u64),
    /// The configuration is reloaded, with another policy.
    Reload(Policy),
}

pub fn policy() -> impl Strategy<Value = Policy> {
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

pub fn event() -> impl Strategy<Value = Event> {
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
pub fn layout() -> impl Strategy<Value = Layout> {
    const TEXTS: &[&str] = &["t50 s1", "t50 s1", "t45 s1 unit=10ms", "t40 s4 unit=1000ms", "t40 s2 unit=333ms", "t50"];
    prop::sample::select(TEXTS).prop_map(|text| format!("{text} epoch=0").parse().expect("a layout"))
}

pub fn wal_mark() -> impl Strategy<Value = WalMark> {
    prop::sample::select(vec![WalMark::Off, WalMark::Prefer, WalMark::Require])
}

/// What happens to a worker that moves from server to server, and whose mark goes through WAL or does not.
pub fn moving() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => event(),
        2 => wal_mark().prop_map(Event::Configure),
        1 => (wal_mark(), -20_000_i64..20_000).prop_map(|(wal_mark, step)| Event::FailOver(wal_mark, step)),
    ]
}

/// What happens where the clock is right, and the configuration stays.
pub fn uneventful() -> impl Strategy<Value = Event> {
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
