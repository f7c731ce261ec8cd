//! Named places where a server of a library with the feature `stops` can be held: see src/stops.rs.

use crate::cluster::{Cluster, PATIENCE};
use crate::host::make_private;
use crate::scratch::send;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A place where a server is to be held. The server continues when this is dropped.
pub struct Stop {
    asked: PathBuf,
    held: PathBuf,
}

impl Cluster {
    /// Asks the server to hold the next process that comes to the place of this name.
    pub fn hold_at(&self, place: &str) -> Stop {
        // Not data(): files of the extension stay as they are.
        let directory = self.data.join("stops");
        if !directory.exists() {
            make_private(directory.clone());
        }
        let asked = directory.join(place);
        fs::write(&asked, "").expect("a stop");
        Stop { held: asked.with_extension("held"), asked }
    }

    /// Kills the postmaster alone. Its processes end when they notice, which one that is held does not.
    pub fn kill_postmaster(&self) {
        send(self.postmaster.as_ref().expect("a running server").id(), Signal::KILL);
    }
}

impl Stop {
    /// Waits until a process is held.
    pub fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.held.exists() {
            assert!(Instant::now() < deadline, "no process comes to {}", self.asked.display());
            sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.asked);
        let _ = fs::remove_file(&self.held);
    }
}
