//! Which rows of the start table were visited.

use snowflake_core::mark::start_table::{MarkConflict, StartPoint};
use snowflake_core::mark::trace::decision;
use std::collections::BTreeMap;
use std::sync::Mutex;

static VISITS: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Counts what a start has found.
pub fn visit(outcome: &Result<StartPoint, MarkConflict>) {
    let row = decision(&outcome.map(|point| point.reason));
    *VISITS.lock().expect("no panic").entry(row).or_default() += 1;
}

/// All rows, with their [numbers](decision).
pub fn rows() -> [(u64, &'static str); 20] {
    [
        (1, "Restart"),
        (2, "Promotion"),
        (3, "WalMark"),
        (4, "Continued"),
        (5, "WalSetBack"),
        (6, "Moved"),
        (7, "NewerRecord"),
        (8, "Restored"),
        (9, "OtherWorker"),
        (10, "Missing"),
        (11, "Leased"),
        (101, "Copy"),
        (102, "OtherCluster"),
        (103, "NewerTimeline"),
        (104, "NotTheLast"),
        (105, "LeftBehind"),
        (106, "NotInWal"),
        (107, "OtherLayout"),
        (108, "OtherLayoutInWal"),
        (109, "OtherGeneration"),
    ]
}

/// How often each row was visited, by its number.
pub fn visits() -> BTreeMap<u64, u64> {
    VISITS.lock().expect("no panic").clone()
}
