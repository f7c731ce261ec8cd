//! The transaction of this process, as far as it has drawn IDs: it holds back the horizon until it has ended.
//!
//! A transaction *enters* before it takes its first ID, on the slow path of [`super::issuer`]. The fast path only asks
//! whether it [`has_entered`]. PostgreSQL calls [`on_end`] when the rows of the transaction have become visible.

use crate::config::gucs;
use crate::shared::writers::{Writer, prepared, writers};
use crate::shared::{shared, without_ids};
use pgrx::prelude::*;
use snowflake_core::Position;
use snowflake_core::issue::generator::Generator;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    // Not pgrx's binding, which would catch errors in each transaction: it raises none.
    fn IsInParallelMode() -> bool;
}

/// Whether the transaction of this process has entered; always, if transactions are not tracked. Relaxed: a process has
/// one thread.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Tracks transactions, if the configuration says so. Only while preloading: processes inherit the callback.
pub fn watch() {
    if gucs::track_writers() {
        // SAFETY: the callback takes any event, and no argument.
        unsafe { pg_sys::RegisterXactCallback(Some(on_end), std::ptr::null_mut()) };
    } else {
        ENTERED.store(true, Ordering::Relaxed);
    }
}

/// Whether this process may take IDs at once.
#[inline]
pub fn has_entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// Whether the transaction of this process holds the horizon back, by an ID of its own or of a parallel worker.
pub fn holds_horizon() -> bool {
    gucs::track_writers() && writers().get(this_process().0).is_some_and(|writer| writer.first.get().is_some())
}

/// An entry that was made for the ID that is taken next.
pub struct Entering {
    /// The entry, if no other process shares it.
    entry: Option<&'static Writer>,
}

/// Enters the transaction, unless it has entered. To be called before a position is taken.
pub fn enter(generator: &Generator) -> Option<Entering> {
    if has_entered() {
        return None;
    }
    let writer = writer();
    let is_first = writer.first.enter(generator);
    ENTERED.store(true, Ordering::Relaxed);
    // SAFETY: reads variables of this process.
    let may_share = unsafe { IsInParallelMode() };
    Some(Entering { entry: Some(writer).filter(|_| is_first && !may_share) })
}

impl Entering {
    /// Records the first position that was taken.
    pub fn settle(self, first: Position) {
        if let Some(writer) = self.entry {
            writer.first.settle(first);
        }
    }
}

/// Lowers what this transaction has entered. To be called before a position of the history may be taken.
pub fn lower(least: Position) {
    if gucs::track_writers() {
        writer().first.lower(least);
    }
}

/// The entry of the transaction: in a process of a parallel query, the leader's, whose transaction inserts the rows.
fn writer() -> &'static Writer {
    // mutant: leader-entered
    let (number, pid) = leader().unwrap_or_else(this_process);
    let writer = &writers()[number];
    writer.pid.store(pid, Ordering::Relaxed);
    writer
}

/// The number of the process among those that can run transactions, and its ID.
fn this_process() -> (usize, i32) {
    // SAFETY: both are set when the process starts.
    let (number, pid) = unsafe {
        // Numbered from 1 on.
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        let number = pg_sys::MyBackendId.wrapping_sub(1);
        // Numbered from 0 on.
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        let number = pg_sys::MyProcNumber;
        (number, pg_sys::MyProcPid)
    };
    (usize::try_from(number).expect("the number of a backend"), pid)
}

/// The number and the ID of the leader of a parallel query; `None` in other processes than its workers.
fn leader() -> Option<(usize, i32)> {
    // SAFETY: all of this is set when a parallel worker starts: it has its PGPROC, and joins the group of its leader
    // before it does anything else. Other processes have the number -1.
    let (number, pid) = unsafe {
        if pg_sys::ParallelWorkerNumber < 0 {
            return None;
        }
        // Numbered from 1 on.
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        let number = pg_sys::ParallelLeaderBackendId - 1;
        // Numbered from 0 on.
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        let number = pg_sys::ParallelLeaderProcNumber;
        (number, (*(*pg_sys::MyProc).lockGroupLeader).pid)
    };
    Some((usize::try_from(number).expect("the number of a backend"), pid))
}

/// Called by PostgreSQL at each step of the end of a transaction. It raises errors only before one is prepared.
unsafe extern "C-unwind" fn on_end(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::*;
    match event {
        XACT_EVENT_PRE_PREPARE => begin_prepare(),
        XACT_EVENT_PREPARE => {
            hand_over();
            leave();
        }
        // The rows are visible, or never will be.
        // mutant: leave-after-commit
        // mutant: leave-after-commit-in-wal
        XACT_EVENT_COMMIT | XACT_EVENT_ABORT => leave(),
        // The rows of a parallel worker belong to the transaction of its leader.
        XACT_EVENT_PARALLEL_COMMIT | XACT_EVENT_PARALLEL_ABORT => ENTERED.store(false, Ordering::Relaxed),
        _ => {}
    }
}

/// Clears the entry. Also without an ID of this process: workers of a parallel query may have drawn some.
fn leave() {
    ENTERED.store(false, Ordering::Relaxed);
    let Some(writer) = writers().get(this_process().0) else { return };
    if writer.first.get().is_some() {
        writer.first.clear();
    }
    if writer.preparing.load(Ordering::Relaxed) != 0 {
        writer.preparing.store(0, Ordering::Release);
    }
    // Also after a transaction without an ID: it may have ended a prepared one.
    // mutant: readers-woken
    if shared().waiting.take() {
        shared().ended.wake_all();
    }
}

/// Announces which transaction will be prepared, even one without an ID: a prepared transaction that nobody has
/// announced is older than the server's memory. PostgreSQL keeps with it that it has drawn no ID.
#[pg_guard]
extern "C-unwind" fn begin_prepare() {
    // SAFETY: in a transaction, which has an ID by now.
    let transaction = unsafe { pg_sys::GetTopTransactionIdIfAny() };
    let entry = writer();
    entry.preparing.store(transaction.into_inner(), Ordering::Release);
    // mutant: prepared-without-id
    if entry.first.get().is_none() {
        without_ids::note();
    }
}

/// Hands the entry to the transaction that was prepared.
fn hand_over() {
    let entry = writer();
    let transaction = entry.preparing.load(Ordering::Relaxed);
    if let Some((_, prepared)) = prepared().find(|&(prepared, _)| prepared == transaction) {
        // mutant: prepared-holds
        prepared.first.copy(&entry.first);
        prepared.transaction.store(transaction, Ordering::Release);
    }
}
