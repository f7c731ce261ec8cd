//! The parameters of [`Policy`]: what happens when the clock goes back, and when a tick is full.

use super::{define_choice, define_number, milliseconds};
use pgrx::guc::{GucContext, GucFlags, GucSetting, PostgresGucEnum};
use snowflake_core::Tick;
use snowflake_core::history::CAPACITY;
use snowflake_core::policy::{self, Policy};

static CLOCK_REGRESSION: GucSetting<ClockRegression> = GucSetting::<ClockRegression>::new(ClockRegression::Borrow);
static HISTORY_TICKS: GucSetting<i32> = GucSetting::<i32>::new(2_000);
static SEQUENCE_EXHAUSTION: GucSetting<SequenceExhaustion> =
    GucSetting::<SequenceExhaustion>::new(SequenceExhaustion::Wait);
static SEQUENCE_START: GucSetting<SequenceStart> = GucSetting::<SequenceStart>::new(SequenceStart::Random);
static SEQUENCE_START_MAX: GucSetting<i32> = GucSetting::<i32>::new(127);
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
            max_wait. \
          error: calls fail. history: IDs go back with the clock and use what past ticks have left over; they are not \
              ordered.",
        &CLOCK_REGRESSION,
        GucContext::Sighup,
    );
    define_number(
        c"snowflake_pg.history_ticks",
        c"Sets how many past ticks clock_regression = history remembers.",
        c"A clock that goes back further is handled as with borrow.",
        &HISTORY_TICKS,
        1,
        i32::try_from(CAPACITY).expect("small"),
        GucContext::Sighup,
        GucFlags::default(),
    );
    define_choice(
        c"snowflake_pg.sequence_exhaustion",
        c"Sets what happens when a tick has no sequence numbers left.",
        c"wait: calls wait for the next tick. borrow: IDs continue in the next tick, up to max_borrow ahead of the \
            clock.",
        &SEQUENCE_EXHAUSTION,
        GucContext::Sighup,
    );
    define_choice(
        c"snowflake_pg.sequence_start",
        c"Sets the first sequence number of a tick.",
        c"zero: 0. random, rotate: from 0 to sequence_start_max, so that id % n is not skewed. After a full tick it is \
            0.",
        &SEQUENCE_START,
        GucContext::Sighup,
    );
    define_number(
        c"snowflake_pg.sequence_start_max",
        c"Sets the largest first sequence number of a tick.",
        c"The tick does not use the numbers below its first one.",
        &SEQUENCE_START_MAX,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
    );
    define_number(
        c"snowflake_pg.max_borrow",
        c"Sets how far the timestamp of a new ID may be ahead of the clock.",
        c"With clock_regression = borrow, a clock that goes back by less goes unnoticed.",
        &MAX_BORROW,
        0,
        86_400_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    define_number(
        c"snowflake_pg.max_wait",
        c"Sets how long a call may wait for a clock that is behind.",
        c"The call fails then. This is elapsed time, whatever the clock shows.",
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
        history_ticks: Tick::try_from(HISTORY_TICKS.get()).expect("the variable's range begins at 1"),
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
    let start_max = u32::try_from(SEQUENCE_START_MAX.get()).expect("the variable's range begins at 0");
    match SEQUENCE_START.get() {
        SequenceStart::Zero => policy::SequenceStart::Zero,
        SequenceStart::Random => policy::SequenceStart::Random(start_max),
        SequenceStart::Rotate => policy::SequenceStart::Rotate(start_max),
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
