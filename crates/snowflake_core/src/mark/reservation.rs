//! How far ahead of the clock the durable mark is.
//!
//! Every timestamp issued is below the mark. After a crash the server begins at the mark, and so above everything that
//! it can have issued, whatever its clock shows. The mark is written seconds ahead, so that a single ID needs no file,
//! as PostgreSQL's sequences do with `SEQ_LOG_VALS` (src/backend/commands/sequence.c).

use crate::UnixMs;

/// The least distance, in milliseconds, by which an extension passes the timestamp that needs it.
///
/// Longer than the write takes, and much shorter than `reserve_ahead`. A server that restarts at its mark needs an
/// extension at once. If each took the mark a whole `reserve_ahead` further, quick crashes would leave it far ahead of
/// the clock.
const LEAST_STEP_MS: u64 = 50;

/// The new durable mark, for a server whose clock shows `now` and that needs the timestamp `needed`. Never below the
/// old `mark`, even if the clock was set back: everything up to there may be issued while the new mark is being
/// written. `step_ms` is from [`step_ms`].
pub fn next_mark(now: UnixMs, needed: UnixMs, mark: UnixMs, reserve_ahead_ms: u64, step_ms: u64) -> UnixMs {
    // mutant: mark-never-falls
    now.saturating_add(reserve_ahead_ms).max(needed.saturating_add(step_ms)).max(mark)
}

/// An extension of the mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// When it happened, in milliseconds of a monotonic clock.
    pub at: u64,
    /// The timestamp that needed it.
    pub needed: UnixMs,
    /// How far it passed that timestamp, in milliseconds.
    pub step_ms: u64,
}

/// How far the next extension should pass the timestamp that needs it. `next` has that timestamp and its time, and a
/// step of 0.
///
/// If timestamps are used up more than twice as fast as the clock runs, callers would wait for the disk again and
/// again. Each step is then twice as long as the last one, up to `reserve_ahead`, but not past `now` plus `borrow_ms`,
/// where IDs would be refused after a crash. `borrow_ms` is `max_borrow` if full ticks are borrowed, and 0 otherwise:
/// repeated crashes must not drive a server ahead of its clock.
pub fn step_ms(last: Extension, next: Extension, now: UnixMs, reserve_ahead_ms: u64, borrow_ms: u64) -> u64 {
    let used = next.needed.saturating_sub(last.needed);
    let is_fast = last.step_ms > 0 && used > next.at.saturating_sub(last.at).saturating_mul(2);
    let room = now.saturating_add(borrow_ms).saturating_sub(next.needed);
    // mutant: steps-within-borrow
    let longer = if is_fast { last.step_ms.saturating_mul(2).min(reserve_ahead_ms).min(room) } else { 0 };
    longer.max(LEAST_STEP_MS)
}

/// The least step of a clock that counts as a jump, in milliseconds: a clock is also adjusted by running faster.
const LEAST_JUMP_MS: u64 = 2000;

/// Whether timestamps have gone ahead faster than a monotonic clock from one extension to the next, and by more than
/// may be borrowed: the clock was set ahead, or somebody has had IDs begin later. None is issued between the last ones
/// before the jump and the one that needs the extension, unless the clock is set back before the first ID after it.
pub fn jumps(last: Extension, next: Extension, borrow_ms: u64) -> bool {
    let passed = next.at.saturating_sub(last.at);
    next.needed.saturating_sub(last.needed) > passed.saturating_add(borrow_ms).saturating_add(LEAST_JUMP_MS)
}

/// How far ahead to reserve, after the last two writes of the mark took this long (in milliseconds).
///
/// If a disk takes longer than `reserve_ahead`, the clock overtakes each mark before it is on disk. Then more is
/// reserved. One slow write is not enough for that: IDs after a crash begin at the mark, and should not be further
/// ahead because a disk was busy once. Never more than `max_borrow`, since IDs would be refused.
pub fn reserve_ms(reserve_ahead_ms: u64, max_borrow_ms: u64, last_writes_ms: [u64; 2]) -> u64 {
    let both_took = last_writes_ms[0].min(last_writes_ms[1]);
    reserve_ahead_ms.max(both_took.saturating_add(both_took / 2).min(max_borrow_ms))
}

/// When callers should extend the mark, while there is still room: after three quarters of the way. The keeper does it
/// half-way.
pub fn soft_limit(now: UnixMs, needed: UnixMs, mark: UnixMs) -> UnixMs {
    let from = now.max(needed).min(mark);
    mark - (mark - from) / 4
}

