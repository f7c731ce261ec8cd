//! The server's clocks, as they are. [`crate::trusted_clock`] decides whether to trust them.

use snowflake_core::UnixMs;
use std::time::Duration;

/// Seconds and nanoseconds of a clock; zeros for a time before 1970, which is before every epoch.
#[inline]
fn read(clock: libc::clockid_t) -> (u64, u64) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Not the standard library, whose checks cost a tenth of an ID.
    // SAFETY: writes to `time` only, and cannot fail for clocks that every Linux has.
    unsafe { libc::clock_gettime(clock, &mut time) };
    if time.tv_sec < 0 { (0, 0) } else { (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned()) }
}

/// The time since 1970.
pub fn since_1970() -> Duration {
    let (seconds, nanoseconds) = read(libc::CLOCK_REALTIME);
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}

/// Milliseconds since 1970.
#[inline]
pub fn unix_ms() -> UnixMs {
    let (seconds, nanoseconds) = read(libc::CLOCK_REALTIME);
    seconds * 1000 + nanoseconds / 1_000_000
}

/// The time since the machine booted, with the time in which it slept. Nobody can set this clock.
pub fn since_boot() -> Duration {
    let (seconds, nanoseconds) = read(libc::CLOCK_BOOTTIME);
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}

/// Milliseconds of that clock.
pub fn monotonic_ms() -> u64 {
    microseconds(since_boot()) / 1000
}

/// A length of time in whole microseconds.
pub fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
