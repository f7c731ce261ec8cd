//! The CPU's time-stamp counter (TSC on x86-64, CNTVCT_EL0 on arm64), if the kernel keeps its own time by it.
//!
//! Reading the counter takes half as long as reading the clock. The caller that reads the clock records at which count
//! the tick ends. Other callers only compare the counter with that: see
//! [`Generator::join_open`](snowflake_core::issue::generator::Generator::join_open). A wrong counter can make a
//! timestamp late; it cannot cause duplicates or disorder.
//!
//! PostgreSQL 19 measures by such a counter, too, but on x86-64 alone (`timing_clock_source`). Here it is off by
//! default on arm64, and can be turned on.

use crate::postgres::clock;
use once_cell::sync::OnceCell;
use std::fs;
use std::time::Duration;

/// The longest time for which the counter stands in for the clock. A step of the clock is noticed within it.
pub const MAX_AGE: Duration = Duration::from_millis(1);

/// Where Linux says which counter it keeps time by.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What it says there if it keeps time by the counter of this architecture. It does so only if the counter is steady,
/// and the same on all CPUs.
const COUNTER: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("tsc")
} else if cfg!(target_arch = "aarch64") {
    Some("arch_sys_counter")
} else {
    None
};

/// How many times the counter is compared with the clock, and for how long. The median counts, since the process can be
/// interrupted.
const TRIALS: usize = 5;
const TRIAL: Duration = Duration::from_micros(500);

static MAX_AGE_COUNTS: OnceCell<u64> = OnceCell::new();

/// The count; 0 if there is no counter.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of this architecture has the instruction. The kernel permits it if it keeps time by it, which
    // `measure` has checked.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register. Every CPU of this architecture has it, and Linux permits programs to read it, for its
    // own vDSO. The read may be early by some instructions, which shortens the time.
    unsafe {
        let count: u64;
        core::arch::asm!("mrs {count}, cntvct_el0", count = out(reg) count, options(nomem, nostack, preserves_flags));
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Measures how fast it counts, if it is to be used at all. In the postmaster, for all its children.
pub fn measure() {
    MAX_AGE_COUNTS.get_or_init(|| if is_trusted() { measure_max_age() } else { 0 });
}

/// How far it counts in [`MAX_AGE`]; 0 if it is not to be used.
pub fn max_age() -> u64 {
    MAX_AGE_COUNTS.get().copied().unwrap_or(0)
}

/// How far it counts in a part of [`MAX_AGE`].
pub fn counts_in(time: Duration) -> u64 {
    max_age() * u64::from(time.min(MAX_AGE).subsec_nanos()) / u64::from(MAX_AGE.subsec_nanos())
}

fn is_trusted() -> bool {
    fs::read_to_string(CLOCKSOURCE).is_ok_and(|source| Some(source.trim()) == COUNTER)
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
