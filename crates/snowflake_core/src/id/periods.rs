//! Periods of time, for partitions by ranges of the ID.
//!
//! Periods are in UTC, whatever the time zone of a session is, so all callers get the same periods:
//!
//! - Periods of N months begin with every Nth calendar month from January 2000 on, so 3 are the quarters of a year.
//! - Other periods are counted from Monday 2001-01-01T00:00:00Z, so weeks begin on Monday and days at midnight.

use crate::UnixMs;
use crate::id::layout::Layout;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use std::ops::Range;

/// Monday 2001-01-01T00:00:00Z, in Unix seconds: the origin in PostgreSQL's examples of date_bin().
const ORIGIN: i128 = 978_307_200;

/// One past the greatest bigint. From here on, the bits are a negative bigint's.
pub const NEGATIVE: u64 = 1 << 63;

/// How long a period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// Calendar months, at least 1.
    Months(u32),
    /// Seconds, at least 1; a day has 86,400.
    Seconds(u64),
}

impl Every {
    /// The length of PostgreSQL's interval; `None` if it mixes months with days or time, has a fraction of a second, or
    /// is not positive.
    pub fn new(months: i32, days: i32, micros: i64) -> Option<Self> {
        if months != 0 {
            return u32::try_from(months).ok().filter(|_| days == 0 && micros == 0).map(Self::Months);
        }
        let micros = i128::from(days) * 86_400_000_000 + i128::from(micros);
        u64::try_from(micros / 1_000_000).ok().filter(|&s| s > 0 && micros % 1_000_000 == 0).map(Self::Seconds)
    }

    /// When the period of `now` begins, or the `nth` one after it. 0 before 1970, and `UnixMs::MAX` after the year
    /// 9999, where the calendar ends: no layout has either.
    fn start(self, now: UnixMs, nth: u32) -> UnixMs {
        match self {
            Self::Months(months) => {
                let Some(today) = date(now) else { return UnixMs::MAX };
                let month = (i64::from(today.year()) - 2000) * 12 + i64::from(today.month()) - 1;
                let month = (month.div_euclid(months.into()) + i64::from(nth)) * i64::from(months);
                let year = 2000 + month.div_euclid(12);
                if year < 1970 {
                    return 0;
                }
                let first = i16::try_from(year)
                    .ok()
                    .zip(i8::try_from(month.rem_euclid(12) + 1).ok())
                    .and_then(|(year, month)| Date::new(year, month, 1).ok()?.to_zoned(TimeZone::UTC).ok());
                first.and_then(|first| first.timestamp().as_millisecond().try_into().ok()).unwrap_or(UnixMs::MAX)
            }
            Self::Seconds(length) => {
                let length = i128::from(length);
                let periods = (i128::from(now / 1000) - ORIGIN).div_euclid(length) + i128::from(nth);
                UnixMs::try_from((ORIGIN + periods * length).max(0) * 1000).unwrap_or(UnixMs::MAX)
            }
        }
    }
}

fn date(at: UnixMs) -> Option<Date> {
    Some(Timestamp::from_millisecond(at.try_into().ok()?).ok()?.to_zoned(TimeZone::UTC).date())
}

/// The IDs of the period of `now`, and of each of the next `ahead` periods, in a layout whose IDs sort by time. A
/// period is cut at the epoch and at the end of the layout, down to an empty range. If a period begins after the end,
/// the error is when the last tick begins.
pub fn ids(layout: &Layout, every: Every, now: UnixMs, ahead: u32) -> Result<Vec<Range<u64>>, UnixMs> {
    // IDs of 64 bits are negative from some tick on, and do not sort any more.
    let end = (layout.last_tick() + 1).min(NEGATIVE / layout.min_id(1));
    let first_tick = |nth| layout.first_tick_from(every.start(now, nth)).min(end);
    (0..=ahead)
        .map(|nth| match first_tick(nth) {
            tick if tick < end => Ok(layout.min_id(tick)..layout.min_id(first_tick(nth + 1))),
            _ => Err(layout.time_of(end - 1)),
        })
        .collect()
}

/// The parts of a range that no covered range has. Those must ascend and be apart.
pub fn uncovered(wanted: Range<u64>, covered: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    let mut from = wanted.start;
    for range in covered {
        parts.push(from..range.start.min(wanted.end));
        from = from.max(range.end);
    }
    parts.push(from..wanted.end);
    parts.retain(|part| !part.is_empty());
    parts
}

/// The end of the name of a partition that begins at a point in time: the time in UTC, as short as it can be:
/// `20260101`, `20260101_0600` or `20260101_060001`.
pub fn suffix(begin: UnixMs) -> String {
    let Some(at) = begin.try_into().ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()) else {
        return begin.to_string();
    };
    let at = at.to_zoned(TimeZone::UTC);
    let format = match (at.hour(), at.minute(), at.second()) {
        (0, 0, 0) => "%Y%m%d",
        (_, _, 0) => "%Y%m%d_%H%M",
        _ => "%Y%m%d_%H%M%S",
    };
    at.strftime(format).to_string()
}

#[cfg(test)]
mod tests;
