//! What is explored: how much there is of everything, what can go wrong, and which rules are on.

use crate::rules::{Off, Rule};
use crate::state::Time;

#[derive(Clone, Copy, Debug)]
pub struct World {
    /// How many servers there are, at most [`crate::state::SERVERS`].
    pub servers: usize,
    /// How many workers, at most [`crate::state::WORKERS`].
    pub workers: usize,
    /// The last time. No clock shows a later one, and no grant ends later.
    pub end: Time,
    /// How far a grant reaches beyond the registry's clock, at most.
    pub longest_grant: Time,
    /// How long before the end of its grant a server may claim its own worker again.
    pub early: Time,
    /// How many requests the network keeps at a time, at most [`crate::state::LATE`].
    pub late: usize,
    /// How often the registry is restored.
    pub restores: u8,
    /// How many images of disks are made.
    pub images: u8,
    /// Whether servers start while the registry is away.
    pub alone: bool,
    pub off: Off,
    /// What no rule can help against.
    pub beyond: Beyond,
    /// Whether states that differ in the order of servers are one. Servers change their names in stories then.
    pub is_symmetric: bool,
    /// Whether states leave out what can't matter any more. That relies on every rule.
    pub forgets: bool,
}

/// What the protocol does not promise to stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beyond {
    /// Nothing of that.
    #[default]
    Nothing,
    /// A server's disk goes back to an image in the same boot, block by block, so that files keep their inodes.
    RolledBackDisk,
    /// A disk goes back so, but only after the lease in the image was renewed: that is noticed where the registry is
    /// reached.
    RolledBackPastRenewal,
    /// A running server is cloned with its memory.
    ClonedMemory,
    /// The registry goes back to an earlier state on the same timeline, and notices nothing.
    UnnoticedRestore,
    /// The registry fails over, and its old primary continues for the servers that reach it.
    SplitRegistry,
}

impl World {
    /// Two servers that want one worker. Servers crash, stop and start, and answers are lost.
    pub const CRASHES: Self = Self {
        servers: 2,
        workers: 1,
        end: 4,
        longest_grant: 2,
        early: 0,
        late: 0,
        restores: 0,
        images: 0,
        alone: true,
        off: Off::NOTHING,
        beyond: Beyond::Nothing,
        is_symmetric: true,
        forgets: true,
    };

    /// This world with a rule less.
    pub const fn without(self, rule: Rule) -> Self {
        Self { off: Off::only(rule), ..self.plain() }
    }

    /// This world, where something happens that no rule helps against.
    pub const fn with(self, beyond: Beyond) -> Self {
        Self { beyond, ..self.plain() }
    }

    /// This world with all its states.
    pub const fn plain(self) -> Self {
        Self { is_symmetric: false, forgets: false, ..self }
    }
}
