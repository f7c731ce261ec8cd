//! Whether readers sleep until a transaction ends.
//!
//! A reader announces itself, looks at the [horizon](super::horizon), and sleeps. A transaction clears its entry, and
//! then asks whether anybody waits. So either the reader sees that the transaction has ended, or it is woken.

use crate::issue::sync::{AtomicU64, Ordering, fence};

/// Whether a reader has announced itself since readers were last woken.
#[derive(Debug)]
pub struct Waiting(AtomicU64);

impl Default for Waiting {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Waiting {
    /// To be called by a reader whom [`take`](Self::take) leads to, before it looks at the horizon.
    pub fn announce(&self) {
        self.0.store(1, Ordering::Relaxed);
        // With the other fence: the look comes after the store, or the question after the end of the transaction.
        // mutant: announced-before-look
        fence(Ordering::SeqCst);
    }

    /// To be called after a transaction has ended. If true, the caller must wake all readers.
    pub fn take(&self) -> bool {
        // mutant: asked-after-end
        fence(Ordering::SeqCst);
        // Read first: the word is on a cache line that others read, too.
        self.0.load(Ordering::Relaxed) != 0 && self.0.swap(0, Ordering::AcqRel) != 0
    }
}
