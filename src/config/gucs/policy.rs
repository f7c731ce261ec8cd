//! The parameters of [`Policy`]: what happens when the clock goes back, and when a tick is full.

use super::parameter::{Choice, Define, Number, Parameter};
use pgrx::pg_sys::GUC_UNIT_MS;
use pgrx::pg_sys::GucContext::PGC_SIGHUP;
use snowflake_core::issue::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};

pub(super) static PARAMETERS: &[&dyn Define] =
    &[&CLOCK_REGRESSION, &SEQUENCE_EXHAUSTION, &SEQUENCE_START, &MAX_BORROW, &MAX_WAIT];

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

static CLOCK_REGRESSION: Parameter<Choice<ClockRegression>> = Parameter {
    name: c"snowflake_pg.clock_regression",
    short: c"Sets what happens when the clock goes back.",
    long: c"",
    context: PGC_SIGHUP,
    flags: 0,
    value: Choice::new(ClockRegression::Borrow),
};

/// What happens when the clock goes back.
pub fn clock_regression() -> ClockRegression {
    CLOCK_REGRESSION.get()
}

static SEQUENCE_EXHAUSTION: Parameter<Choice<SequenceExhaustion>> = Parameter {
    name: c"snowflake_pg.sequence_exhaustion",
    short: c"Sets what happens when the sequence numbers of a tick are used up.",
    long: c"",
    context: PGC_SIGHUP,
    flags: 0,
    value: Choice::new(SequenceExhaustion::Wait),
};

/// What happens when a tick is full.
pub fn sequence_exhaustion() -> SequenceExhaustion {
    SEQUENCE_EXHAUSTION.get()
}

static SEQUENCE_START: Parameter<Choice<SequenceStart>> = Parameter {
    name: c"snowflake_pg.sequence_start",
    short: c"Sets the first sequence number of a tick.",
    long: c"Under load, it is 0 with every setting.",
    context: PGC_SIGHUP,
    flags: 0,
    value: Choice::new(SequenceStart::Random),
};

/// The first sequence number of a tick.
pub fn sequence_start() -> SequenceStart {
    SEQUENCE_START.get()
}

static MAX_BORROW: Parameter<Number> = Parameter {
    name: c"snowflake_pg.max_borrow",
    short: c"Sets how far the timestamps of IDs may be ahead of the clock.",
    long: c"With clock_regression = borrow, no call notices a clock that goes back by less.",
    context: PGC_SIGHUP,
    flags: GUC_UNIT_MS,
    value: Number::new(5_000, 0..=86_400_000),
};

/// How far the timestamp of an ID may be ahead of the clock, in milliseconds.
pub fn max_borrow_ms() -> u64 {
    MAX_BORROW.get()
}

static MAX_WAIT: Parameter<Number> = Parameter {
    name: c"snowflake_pg.max_wait",
    short: c"Sets how long a call may wait for a clock that is behind.",
    long: c"After this time, by the monotonic clock, the call fails.",
    context: PGC_SIGHUP,
    flags: GUC_UNIT_MS,
    value: Number::new(500, 0..=3_600_000),
};

/// How long a call may wait for the clock, in milliseconds.
pub fn max_wait_ms() -> u64 {
    MAX_WAIT.get()
}
