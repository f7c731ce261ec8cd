//! The errors of a worker that is leased from a registry.

use super::error_report;
use crate::libpq::Failure;
use crate::server_encoding::shown;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::panic::ErrorReport;
use snowflake_core::{UnixMs, display_time};

/// Why the registry keeps this server from issuing IDs.
#[derive(Debug)]
pub enum LeaseError {
    /// The server has no worker yet.
    Pending {
        /// What went wrong last.
        failure: Failure,
    },
    /// The lease has ended.
    Ended {
        /// When, in timestamps of IDs.
        until: UnixMs,
        /// Whether the registry has refused to renew it.
        is_superseded: bool,
        /// What went wrong last.
        failure: Failure,
    },
}

impl LeaseError {
    /// The error without what the registry has said, which names hosts.
    pub fn without_failure(&self) -> Self {
        let failure = Failure::default();
        match *self {
            Self::Pending { .. } => Self::Pending { failure },
            Self::Ended { until, is_superseded, .. } => Self::Ended { until, is_superseded, failure },
        }
    }
}

impl From<LeaseError> for ErrorReport {
    fn from(error: LeaseError) -> Self {
        use PgSqlErrorCode::{ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE};
        match error {
            LeaseError::Pending { failure } => {
                let none_free = failure.sqlstate.as_deref() == Some("53400");
                let code = if none_free {
                    ERRCODE_CONFIGURATION_LIMIT_EXCEEDED
                } else {
                    ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE
                };
                let report = error_report(code, "the registry has not leased a worker ID to this server");
                explained(report, &failure, "See the server log for the reason.")
            }
            LeaseError::Ended { until, is_superseded: true, failure } => {
                let report = error_report(
                    ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("the lease of this server's worker ID ends at {}", display_time(until)),
                );
                explained(report, &failure, "Restart the server, so that it leases another worker.")
            }
            LeaseError::Ended { until, is_superseded: false, failure } => {
                let report = error_report(
                    ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("the lease of this server's worker ID ends at {}", display_time(until)),
                );
                explained(report, &failure, "IDs continue when the registry can be reached again. See the server log.")
            }
        }
    }
}

/// What the registry, or libpq, has said, as sentences in one line.
pub fn sentences(failure: &Failure) -> String {
    let lines = [&failure.message, &failure.detail].into_iter().flat_map(|part| part.lines().map(str::trim));
    let lines = lines.filter(|line| !line.is_empty()).map(shown);
    lines.map(|line| if line.ends_with(['.', '?', '!', ':']) { line } else { line + "." }).collect::<Vec<_>>().join(" ")
}

/// Adds what the registry, or libpq, has said.
fn explained(report: ErrorReport, failure: &Failure, hint: &str) -> ErrorReport {
    let reason = sentences(failure);
    let report = if reason.is_empty() { report } else { report.set_detail(format!("Registry: {reason}")) };
    report.set_hint(if failure.hint.is_empty() { hint.to_owned() } else { shown(&failure.hint) })
}
