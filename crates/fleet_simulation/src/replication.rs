//! The mark in WAL, and the standbys that it reaches.

use snowflake_core::UnixMs;

/// The replication of one cluster. Members are its nodes, by number.
#[derive(Clone, Debug)]
pub struct Replication {
    /// The mark in the WAL of each node; 0 for none.
    wal: Vec<UnixMs>,
    /// Whether a node follows the primary.
    follows: Vec<bool>,
    /// The node that the others follow.
    primary: usize,
}

impl Replication {
    /// All nodes follow the first one.
    pub fn new(nodes: usize) -> Self {
        Self { wal: vec![0; nodes], follows: (0..nodes).map(|member| member > 0).collect(), primary: 0 }
    }

    /// The mark in a node's WAL; `None` if there is none.
    pub fn mark(&self, member: usize) -> Option<UnixMs> {
        Some(self.wal[member]).filter(|&mark| mark > 0)
    }

    /// Writes a mark, or a higher one, to a node's WAL. Returns the mark, and whether a standby has acknowledged it.
    /// Each mark is above the one before, so that another server's mark never equals one that this server knows.
    pub fn write(&mut self, member: usize, mark: UnixMs) -> (UnixMs, bool) {
        let mark = mark.max(self.wal[member] + 1);
        self.wal[member] = mark;
        let mut is_acknowledged = false;
        if member == self.primary {
            for standby in self.standbys() {
                self.wal[standby] = mark;
                is_acknowledged = true;
            }
        }
        (mark, is_acknowledged)
    }

    /// A standby that follows the primary, if there is one.
    pub fn a_standby(&self) -> Option<usize> {
        self.standbys().first().copied()
    }

    /// Node `member` follows nobody any more.
    pub fn leave(&mut self, member: usize) {
        self.follows[member] = false;
    }

    /// No node reaches the primary any more.
    pub fn cut(&mut self) {
        self.follows.fill(false);
    }

    /// A node becomes the primary, and these follow it.
    pub fn promote(&mut self, member: usize, standbys: impl IntoIterator<Item = usize>) {
        self.primary = member;
        self.follows.fill(false);
        standbys.into_iter().for_each(|standby| self.join(standby));
    }

    /// A node follows the primary, and has its WAL.
    pub fn join(&mut self, member: usize) {
        self.follows[member] = true;
        self.wal[member] = self.wal[self.primary];
    }

    fn standbys(&self) -> Vec<usize> {
        (0..self.wal.len()).filter(|&member| self.follows[member]).collect()
    }
}