/// How long a server waits before its first ID if it finds no certain mark, in milliseconds: as long as a restart takes
/// IDs ahead of a right clock, by a reservation that is rounded up to whole ticks at both ends.
pub fn start_wait_ms(least_ms: u64, reserve_ahead_ms: u64, tick_ms: u64) -> u64 {
    least_ms.max(reserve_ahead_ms + 2 * (tick_ms - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_runs_reserve_ahead_in_front_of_the_clock() {
        assert_eq!(next_mark(10_000, 10_000, 0, 2000, 50), 12_000);
    }

    #[test]
    fn a_mark_always_covers_the_timestamp_that_needs_it() {
        assert_eq!(next_mark(10_000, 14_000, 0, 2000, 50), 14_050);
        assert_eq!(next_mark(0, u64::MAX, 0, 2000, 50), u64::MAX);
    }

    #[test]
    fn steps_grow_only_while_timestamps_are_used_up_faster_than_the_clock_goes() {
        let last = Extension { at: 1000, needed: 14_000, step_ms: 50 };
        let next = |at, needed| step_ms(last, Extension { at, needed, step_ms: 0 }, 12_000, 2000, 5000);
        assert_eq!(next(1012, 14_037), 100, "borrowed ticks");
        assert_eq!(next(1012, 14_024), 50, "twice as fast as the clock, and not faster");
        assert_eq!(next(1037, 14_037), 50, "ahead of the clock, at its pace");
        assert_eq!(next(1001, 14_000), 50, "nothing used");
        assert_eq!(next(1012, 40_000), 50, "an advance past what may be borrowed");
        assert_eq!(next(1012, 16_960), 50, "near the end of it");
        let not_borrowed = step_ms(last, Extension { at: 1012, needed: 14_037, step_ms: 0 }, 12_000, 2000, 0);
        assert_eq!(not_borrowed, 50, "where nothing is borrowed");
        let first = step_ms(Extension::default(), Extension { at: 1, needed: 14_000, step_ms: 0 }, 12_000, 2000, 5000);
        assert_eq!(first, 50, "after a start");
    }

    #[test]
    fn steps_grow_up_to_reserve_ahead() {
        let mut last = Extension { at: 0, needed: 10_000, step_ms: 50 };
        for expected in [100, 200, 400, 800, 1000, 1000] {
            let mut next = Extension { at: last.at + 1, needed: last.needed + last.step_ms, step_ms: 0 };
            next.step_ms = step_ms(last, next, next.needed, 1000, 5000);
            assert_eq!(next.step_ms, expected);
            last = next;
        }
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
        assert_eq!(next_mark(7_000, 11_000, 12_000, 2000, 50), 12_000);
    }

    #[test]
    fn quick_crashes_do_not_drive_the_mark_away_from_the_clock() {
        let reserve_ahead = 2000;
        let mut mark = 0;
        for crash in 0..20 {
            let now = 100_000 + crash * 100;
            // The server comes back, and needs its first timestamp covered: the mark itself.
            mark = next_mark(now, mark.max(now), 0, reserve_ahead, LEAST_STEP_MS);
            assert!(mark - now <= reserve_ahead, "{} ms ahead after crash {crash}", mark - now);
        }
    }

    #[test]
    fn timestamps_jump_if_the_clock_has_not_gone_on_by_as_much() {
        let jumps = |passed: u64, used: u64, borrow_ms| {
            let last = Extension { at: 1000, needed: 50_000, step_ms: 50 };
            jumps(last, Extension { at: 1000 + passed, needed: 50_000 + used, step_ms: 0 }, borrow_ms)
        };
        assert!(!jumps(1000, 1000, 0), "the clock's pace");
        assert!(!jumps(3_600_000, 3_600_000, 0), "an idle hour");
        assert!(!jumps(1000, 3000, 0) && jumps(1000, 3001, 0), "a clock that was set ahead");
        assert!(!jumps(1000, 7000, 5000) && jumps(1000, 8001, 5000), "where ticks are borrowed");
    }

    #[test]
    fn an_extension_is_due_at_three_quarters_of_the_way_to_the_mark() {
        assert_eq!(soft_limit(10_000, 10_000, 12_000), 11_500);
        assert_eq!(soft_limit(10_000, 11_960, 12_000), 11_990);
        assert_eq!(soft_limit(10_000, 15_000, 12_000), 12_000, "a mark that is too low already");
    }

    #[test]
    fn a_wait_is_as_long_as_restarts_take_ids_ahead_of_the_clock() {
        assert_eq!(start_wait_ms(0, 100, 1), 100);
        assert_eq!(start_wait_ms(5000, 2000, 1), 5000, "as long as IDs may be ahead");
        assert_eq!(start_wait_ms(0, 2000, 10), 2018, "rounded to ticks of 10 ms at both ends");
        assert_eq!(start_wait_ms(0, 2000, 1000), 3998);
    }
}
