//! The parameters of [`Policy`]: what happens when the clock goes back, and when a tick is full.

use super::{define_choice, define_number, milliseconds};
use pgrx::guc::{GucContext, GucFlags, GucSetting, PostgresGucEnum};
use snowflake_core::issue::policy::{self, Policy};

static CLOCK_REGRESSION: GucSetting<ClockRegression> = GucSetting::<ClockRegression>::new(ClockRegression::Borrow);
static SEQUENCE_EXHAUSTION: GucSetting<SequenceExhaustion> =
    GucSetting::<SequenceExhaustion>::new(SequenceExhaustion::Wait);
static SEQUENCE_START: GucSetting<SequenceStart> = GucSetting::<SequenceStart>::new(SequenceStart::Random);
static MAX_BORROW: GucSetting<i32> = GucSetting::<i32>::new(5_000);
static MAX_WAIT: GucSetting<i32> = GucSetting::<i32>::new(500);

/// [`policy::ClockRegression`] as PostgreSQL spells it.
#[derive(Clone, Copy, PostgresGucEnum)]
enum ClockRegression {
    #[name = c"borrow"]
    Borrow,
    #[name = c"wait"]
    Wait,
    #[name = c"error"]
    Error,
    #[name = c"history"]
    History,
}

/// [`policy::SequenceExhaustion`] as PostgreSQL spells it.
#[derive(Clone, Copy, PostgresGucEnum)]
enum SequenceExhaustion {
    #[name = c"wait"]
    Wait,
    #[name = c"borrow"]
    Borrow,
}

/// [`policy::SequenceStart`] as PostgreSQL spells it.
#[derive(Clone, Copy, PostgresGucEnum)]
enum SequenceStart {
    #[name = c"zero"]
    Zero,
    #[name = c"random"]
    Random,
    #[name = c"rotate"]
    Rotate,
}

/// Defines these parameters; see [`super::define`].
pub(super) fn define() {
    define_choice(
        c"snowflake_pg.clock_regression",
        c"Sets what happens when the clock goes back.",
        c"borrow: IDs continue from the last timestamp, up to max_borrow ahead of the clock. wait: calls wait, up to \
            max_wait. error: calls fail. history: IDs go back with the clock and use what past ticks have left over; \
            they are not ordered.",
        &CLOCK_REGRESSION,
        GucContext::Sighup,
        GucFlags::default(),
    );
    define_choice(
        c"snowflake_pg.sequence_exhaustion",
        c"Sets what happens when the sequence numbers of a tick are used up.",
        c"wait: calls wait for the next tick. borrow: IDs continue in the next tick, up to max_borrow ahead of the \
            clock.",
        &SEQUENCE_EXHAUSTION,
        GucContext::Sighup,
        GucFlags::default(),
    );
    define_choice(
        c"snowflake_pg.sequence_start",
        c"Sets the first sequence number of a tick.",
        c"random: a random one, so that id % n is even also if a tick has one ID. rotate: each in turn. zero: 0. Under \
            load it is 0 with each.",
        &SEQUENCE_START,
        GucContext::Sighup,
        GucFlags::default(),
    );
    define_number(
        c"snowflake_pg.max_borrow",
        c"Sets how far the timestamps of IDs may be ahead of the clock.",
        c"With clock_regression = borrow, no call notices a clock that goes back by less.",
        &MAX_BORROW,
        0,
        86_400_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    define_number(
        c"snowflake_pg.max_wait",
        c"Sets how long a call may wait for a clock that is behind.",
        c"Then the call fails. The time is measured without the clock.",
        &MAX_WAIT,
        0,
        3_600_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
}

/// The policy in force, for ticks of this length.
#[inline]
pub fn policy(tick_ms: u64) -> Policy {
    Policy {
        clock_regression: clock_regression(),
        sequence_exhaustion: sequence_exhaustion(),
        sequence_start: sequence_start(),
        max_borrow: max_borrow_ms() / tick_ms,
    }
}

/// What happens when the clock goes back.
pub fn clock_regression() -> policy::ClockRegression {
    match CLOCK_REGRESSION.get() {
        ClockRegression::Borrow => policy::ClockRegression::Borrow,
        ClockRegression::Wait => policy::ClockRegression::Wait,
        ClockRegression::Error => policy::ClockRegression::Error,
        ClockRegression::History => policy::ClockRegression::History,
    }
}

/// What happens when a tick is full.
pub fn sequence_exhaustion() -> policy::SequenceExhaustion {
    match SEQUENCE_EXHAUSTION.get() {
        SequenceExhaustion::Wait => policy::SequenceExhaustion::Wait,
        SequenceExhaustion::Borrow => policy::SequenceExhaustion::Borrow,
    }
}

/// The first sequence number of a tick.
pub fn sequence_start() -> policy::SequenceStart {
    match SEQUENCE_START.get() {
        SequenceStart::Zero => policy::SequenceStart::Zero,
        SequenceStart::Random => policy::SequenceStart::Random,
        SequenceStart::Rotate => policy::SequenceStart::Rotate,
    }
}

/// How far the timestamp of an ID may be ahead of the clock, in milliseconds.
pub fn max_borrow_ms() -> u64 {
    milliseconds(&MAX_BORROW)
}

/// How long a call may wait for the clock, in milliseconds.
pub fn max_wait_ms() -> u64 {
    milliseconds(&MAX_WAIT)
}
