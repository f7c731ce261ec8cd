//! The errors of a worker that is leased from a registry.

use crate::postgres::failure::Failure;
use crate::postgres::report::error_report;
use crate::postgres::server_encoding::displayable;
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
        /// When it ended, in timestamps of IDs.
        until: UnixMs,
        /// What went wrong last.
        failure: Failure,
    },
}

impl LeaseError {
    /// The error without what the registry has said, which names hosts. Its SQLSTATE stays.
    pub fn without_failure(&self) -> Self {
        let hidden = |failure: &Failure| Failure { sqlstate: failure.sqlstate.clone(), ..Failure::default() };
        match self {
            Self::Pending { failure } => Self::Pending { failure: hidden(failure) },
            &Self::Ended { until, ref failure } => Self::Ended { until, failure: hidden(failure) },
        }
    }
}

impl From<LeaseError> for ErrorReport {
    fn from(error: LeaseError) -> Self {
        use PgSqlErrorCode::{ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE};
        const SEE_LOG: &str = "See the server log for the reason.";
        let (message, failure, hint) = match error {
            LeaseError::Pending { failure } => {
                ("the registry has not leased a worker ID to this server".to_owned(), failure, SEE_LOG)
            }
            LeaseError::Ended { until, failure } => {
                let message = format!("the lease of this server's worker ID ends at {}", display_time(until));
                let is_lost = !failure.is_answer() && failure.can_pass();
                let hint = if is_lost { "IDs continue when the registry can be reached again." } else { SEE_LOG };
                (message, failure, hint)
            }
        };
        let code = if failure.can_pass() {
            ERRCODE_CONFIGURATION_LIMIT_EXCEEDED
        } else {
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE
        };
        let report = error_report(code, message);
        let reason = sentences(&failure);
        let hint = match (reason.is_empty(), failure.hint.is_empty()) {
            (_, false) => Some(displayable(&failure.hint)),
            (false, _) if hint == SEE_LOG => None,
            _ => Some(hint.to_owned()),
        };
        let report = match failure.is_answer() {
            _ if reason.is_empty() => report,
            true => report.set_detail(format!("Registry: {reason}")),
            false => report.set_detail(reason),
        };
        match hint {
            Some(hint) => report.set_hint(hint),
            None => report,
        }
    }
}

/// What the registry, or libpq, has said, as sentences in one line.
pub fn sentences(failure: &Failure) -> String {
    let lines = [&failure.message, &failure.detail].into_iter().flat_map(|part| part.lines().map(str::trim));
    lines.filter(|line| !line.is_empty()).map(sentence).collect::<Vec<_>>().join(" ")
}

fn sentence(line: &str) -> String {
    let mut line = displayable(line);
    // Names stay as they are.
    let is_name = line.split_whitespace().next().is_some_and(|word| word.contains(['_', '.']));
    if let Some(first) = line.get_mut(..1).filter(|_| !is_name) {
        first.make_ascii_uppercase();
    }
    if !line.ends_with(['.', '?', '!', ':']) {
        line.push('.');
    }
    line
}
