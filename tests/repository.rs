//! What the repository says of itself: documents, the rooms of the house, commands, versions, and these tests.

mod agents;
mod bench_report;
mod copyright;
mod docs;
mod itself;
mod pictures;
mod platforms;
mod reference;
mod release;
mod rooms;
mod setup;
mod simulation;
mod style;
mod verbs;
mod versions;
mod workflows;

use std::fs;
use std::path::{Path, PathBuf};

/// The files of a folder and of those in it, but for what git does not have.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let kept = entries.filter(|path| !["target", ".git", "node_modules"].iter().any(|name| path.ends_with(name)));
    kept.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
