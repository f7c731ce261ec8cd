//! When the keeper, a background worker, extends the mark: early, so that no call waits for the disk. It also sees to
//! it that standbys know the horizon.

use crate::UnixMs;

/// How old the horizon on the page in WAL may be, in milliseconds.
const HORIZON_MS: u64 = 1000;

/// How long until the keeper looks again, in milliseconds. While nobody asks for IDs, the mark may come nearer, but not
/// so near that a backend would extend it.
pub const fn period_ms(reserve_ahead_ms: u64, is_in_use: bool) -> u64 {
    let period = reserve_ahead_ms * if is_in_use { 4 } else { 5 } / 8;
    if period < HORIZON_MS { period } else { HORIZON_MS }
}

/// Whether a quarter of the reservation is used up. `latest` is the later of the clock's time and the last timestamp.
pub const fn is_due(mark: UnixMs, latest: UnixMs, reserve_ahead_ms: u64) -> bool {
    mark.saturating_sub(latest) < reserve_ahead_ms * 3 / 4
}

/// What the keeper does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sleeps for this many milliseconds; `None` if nothing is to be done.
    Sleep(Option<u64>),
    /// Starts the generator, or extends the mark if that [is due](is_due) or if a backend wants it.
    Look,
    /// Only writes the horizon.
    Horizon,
}

/// What the keeper remembers. Times are of a monotonic clock, in milliseconds.
#[derive(Debug, Default)]
pub struct KeeperSchedule {
    /// How many IDs had been issued when it last looked.
    issued: u64,
    /// When it last found that IDs had been issued.
    used: Option<u64>,
    /// When it looks again.
    next: Option<u64>,
    /// Whether IDs were issued between its last two looks.
    is_in_use: bool,
}

impl KeeperSchedule {
    /// What to do now, when this many IDs have been issued. `is_awaited` if standbys wait for the horizon.
    pub fn wake(
        &mut self,
        now: u64,
        issued: u64,
        is_started: bool,
        is_wanted: bool,
        is_awaited: bool,
        keep_warm_ms: u64,
    ) -> Work {
        self.is_in_use = issued != self.issued;
        if self.is_in_use {
            self.used = Some(now);
        }
        if is_started && !self.is_in_use && !is_wanted {
            // It was woken early, and looks again at its time.
            let left = self.next.and_then(|next| next.checked_sub(now)).filter(|&left| left > 0);
            let is_warm = self.used.is_some_and(|used| now - used < keep_warm_ms);
            if left.is_some() || !is_warm {
                return if left.is_none() && is_awaited { Work::Horizon } else { Work::Sleep(left) };
            }
        }
        self.issued = issued;
        Work::Look
    }

    /// How long to sleep after a look, in milliseconds.
    pub fn pause(&mut self, now: u64, reserve_ahead_ms: u64) -> u64 {
        let period = period_ms(reserve_ahead_ms, self.is_in_use);
        self.next = Some(now + period);
        period
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_keeper_looks_while_ids_are_issued_and_for_keep_warm_after_that_and_then_sleeps() {
        let mut keeper = KeeperSchedule::default();
        let mut wake = |now, issued, is_wanted| keeper.wake(now, issued, true, is_wanted, false, 2000);
        assert_eq!(wake(0, 0, false), Work::Sleep(None), "nobody has asked yet");
        assert_eq!(wake(100, 5, false), Work::Look);
        assert_eq!(keeper.pause(100, 1000), 500, "half of the reservation");
        let mut wake = |now, issued, is_wanted| keeper.wake(now, issued, true, is_wanted, false, 2000);
        assert_eq!(wake(400, 5, false), Work::Sleep(Some(200)), "woken early");
        assert_eq!(wake(400, 5, true), Work::Look, "a backend wants it");
        assert_eq!(wake(600, 5, false), Work::Look);
        assert_eq!(keeper.pause(600, 1000), 625, "nobody asks meanwhile");
        assert_eq!(keeper.wake(2099, 5, true, false, false, 2000), Work::Look, "it is still warm");
        keeper.pause(2099, 1000);
        assert_eq!(keeper.wake(2724, 5, true, false, false, 2000), Work::Sleep(None), "it is warm no more");
        assert_eq!(keeper.wake(2724, 5, false, false, false, 2000), Work::Look, "it has to start");
    }

    #[test]
    fn a_keeper_that_is_warm_no_more_writes_the_horizon_until_standbys_have_it() {
        let mut keeper = KeeperSchedule::default();
        let mut wake = |now, is_awaited| keeper.wake(now, 0, true, false, is_awaited, 2000);
        assert_eq!(wake(0, true), Work::Horizon);
        assert_eq!(keeper.pause(0, 60_000), 1000, "however seldom the mark is extended");
        let mut wake = |now, is_awaited| keeper.wake(now, 0, true, false, is_awaited, 2000);
        assert_eq!(wake(999, true), Work::Sleep(Some(1)), "woken early");
        assert_eq!(wake(1000, true), Work::Horizon);
        assert_eq!(wake(1000, false), Work::Sleep(None));
        assert_eq!(keeper.wake(1000, 1, true, false, true, 2000), Work::Look, "the mark, too");
    }

    #[test]
    fn an_extension_is_due_when_a_quarter_of_the_reservation_is_used_up() {
        assert!(!is_due(12_000, 10_500, 2000));
        assert!(is_due(12_000, 10_501, 2000));
        assert!(is_due(12_000, 13_000, 2000));
    }
}
