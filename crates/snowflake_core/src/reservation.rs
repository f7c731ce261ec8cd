//! How far ahead of the clock the durable mark runs.
//!
//! The mark is a promise made before it is needed: every timestamp issued lies below it. A server that comes back starts
//! at the mark it finds, and so above everything it can have issued, whatever its clock says by then. Writing it
//! ahead, in steps of seconds, is what keeps files off the path of a single ID, as PostgreSQL's own sequences do with
//! `SEQ_LOG_VALS` (src/backend/commands/sequence.c).

use crate::UnixMs;

/// The least distance, in milliseconds, by which an extension passes the timestamp that needs it.
///
/// Generously longer than the write itself, and much shorter than `reserve_ahead`: a server that restarts above its
/// mark needs an extension at once, and if each took the mark a whole `reserve_ahead` further, some quick crashes
/// would leave it far ahead of the clock.
const LEAST_STEP_MS: u64 = 50;

/// The least of [`guard_ms`].
const LEAST_GUARD_MS: u64 = 1000;

/// The new durable mark, for a server whose clock says `now` and that needs a timestamp of `needed` covered.
pub fn next_mark(now: UnixMs, needed: UnixMs, reserve_ahead_ms: u64) -> UnixMs {
    now.saturating_add(reserve_ahead_ms).max(needed.saturating_add(LEAST_STEP_MS))
}

/// How far above the clock, in milliseconds, a server starts that finds no mark, once its clock has got there. It may
/// have had one: the directory may have been lost, or left behind by pg_upgrade. With a clock that is right, what was
/// issued then is at most as far ahead of it as a restart takes a server: by its reservation.
pub fn guard_ms(reserve_ahead_ms: u64) -> u64 {
    reserve_ahead_ms.max(LEAST_GUARD_MS)
}

/// The least timestamp that may be issued after a start, for the mark that was found.
pub fn floor(found: Option<UnixMs>, now: UnixMs, reserve_ahead_ms: u64) -> UnixMs {
    found.unwrap_or_else(|| now.saturating_add(guard_ms(reserve_ahead_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_runs_reserve_ahead_in_front_of_the_clock() {
        assert_eq!(next_mark(10_000, 10_000, 2000), 12_000);
    }

    #[test]
    fn a_mark_always_covers_the_timestamp_that_needs_it() {
        assert_eq!(next_mark(10_000, 14_000, 2000), 14_050);
        assert_eq!(next_mark(0, u64::MAX, 2000), u64::MAX);
    }

    #[test]
    fn quick_crashes_do_not_drive_the_mark_away_from_the_clock() {
        let reserve_ahead = 2000;
        let mut mark = 0;
        for crash in 0..20 {
            let now = 100_000 + crash * 100;
            // The server comes back, and needs its first timestamp covered: the mark itself.
            mark = next_mark(now, floor(Some(mark), now, reserve_ahead).max(now), reserve_ahead);
            assert!(mark - now <= reserve_ahead, "{} ms ahead after crash {crash}", mark - now);
        }
    }

    #[test]
    fn a_server_without_a_mark_starts_above_what_it_can_have_issued_by_a_right_clock() {
        assert_eq!(floor(None, 10_000, 2000), 12_000);
        assert_eq!(floor(None, 10_000, 100), 11_000);
        assert_eq!(floor(Some(5), 10_000, 2000), 5);
    }
}
