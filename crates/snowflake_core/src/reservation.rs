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

/// The new durable mark, for a server whose clock says `now` and that needs a timestamp of `needed` covered. Never below the
/// old `mark`, also when the clock has been set back: everything up to there may be issued while this is being written.
pub fn next_mark(now: UnixMs, needed: UnixMs, mark: UnixMs, reserve_ahead_ms: u64) -> UnixMs {
    now.saturating_add(reserve_ahead_ms).max(needed.saturating_add(LEAST_STEP_MS)).max(mark)
}

/// How far ahead to reserve, when the last two writes of the mark took so long (in milliseconds).
///
/// On a disk that takes longer than `reserve_ahead`, a mark has passed before it is there, and would have to be written again
/// at once, and again. One slow write is not enough to reserve more: after a crash IDs begin at the mark, and they should
/// not be further ahead of the clock than they were meant to be because a disk was busy once; nor ever by more than
/// `max_borrow`, since they would be refused.
pub fn reserve_ms(reserve_ahead_ms: u64, max_borrow_ms: u64, last_writes_ms: [u64; 2]) -> u64 {
    let both_took = last_writes_ms[0].min(last_writes_ms[1]);
    reserve_ahead_ms.max(both_took.saturating_add(both_took / 2).min(max_borrow_ms))
}

/// From when on a caller should have the mark extended, while there is still room: three quarters of the way. Half-way the
/// keeper has done it, if there is one.
pub fn soft_limit(now: UnixMs, needed: UnixMs, mark: UnixMs) -> UnixMs {
    let from = now.max(needed).min(mark);
    mark - (mark - from) / 4
}

/// How far above the clock, in milliseconds, a server begins that can't know what was issued before: it finds no mark, or
/// one from an earlier timeline. With a clock that is right, what was issued is at most as far ahead of it as a restart
/// takes a server: by its reservation, and to whole ticks at both ends. Where full ticks are borrowed, or a restart takes
/// less time than the tick that it uses up, it can be as far ahead as it may be at all.
pub fn start_margin_ms(
    least_start_margin_ms: u64,
    reserve_ahead_ms: u64,
    tick_ms: u64,
    borrows_ticks: bool,
    max_borrow_ms: u64,
) -> u64 {
    let restarted_ms = reserve_ahead_ms + 2 * (tick_ms - 1);
    let allowed_ms = if borrows_ticks || tick_ms > LEAST_STEP_MS { max_borrow_ms } else { 0 };
    least_start_margin_ms.max(restarted_ms).max(allowed_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_runs_reserve_ahead_in_front_of_the_clock() {
        assert_eq!(next_mark(10_000, 10_000, 0, 2000), 12_000);
    }

    #[test]
    fn a_mark_always_covers_the_timestamp_that_needs_it() {
        assert_eq!(next_mark(10_000, 14_000, 0, 2000), 14_050);
        assert_eq!(next_mark(0, u64::MAX, 0, 2000), u64::MAX);
    }

    #[test]
    fn only_a_disk_that_stays_slow_makes_the_reservation_longer() {
        assert_eq!(reserve_ms(2000, 5000, [10, 10]), 2000);
        assert_eq!(reserve_ms(2000, 5000, [9000, 10]), 2000);
        assert_eq!(reserve_ms(2000, 5000, [1000, 1200]), 2000);
        assert_eq!(reserve_ms(2000, 5000, [9000, 2000]), 3000);
        assert_eq!(reserve_ms(2000, 5000, [9000, 9000]), 5000);
        assert_eq!(reserve_ms(2000, 0, [9000, 9000]), 2000);
    }

    #[test]
    fn a_mark_is_never_lowered_by_a_clock_that_was_set_back() {
        assert_eq!(next_mark(7_000, 11_000, 12_000, 2000), 12_000);
    }

    #[test]
    fn quick_crashes_do_not_drive_the_mark_away_from_the_clock() {
        let reserve_ahead = 2000;
        let mut mark = 0;
        for crash in 0..20 {
            let now = 100_000 + crash * 100;
            // The server comes back, and needs its first timestamp covered: the mark itself.
            mark = next_mark(now, mark.max(now), 0, reserve_ahead);
            assert!(mark - now <= reserve_ahead, "{} ms ahead after crash {crash}", mark - now);
        }
    }

    #[test]
    fn an_extension_is_due_at_three_quarters_of_the_way_to_the_mark() {
        assert_eq!(soft_limit(10_000, 10_000, 12_000), 11_500);
        assert_eq!(soft_limit(10_000, 11_960, 12_000), 11_990);
        assert_eq!(soft_limit(10_000, 15_000, 12_000), 12_000, "a mark that is too low already");
    }

    #[test]
    fn the_start_margin_is_never_shorter_than_the_reservation() {
        assert_eq!(start_margin_ms(1000, 2000, 1, false, 5000), 2000);
        assert_eq!(start_margin_ms(1000, 100, 1, false, 5000), 1000);
    }

    #[test]
    fn the_start_margin_is_as_long_as_ids_can_be_ahead_of_the_clock() {
        assert_eq!(start_margin_ms(1000, 2000, 1, true, 5000), 5000, "full ticks are borrowed");
        assert_eq!(start_margin_ms(1000, 2000, 10, false, 5000), 2018, "rounded to ticks of 10 ms at both ends");
        assert_eq!(start_margin_ms(1000, 2000, 1000, false, 5000), 5000, "each restart may take it a tick further");
        assert_eq!(start_margin_ms(1000, 2000, 1000, false, 0), 3998);
    }
}
