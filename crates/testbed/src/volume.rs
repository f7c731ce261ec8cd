//! A volume that belongs to no one server: servers share it, or it moves from one to the other.

use crate::host::{give_away, make_private};
use crate::scratch::Scratch;
use std::path::{Path, PathBuf};

/// A place outside of every server. Removed when it is dropped.
pub struct Volume(Scratch);

impl Volume {
    /// A new one, without anything on it.
    pub fn empty() -> Self {
        let directory = Scratch::new("volume-");
        give_away(directory.path());
        Self(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A new directory on it that belongs to the servers' user alone.
    pub fn make_directory(&self, name: &str) -> PathBuf {
        make_private(self.0.path().join(name))
    }
}
