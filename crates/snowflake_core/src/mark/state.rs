//! What the processes of a server know of its mark, in shared memory.

use crate::UnixMs;
use crate::mark::reservation::Extension;
use crate::mark::wal_page::PageHorizon;
use crate::server::identity::Inode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Written under the lock of the mark, and read by all.
#[derive(Debug, Default)]
pub struct MarkState {
    /// A server without a certain mark issues nothing before this time; 0 once it has passed.
    pub(super) start_not_before: AtomicU64,
    /// Where its IDs begin then: a configuration that is reloaded meanwhile must not lower it.
    pub(super) start_floor: AtomicU64,
    /// A server whose mark was reset by hand to far ahead of the clock issues nothing before this time: until the
    /// generator starts, another reset can take that back.
    pub(super) reset_not_before: AtomicU64,
    /// How long the last two writes took, in milliseconds; the last one first.
    last_writes_ms: [AtomicU64; 2],
    /// The last [`Extension`].
    extension: [AtomicU64; 3],
    /// The inode of the directory, from the start of the generator on.
    directory: [AtomicU64; 2],
    /// The revision of the record that was written last.
    pub(super) revision: AtomicU64,
    /// Its mark, which is durable.
    pub(super) flushed: AtomicU64,
    /// The number of its life.
    pub(super) life: AtomicU64,
    /// The highest mark of another worker in it.
    pub(super) others: AtomicU64,
    /// Whether the last write has failed.
    pub(super) write_failed: AtomicBool,
    /// The mark in WAL that counts for this worker, as it was found or written last; 0 if there is none.
    pub(super) in_wal: AtomicU64,
    /// The horizon is not below this time: other workers have issued IDs up to there. 0 if this server has begun above
    /// them.
    horizon_from: AtomicU64,
    /// The last horizon of the cluster before this start; 0 if none is known.
    last_horizon: AtomicU64,
    /// The [`decision`](crate::mark::trace::decision) that was told last, if it was a refusal.
    pub(super) refusal: AtomicU64,
    /// The mark in WAL before a start that failed, and the mark that this start wrote there; 0 for none.
    pub(super) unfinished_start: [AtomicU64; 2],
}

impl MarkState {
    /// The time before which this server issues nothing; 0 if it does not wait.
    pub fn not_before(&self) -> UnixMs {
        self.start_not_before.load(Relaxed).max(self.reset_not_before.load(Relaxed))
    }

    /// The time below which there is no horizon, since other workers of the cluster have had one up to there; 0 if this
    /// server has begun above them.
    pub fn horizon_from(&self) -> UnixMs {
        self.horizon_from.load(Relaxed)
    }

    /// The last horizon of the cluster before this start, an ID: all rows below it were committed before. `None` if
    /// none is known.
    pub fn last_horizon(&self) -> Option<u64> {
        Some(self.last_horizon.load(Relaxed)).filter(|&id| id > 0)
    }

    /// Under the lock: keeps what a start that begins here has found in WAL.
    pub(super) fn begin_horizon(&self, begin: UnixMs, others: UnixMs, found: PageHorizon) {
        let is_below = begin < others;
        self.horizon_from.store(if is_below { others } else { 0 }, Relaxed);
        let last = if let PageHorizon::Below(id) = found
            && !is_below
        {
            id
        } else {
            0
        };
        self.last_horizon.store(last, Relaxed);
    }

    /// Whether the mark was reset by hand, and nothing may be issued for now.
    pub fn is_reset(&self) -> bool {
        self.reset_not_before.load(Relaxed) > 0
    }

    /// Lets nothing be issued before this time, after a reset of the mark by hand; 0 ends the wait.
    pub fn wait_after_reset(&self, until: UnixMs) {
        self.reset_not_before.store(until, Relaxed);
    }

    /// How long the last two writes of the mark took, in milliseconds; the last one first.
    pub fn last_writes_ms(&self) -> [u64; 2] {
        [0, 1].map(|i| self.last_writes_ms[i].load(Relaxed))
    }

    pub(super) fn keep_write_ms(&self, took: u64) {
        let [last, previous] = &self.last_writes_ms;
        previous.store(last.swap(took, Relaxed), Relaxed);
    }

    pub(super) fn extension(&self) -> Extension {
        let [at, needed, step_ms] = [0, 1, 2].map(|i| self.extension[i].load(Relaxed));
        Extension { at, needed, step_ms }
    }

    pub(super) fn set_extension(&self, Extension { at, needed, step_ms }: Extension) {
        for (word, number) in self.extension.iter().zip([at, needed, step_ms]) {
            word.store(number, Relaxed);
        }
    }

    pub(super) fn directory(&self) -> Inode {
        let [number, born_ns] = [0, 1].map(|i| self.directory[i].load(Relaxed));
        Inode { number, born_ns }
    }

    pub(super) fn set_directory(&self, Inode { number, born_ns }: Inode) {
        for (word, number) in self.directory.iter().zip([number, born_ns]) {
            word.store(number, Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_writes_down_others_read() {
        let state = MarkState::default();
        assert_eq!((state.is_reset(), state.not_before()), (false, 0));
        state.wait_after_reset(1000);
        assert_eq!((state.is_reset(), state.not_before()), (true, 1000));
        state.keep_write_ms(7);
        state.keep_write_ms(8);
        assert_eq!(state.last_writes_ms(), [8, 7]);
        let extension = Extension { at: 1, needed: 2, step_ms: 3 };
        state.set_extension(extension);
        assert_eq!(state.extension(), extension);
        let directory = Inode { number: 4, born_ns: 5 };
        state.set_directory(directory);
        assert_eq!(state.directory(), directory);
    }
}
