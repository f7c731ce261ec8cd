//! The marks in WAL, and the standbys that they reach.

use snowflake_core::UnixMs;
use snowflake_core::mark::wal_page::{InWal, WalPage};
use snowflake_core::server::identity::Worker;

/// The replication of one cluster. Members are its nodes, by number.
#[derive(Clone, Debug)]
pub struct Replication {
    /// The page with the marks in the WAL of each node.
    wal: Vec<WalPage>,
    /// Whether a node follows the primary.
    follows: Vec<bool>,
    /// The node that the others follow.
    primary: usize,
}

impl Replication {
    /// All nodes follow the first one.
    pub fn new(nodes: usize) -> Self {
        let follows = (0..nodes).map(|member| member > 0).collect();
        Self { wal: vec![WalPage::default(); nodes], follows, primary: 0 }
    }

    /// What a node's WAL says of a worker.
    pub fn in_wal(&self, member: usize, worker: Worker) -> InWal {
        self.wal[member].look_up(worker)
    }

    /// Writes a mark, or a higher one, to a node's WAL, which its standbys have then. Returns the mark.
    pub fn write(&mut self, member: usize, worker: Worker, mark: UnixMs) -> UnixMs {
        self.wal[member].raise(worker, mark, crate::settings::layout(), usize::MAX);
        if member == self.primary {
            for standby in self.standbys() {
                self.wal[standby] = self.wal[member].clone();
            }
        }
        self.wal[member].look_up(worker).highest()
    }

    /// Whether a standby has what a node has written last.
    pub fn is_acknowledged(&self, member: usize) -> bool {
        member == self.primary && !self.standbys().is_empty()
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
        self.wal[member] = self.wal[self.primary].clone();
    }

    fn standbys(&self) -> Vec<usize> {
        (0..self.wal.len()).filter(|&member| self.follows[member]).collect()
    }
}
