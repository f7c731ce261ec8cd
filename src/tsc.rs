//! The processor's time-stamp counter, where the kernel keeps its own time by it.
//!
//! The clock is made of it, and takes twice as long to read. So whoever reads the clock says until which count the tick goes
//! on, and others only compare the counter with that: see
//! [`Generator::join_open`](snowflake_core::generator::Generator::join_open). A counter that goes wrong can make a timestamp late,
//! and nothing worse: no ID comes twice or out of order by it.

use crate::clock;
use crate::config::gucs;
use crate::config::gucs::TimeStampCounter;
use once_cell::sync::OnceCell;
use std::fs;
use std::time::Duration;

/// The longest time for which the counter stands in for the clock: what is set is noticed within it.
pub const MAX_AGE: Duration = Duration::from_millis(1);

/// Where Linux says by what it keeps time. It says `tsc` only while that runs steadily, and alike on all processors.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// How often the counter is compared with the clock, and for how long: other work can get in between.
const TRIALS: usize = 5;
const TRIAL: Duration = Duration::from_micros(500);

static MAX_AGE_COUNTS: OnceCell<u64> = OnceCell::new();

/// What the counter shows; 0 where there is none.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has it, and the kernel lets processes read it where it does so itself on
    // behalf of theirs, which `measure` has made sure of.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Finds out how fast it counts. In the postmaster, for all its children.
pub fn measure() {
    MAX_AGE_COUNTS.get_or_init(|| if is_trusted() { measure_max_age() } else { 0 });
}

/// How far it counts in [`MAX_AGE`]; 0 where it is not to be used.
pub fn max_age() -> u64 {
    MAX_AGE_COUNTS.get().copied().unwrap_or(0)
}

/// How far it counts in a part of [`MAX_AGE`].
pub fn counts_in(time: Duration) -> u64 {
    max_age() * u64::from(time.min(MAX_AGE).subsec_nanos()) / u64::from(MAX_AGE.subsec_nanos())
}

fn is_trusted() -> bool {
    gucs::time_stamp_counter() == TimeStampCounter::Auto
        && cfg!(target_arch = "x86_64")
        && fs::read_to_string(CLOCKSOURCE).is_ok_and(|source| source.trim() == "tsc")
}

fn measure_max_age() -> u64 {
    let mut trials = [(); TRIALS].map(|()| {
        let (clock, counter) = (clock::since_boot(), now());
        let mut passed = Duration::ZERO;
        while passed < TRIAL {
            passed = clock::since_boot().saturating_sub(clock);
        }
        let counts = u128::from(now().wrapping_sub(counter));
        u64::try_from(counts * MAX_AGE.as_nanos() / passed.as_nanos()).unwrap_or(0)
    });
    trials.sort_unstable();
    trials[TRIALS / 2]
}
