//! The group of this node in a Citus cluster, as the keeper has found it.

use super::text::SharedText;
use crate::config::gucs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The group, in shared memory.
pub struct SharedGroup {
    /// The group, plus 1; 0 until it is known.
    group: AtomicU64,
    /// Whether the node has another group now, or none.
    is_lost: AtomicBool,
    /// Why it is not known.
    reason: SharedText,
}

impl SharedGroup {
    /// Not known.
    pub fn new() -> Self {
        Self { group: AtomicU64::new(0), is_lost: AtomicBool::new(false), reason: SharedText::new() }
    }

    /// The group of this node; `None` until it is known.
    pub fn get(&self) -> Option<u64> {
        self.group.load(Ordering::Acquire).checked_sub(1)
    }

    /// Makes it known. To be called by the keeper.
    pub fn set(&self, group: u64) {
        self.group.store(group + 1, Ordering::Release);
    }

    /// Whether the node has another group now, or none.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Says so. To be called by the keeper.
    pub fn set_lost(&self, is_lost: bool) {
        self.is_lost.store(is_lost, Ordering::Relaxed);
    }

    /// Says why it is not known. To be called by the keeper.
    pub fn set_reason(&self, reason: &str) {
        self.reason.write(reason);
    }

    /// Why it is not known, as a sentence without its full stop.
    pub fn reason(&self) -> String {
        let reason = self.reason.read();
        if reason.is_empty() {
            let database = gucs::citus_database();
            format!("The keeper has not read the metadata of Citus in database \"{}\"", database.to_string_lossy())
        } else {
            reason
        }
    }
}
