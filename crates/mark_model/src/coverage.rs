//! Which rows of the start table were visited.

use snowflake_core::mark::start_table::{MarkConflict, StartPoint};
use std::collections::BTreeMap;
use std::sync::Mutex;

static VISITS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Counts what a start has found.
pub fn visit(outcome: &Result<StartPoint, MarkConflict>) {
    let row = match outcome {
        Ok(point) => format!("{:?}", point.reason),
        Err(MarkConflict::OtherLayoutInWal(_)) => "OtherLayoutInWal".to_owned(),
        Err(conflict) => format!("{conflict:?}"),
    };
    *VISITS.lock().expect("no panic").entry(row).or_default() += 1;
}

/// All rows.
pub fn rows() -> [&'static str; 19] {
    [
        "Restart",
        "Promotion",
        "WalMark",
        "Continued",
        "WalSetBack",
        "Moved",
        "NewerRecord",
        "Restored",
        "OtherWorker",
        "Missing",
        "Leased",
        "Copy",
        "OtherCluster",
        "NewerTimeline",
        "NotTheLast",
        "LeftBehind",
        "NotInWal",
        "OtherLayout",
        "OtherLayoutInWal",
    ]
}

/// How often each row was visited.
pub fn visits() -> BTreeMap<String, u64> {
    VISITS.lock().expect("no panic").clone()
}
