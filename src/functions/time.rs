//! Conversions between Unix milliseconds and PostgreSQL's types.

use pgrx::prelude::*;
use pgrx::{IntoDatum, direct_function_call};
use snowflake_core::UnixMs;
use std::ffi::CStr;

/// 2000-01-01T00:00:00Z, where PostgreSQL's timestamps begin (`POSTGRES_EPOCH_JDATE`), in Unix milliseconds.
const POSTGRES_EPOCH_MS: i64 = 946_684_800_000;

/// Unix milliseconds as a timestamptz.
pub fn timestamptz(at: UnixMs) -> TimestampWithTimeZone {
    timestamptz_us(at.saturating_mul(1000))
}

/// Unix microseconds as a timestamptz.
pub fn timestamptz_us(at: u64) -> TimestampWithTimeZone {
    i64::try_from(at)
        .ok()
        .and_then(|micros| TimestampWithTimeZone::try_from(micros - POSTGRES_EPOCH_MS * 1000).ok())
        .expect("every layout ends long before PostgreSQL's timestamps do")
}

/// The Unix millisecond of a finite time; `None` before 1970.
pub fn unix_ms(at: TimestampWithTimeZone) -> Option<UnixMs> {
    let micros: pg_sys::TimestampTz = at.into();
    u64::try_from(micros.div_euclid(1000) + POSTGRES_EPOCH_MS).ok()
}

/// The Unix microsecond of a time of PostgreSQL's.
pub fn unix_us(at: pg_sys::TimestampTz) -> i64 {
    at.saturating_add(POSTGRES_EPOCH_MS * 1000)
}

/// Milliseconds as an interval.
pub fn interval(ms: u64) -> Interval {
    interval_us(ms.saturating_mul(1000))
}

/// Microseconds as an interval.
pub fn interval_us(us: u64) -> Interval {
    Interval::from_micros(i64::try_from(us).unwrap_or(i64::MAX))
}

/// The text of an interval, for messages.
pub fn display_interval(length: Interval) -> String {
    // SAFETY: takes an interval, and returns a C string.
    let text: Option<&CStr> = unsafe { direct_function_call(pg_sys::interval_out, &[length.into_datum()]) };
    text.unwrap_or_default().to_string_lossy().into_owned()
}
