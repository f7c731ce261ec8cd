//! The parameters of the durable mark.

use super::parameter::{Choice, Define, FOR_DEVELOPERS, Number, Parameter, Text};
use super::{max_borrow_ms, policy};
use pgrx::pg_sys::GucContext::{PGC_POSTMASTER, PGC_SIGHUP};
use pgrx::pg_sys::{GUC_SUPERUSER_ONLY, GUC_UNIT_MS, GUC_UNIT_S};
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::{WalMark, reservation};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

pub(super) static PARAMETERS: &[&dyn Define] =
    &[&RESERVE_AHEAD, &KEEP_WARM, &MAX_FIRST_WAIT, &WAL_MARK, &STATE_DIRECTORY, &CLONE_DETECTION, &VMCLOCK];

static RESERVE_AHEAD: Parameter<Number> = Parameter {
    name: c"snowflake_pg.reserve_ahead",
    short: c"Sets how far the durable mark is ahead of the clock.",
    long:
        c"The mark is a time on disk that no ID reaches, and at which IDs continue after a crash. A larger value means \
        fewer writes, and IDs further ahead after a crash.",
    context: PGC_SIGHUP,
    flags: GUC_UNIT_MS,
    value: Number::new(2_000, 100..=60_000),
};

/// How far the durable mark is ahead of the clock, in milliseconds.
pub fn reserve_ahead_ms() -> u64 {
    RESERVE_AHEAD.get()
}

static KEEP_WARM: Parameter<Number> = Parameter {
    name: c"snowflake_pg.keep_warm",
    short: c"Sets how long after the last ID the durable mark is kept ahead of the clock.",
    long: c"A call within this time does not wait for the disk. 0: only while IDs are issued.",
    context: PGC_SIGHUP,
    flags: FOR_DEVELOPERS | GUC_UNIT_S,
    value: Number::new(60, 0..=86_400),
};

/// How long after the last ID the mark is still kept ahead of the clock.
pub fn keep_warm() -> Duration {
    Duration::from_secs(KEEP_WARM.get())
}

/// How long a server waits that cannot know what was issued before, in milliseconds. One that issues no ID ahead of its
/// clock waits until its clock is where IDs begin.
pub fn start_wait_ms(layout: &Layout) -> u64 {
    let may_be_ahead = policy(layout.tick_ms()).clock_regression.may_borrow();
    let least = if may_be_ahead { 0 } else { max_borrow_ms() };
    reservation::start_wait_ms(least, reserve_ahead_ms(), layout.tick_ms())
}

/// Nobody waits for an hour because IDs may be ahead by that. Tests wait for less, or for longer.
static MAX_FIRST_WAIT: Parameter<Number> = Parameter {
    name: c"snowflake_pg.max_first_wait",
    short: c"Sets the longest wait of a new server until no ID is ahead of its clock.",
    long: c"It waits at least as long as one that finds no durable mark.",
    context: PGC_POSTMASTER,
    flags: FOR_DEVELOPERS | GUC_UNIT_MS,
    value: Number::new(5_000, 0..=86_400_000),
};

/// The same where nobody has issued an ID: nothing comes sooner by IDs that are ahead of the clock.
pub fn first_wait_ms(layout: &Layout) -> u64 {
    start_wait_ms(layout).max(max_borrow_ms().min(MAX_FIRST_WAIT.get()))
}

static WAL_MARK: Parameter<Choice<WalMark>> = Parameter {
    name: c"snowflake_pg.wal_mark",
    short: c"Sets whether the durable mark is also written to WAL, for standbys.",
    long: c"",
    context: PGC_POSTMASTER,
    flags: 0,
    value: Choice::new(WalMark::Prefer),
};

/// Whether the durable mark is also written to WAL, and so sent to standbys.
pub fn wal_mark() -> WalMark {
    WAL_MARK.get()
}

static STATE_DIRECTORY: Parameter<Text> = Parameter {
    name: c"snowflake_pg.state_directory",
    short: c"Sets the directory of the durable mark.",
    long: c"Relative to the data directory, or absolute. An absolute one must exist and belong to this server alone.",
    context: PGC_POSTMASTER,
    flags: GUC_SUPERUSER_ONLY,
    value: Text::new(c"snowflake_pg"),
};

/// The directory of the durable mark: absolute, or relative to the data directory.
pub fn state_directory() -> PathBuf {
    PathBuf::from(OsString::from_vec(STATE_DIRECTORY.get().into_bytes()))
}

static CLONE_DETECTION: Parameter<Choice<CloneDetection>> = Parameter {
    name: c"snowflake_pg.clone_detection",
    short: c"Sets whether the server notices that its machine was restored or cloned.",
    long: c"",
    context: PGC_POSTMASTER,
    flags: 0,
    value: Choice::new(CloneDetection::Auto),
};

/// Whether the server notices that its machine was cloned.
#[derive(Clone, Copy, PartialEq)]
enum CloneDetection {
    Auto,
    Off,
}

snowflake_core::words!(CloneDetection {
    Auto = "auto": "if the hypervisor supports vmclock",
    Off = "off" | "false" | "no" | "0": "nothing notices that",
});

/// Whether the server is to notice that its machine was cloned, if the hypervisor supports vmclock.
pub fn detects_clones() -> bool {
    match CLONE_DETECTION.get() {
        CloneDetection::Auto => true,
        CloneDetection::Off => false,
    }
}

static VMCLOCK: Parameter<Text> = Parameter {
    name: c"snowflake_pg.vmclock",
    short: c"Sets the device by which the server notices that its machine was restored or cloned.",
    long: c"Linux has one for all machines.",
    context: PGC_POSTMASTER,
    flags: FOR_DEVELOPERS,
    value: Text::new(c"/dev/vmclock0"),
};

/// The device that tells the generation of the machine.
pub fn vmclock() -> PathBuf {
    PathBuf::from(OsString::from_vec(VMCLOCK.get().into_bytes()))
}
