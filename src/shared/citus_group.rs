//! The group of this node in a Citus cluster, as the keeper has found it.

use super::optional::OptionalNumber;
use super::text::SharedText;
use crate::config::gucs;
use std::sync::atomic::{AtomicBool, Ordering};

/// The group, in shared memory.
pub struct SharedGroup {
    /// The group, once it is known.
    group: OptionalNumber,
    /// Whether the node has another group now, or none.
    is_lost: AtomicBool,
    /// Why the group is not known.
    reason: SharedText,
}

impl SharedGroup {
    /// A group that is not known yet.
    pub fn new() -> Self {
        Self { group: OptionalNumber::new(), is_lost: AtomicBool::new(false), reason: SharedText::new() }
    }

    /// The group of this node; `None` until it is known.
    pub fn get(&self) -> Option<u64> {
        self.group.get()
    }

    /// Records the group. To be called by the keeper.
    pub fn set(&self, group: u64) {
        self.group.set(group);
    }

    /// Whether the node has another group now, or none.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Records whether the node has another group now, or none. To be called by the keeper.
    pub fn set_lost(&self, is_lost: bool) {
        self.is_lost.store(is_lost, Ordering::Relaxed);
    }

    /// Records why the group is not known. To be called by the keeper.
    pub fn set_reason(&self, reason: &str) {
        self.reason.write(reason);
    }

    /// Why the group is not known, as a sentence without its full stop.
    pub fn reason(&self) -> String {
        let reason = self.reason.read();
        if reason.is_empty() {
            let database = gucs::citus_database();
            format!("The keeper has not read the Citus metadata in database \"{}\"", database.to_string_lossy())
        } else {
            reason
        }
    }
}
