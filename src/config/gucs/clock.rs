//! The parameters of the clock.

use super::parameter::{Choice, Define, FOR_DEVELOPERS, Number, Parameter};
use pgrx::pg_sys::GUC_UNIT_MS;
use pgrx::pg_sys::GucContext::{PGC_POSTMASTER, PGC_SIGHUP};

pub(super) static PARAMETERS: &[&dyn Define] = &[&MAX_FORWARD_JUMP, &TIME_STAMP_COUNTER];

static MAX_FORWARD_JUMP: Parameter<Number> = Parameter {
    name: c"snowflake_pg.max_forward_jump",
    short: c"Sets how far the clock may jump ahead and be trusted at once.",
    long:
        c"A larger jump is trusted after a minute, or when snowflake_accept_clock() is called. Until then, IDs follow \
          the old clock.",
    context: PGC_SIGHUP,
    flags: GUC_UNIT_MS,
    value: Number::new(3_600_000, 1_000..=i32::MAX),
};

/// The largest jump ahead that is trusted at once, in milliseconds.
pub fn max_forward_jump_ms() -> u64 {
    MAX_FORWARD_JUMP.get()
}

static TIME_STAMP_COUNTER: Parameter<Choice<TimeStampCounter>> = Parameter {
    name: c"snowflake_pg.time_stamp_counter",
    short: c"Sets whether the CPU's time-stamp counter may stand in for the clock, for a millisecond at most.",
    long: c"",
    context: PGC_POSTMASTER,
    flags: FOR_DEVELOPERS,
    value: Choice::new(TimeStampCounter::DEFAULT),
};

/// Whether the CPU's time-stamp counter may stand in for the clock.
#[derive(Clone, Copy, PartialEq)]
enum TimeStampCounter {
    Auto,
    Off,
}

snowflake_core::words!(TimeStampCounter {
    Auto = "auto": "where the kernel keeps time by it",
    Off = "off" | "false" | "no" | "0": "every ID reads the clock",
});

impl TimeStampCounter {
    /// Off on arm64: it has run under QEMU alone, whose counter is a clock of the machine below it.
    const DEFAULT: Self = if cfg!(target_arch = "x86_64") { Self::Auto } else { Self::Off };
}

/// Whether the time-stamp counter may stand in for the clock where the kernel keeps time by it.
pub fn may_use_time_stamp_counter() -> bool {
    match TIME_STAMP_COUNTER.get() {
        TimeStampCounter::Auto => true,
        TimeStampCounter::Off => false,
    }
}
