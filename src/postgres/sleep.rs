//! How a process sleeps, and what `pg_stat_activity` shows meanwhile.

use pgrx::prelude::*;
use std::ffi::c_long;
use std::time::{Duration, Instant};

/// Shorter than any sleep.
const BRIEF: Duration = Duration::from_micros(5);

/// Shorter sleeps are exact to well under a tick, and need no latch.
pub const SHORT: Duration = Duration::from_millis(2);

/// A sleeper looks at the clock at least this often, since it may be set at any time.
const LONG: Duration = Duration::from_millis(20);

/// Sleeps until the clock may be there: for this time, or less if something sets the latch. Can be cancelled like any
/// query.
pub fn sleep(time: Duration) {
    if time < BRIEF {
        std::hint::spin_loop();
    } else if time < SHORT {
        with_wait_event(WaitEvent::Clock, || pause(time));
    } else {
        on_latch(Some(time.min(LONG)), WaitEvent::Clock);
    }
    // mutant: wait-cancelled
    pgrx::check_for_interrupts!();
}

/// Sleeps until the latch of this process is set, or for this time, and shows this event meanwhile. Ends the process if
/// the postmaster has ended.
pub fn on_latch(at_most: Option<Duration>, event: WaitEvent) {
    let mut events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;
    let mut timeout = -1;
    if let Some(time) = at_most {
        events |= pg_sys::WL_TIMEOUT;
        timeout = c_long::try_from(time.as_millis()).unwrap_or(c_long::MAX);
    }
    // SAFETY: PostgreSQL gives each process its latch when it starts, on which it can wait at any time.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events.cast_signed(), timeout, event.number());
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

/// Sleeps for this time, even if something sets the latch. Can be cancelled like any query.
pub fn whole(time: Duration, event: WaitEvent) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        // Rounded up: a wait of less than a millisecond would be none.
        on_latch(Some(left + Duration::from_millis(1)), event);
        pgrx::check_for_interrupts!();
    }
}

/// Sleeps for this time, or less if a signal comes. For short times: nothing else ends it.
pub fn pause(time: Duration) {
    // SAFETY: a system call that any process may make at any time.
    unsafe { pg_sys::pg_usleep(c_long::try_from(time.as_micros()).unwrap_or(c_long::MAX)) };
}

/// Shows this event while the work is done.
pub fn with_wait_event<T>(event: WaitEvent, work: impl FnOnce() -> T) -> T {
    show_wait_event(event.number());
    let done = work();
    show_wait_event(0);
    done
}

/// What `pg_stat_activity` shows of a process that waits.
#[derive(Clone, Copy)]
pub enum WaitEvent {
    /// Waits for the clock.
    Clock,
    /// Waits for another process, which writes the mark.
    Mark,
    /// Waits for the disk, while it writes the mark.
    MarkWrite,
    /// Waits, as the keeper, for something to do.
    KeeperMain,
    /// Waits, as the registry client, for something to do.
    RegistryMain,
    /// Waits, as the worker of a migration, for its next step.
    AdoptMain,
    /// Waits for another server: the registry, or one of a fleet.
    Remote,
    /// Waits, as a reader, for rows.
    Poll,
}

impl WaitEvent {
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    pub fn number(self) -> u32 {
        const COUNT: usize = WaitEvent::Poll as usize + 1;
        static NUMBERS: [once_cell::sync::OnceCell<u32>; COUNT] = [const { once_cell::sync::OnceCell::new() }; COUNT];
        let name = match self {
            Self::Clock => c"SnowflakeClock",
            Self::Mark => c"SnowflakeMark",
            Self::MarkWrite => c"SnowflakeMarkWrite",
            Self::KeeperMain => c"SnowflakeKeeperMain",
            Self::RegistryMain => c"SnowflakeRegistryMain",
            Self::AdoptMain => c"SnowflakeAdoptMain",
            Self::Remote => c"SnowflakeRemote",
            Self::Poll => c"SnowflakePoll",
        };
        // SAFETY: returns the number of this name, a C string; the same one in every process.
        *NUMBERS[self as usize].get_or_init(|| unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) })
    }

    /// Before PostgreSQL 17, events of extensions have no names.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    pub fn number(self) -> u32 {
        pg_sys::PG_WAIT_EXTENSION
    }
}

/// As pgstat_report_wait_start() and _end() do, which are inline functions.
fn show_wait_event(event: u32) {
    // SAFETY: points to a word of this process, as soon as it has started. Others only read it.
    unsafe { pg_sys::my_wait_event_info.write_volatile(event) };
}
