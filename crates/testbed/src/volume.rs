//! A volume that belongs to no single server: servers share it, or it moves from one to another.

use crate::host::{give_away, make_private};
use crate::scratch::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory outside of every server. Removed when it is dropped.
pub struct Volume(Scratch);

impl Volume {
    /// A new, empty volume.
    pub fn empty() -> Self {
        let directory = Scratch::new("volume-");
        give_away(directory.path());
        Self(directory)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A new directory on it that belongs to the servers' user alone.
    pub fn make_directory(&self, name: &str) -> PathBuf {
        make_private(self.0.path().join(name))
    }

    /// Whether its file system never assigns new inode numbers, which overlay and network file systems do.
    pub fn keeps_inode_numbers(&self) -> bool {
        let kind = Command::new("stat").args(["--file-system", "--format=%T"]).arg(self.path()).output().expect("stat");
        ["ext2/ext3", "xfs", "btrfs", "tmpfs", "zfs", "f2fs"].contains(&String::from_utf8_lossy(&kind.stdout).trim())
    }

    /// Two new directories that the file system says were made at the same time, unless its times are too exact.
    pub fn make_directories_at_once(&self) -> [PathBuf; 2] {
        let born = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.created()).ok();
        let mut pairs = (0..1000).map(|pair| ["a", "b"].map(|name| self.make_directory(&format!("{name}{pair}"))));
        pairs
            .find(|[one, other]| born(one) == born(other))
            .unwrap_or_else(|| ["a0", "b0"].map(|name| self.path().join(name)))
    }
}
