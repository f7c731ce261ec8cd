//! Places where a test can hold a process. Only in a build with the feature `stops`: any other has nothing of them.
//!
//! A test makes the file `stops/NAME` in the data directory. The first process that reaches the place renames it to
//! `stops/NAME.held`, and waits until the test removes that. Every other process passes. These are files, since some
//! places are under locks, where a process must not wait for a latch.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Only to end a test that has forgotten its server.
const LONGEST: Duration = Duration::from_secs(120);

/// Holds this process at the place of this name if a test asks for it.
#[inline(always)]
pub fn here(name: &str) {
    if cfg!(feature = "stops") {
        hold(name);
    }
}

#[cold]
fn hold(name: &str) {
    // Processes of a server run in its data directory.
    let asked = Path::new("stops").join(name);
    let held = asked.with_extension("held");
    if fs::rename(asked, &held).is_err() {
        return;
    }
    let since = Instant::now();
    while held.exists() && since.elapsed() < LONGEST {
        sleep(Duration::from_millis(1));
    }
}
