//! The errors of a durable mark that is not written in time, or not found in WAL.

use crate::postgres::report::error_report;
use crate::shared::shared;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::PgSqlErrorCode::{
    ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, ERRCODE_DATA_CORRUPTED, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
};
use snowflake_core::formats::{Newer, Release};
use snowflake_core::mark::wal_page::FILE;
use std::time::Duration;

/// The error for a clock that overtakes each mark before it is on disk.
pub(super) fn too_slow([last, previous]: [u64; 2], reserve_ahead_ms: u64, max_borrow_ms: u64) -> ErrorReport {
    error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "could not keep the durable mark ahead of the clock")
        .set_detail(format!(
            "The clock reached each mark before it was on disk: the last two writes took {previous} and {last} \
             ms. snowflake_pg.reserve_ahead is {reserve_ahead_ms} ms, and snowflake_pg.max_borrow is \
             {max_borrow_ms} ms."
        ))
        .set_hint(
            "Move snowflake_pg.state_directory to a faster disk, or increase snowflake_pg.max_borrow well above \
             the time that a write takes. With snowflake_pg.wal_mark = require, a write includes the wait for \
             standbys.",
        )
}

/// The error for a mark that the keeper has not written to WAL in this time.
pub(super) fn not_in_wal(waited: Duration) -> ErrorReport {
    error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "could not write the durable mark to WAL in time")
        .set_detail(format!(
            "Waited {} ms for background worker \"snowflake_pg keeper\". The mark may still have reached WAL; a \
             standby promoted later would start above it.",
            waited.as_millis()
        ))
        .set_hint(if shared().has_keeper() {
            "See the server log for the reason. The background worker may be waiting for a synchronous standby \
             or for a lock."
        } else {
            "The background worker is not running. If it does not start within seconds, increase \
             max_worker_processes, and restart the server."
        })
}

/// The error for a file for marks that has something else in it.
pub(super) fn other_wal_page() -> ErrorReport {
    error_report(ERRCODE_DATA_CORRUPTED, format!("file \"global/{}\" does not contain durable marks", FILE))
        .set_detail("It is damaged, or was written by another library.")
        .set_hint("If no other library uses it, stop the server, remove the file, and start the server.")
}

/// The error for marks that only a later library can read.
pub(super) fn newer_wal_page(newer: Newer) -> ErrorReport {
    newer_file(&format!("global/{FILE}"), newer)
}

/// The error for a file that only a later library can read.
pub(super) fn newer_file(file: &str, newer: Newer) -> ErrorReport {
    error_report(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, format!("file \"{file}\" was {newer}"))
        .set_detail(format!("This server has snowflake_pg {}.", Release::THIS))
        .set_hint(format!("Install snowflake_pg {} or later, and restart the server.", newer.readable_by))
}
