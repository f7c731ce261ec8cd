//! The server's clock.

use snowflake_core::UnixMs;
use std::time::Duration;

/// Seconds and nanoseconds since 1970; zeros for a clock that stands before it, which no epoch does.
#[inline]
fn read() -> (u64, u64) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Not by the standard library, whose checks cost a tenth of a whole ID.
    // SAFETY: writes to `time` and nothing else; it can't fail for a clock that every Linux has.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    if time.tv_sec < 0 { (0, 0) } else { (time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned()) }
}

/// The time since 1970.
pub fn since_1970() -> Duration {
    let (seconds, nanoseconds) = read();
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}

/// Milliseconds since 1970.
#[inline]
pub fn unix_ms() -> UnixMs {
    let (seconds, nanoseconds) = read();
    seconds * 1000 + nanoseconds / 1_000_000
}
