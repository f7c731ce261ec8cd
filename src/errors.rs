//! Why no ID can be issued: each error with its SQLSTATE, DETAIL and HINT.

mod configuration;
mod lease;
mod mark_conflict;
mod state_file;
pub mod summary;

pub use configuration::ConfigurationError;
pub use lease::{LeaseError, sentences};
pub use state_file::{StateFileError, StatePath, While};

use crate::config::gucs;
use crate::postgres::failure::Failure;
use crate::postgres::report::{error_report, may_read_all_settings, raise};
use crate::shared::optional::OsError;
use crate::shared::shared;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_core::id::layout::{Layout, Replacement, TimeError};
use snowflake_core::issue::policy::ClockRegression;
use snowflake_core::mark::record::Record;
use snowflake_core::mark::start_table::MarkConflict;
use snowflake_core::mark::wal_page::FILE;
use snowflake_core::server::identity::Identity;
use snowflake_core::{UnixMs, display_time};
use std::time::Duration;

/// Why no ID can be issued.
#[derive(Debug)]
pub enum IssueError {
    /// The library is not in shared_preload_libraries.
    NotPreloaded,
    /// pg_upgrade is running.
    BinaryUpgrade,
    /// The configuration is incomplete or wrong.
    Configuration(ConfigurationError),
    /// The registry that leases the worker does not let the server issue IDs.
    Lease(LeaseError),
    /// The server is a standby, or has not finished its recovery.
    InRecovery,
    /// The clock is outside the layout.
    Clock(UnixMs, TimeError),
    /// IDs would begin at this time, where the layout has ended.
    LayoutEndsBefore {
        /// The layout.
        layout: Layout,
        /// When IDs would begin.
        begin: UnixMs,
    },
    /// The clock stays behind what was issued.
    ClockBehind {
        /// The last timestamp issued; if none since the start, the last that may have been issued before.
        last: UnixMs,
        /// Whether an ID has been issued since the start.
        issued: bool,
        /// What the clock shows.
        now: UnixMs,
        /// What the clock must show before the next ID.
        until: UnixMs,
        /// What keeps IDs from continuing meanwhile.
        limit: ClockLimit,
    },
    /// The clock has gone back, and `clock_regression` is `error`.
    ClockWentBack {
        /// What the clock shows.
        now: UnixMs,
        /// What it has shown before.
        shown: UnixMs,
    },
    /// There is no certain durable mark, and the clock stays behind the time at which IDs begin without one.
    StartPending {
        /// What the clock shows.
        now: UnixMs,
        /// When IDs begin.
        until: UnixMs,
        /// Whether the mark was reset by hand to far ahead of the clock.
        was_reset: bool,
    },
    /// The clock overtook each mark before it was on disk.
    MarkTooSlow {
        /// How long the last two took.
        last_writes_ms: [u64; 2],
        /// `snowflake_pg.reserve_ahead`.
        reserve_ahead_ms: u64,
        /// `snowflake_pg.max_borrow`.
        max_borrow_ms: u64,
    },
    /// The durable mark cannot be read or written.
    StateFile(StateFileError),
    /// The durable mark is not this server's.
    MarkConflict {
        /// The row of the start table.
        conflict: MarkConflict,
        /// The record that was found.
        record: Option<Box<Record>>,
        /// The identity of this server.
        this_server: Box<Identity>,
    },
    /// While the server ran, another directory or record has replaced its own at this path.
    StateDirectoryReplaced(StatePath),
    /// At this path is another directory than when the server started.
    StateDirectoryExchanged(StatePath),
    /// Another server has locked this state directory. Which one, if that is known.
    StateDirectoryInUse(StatePath, Option<String>),
    /// This process, which a server before this one has left in the data directory, has locked this state directory.
    StateDirectoryStillInUse(StatePath, u32),
    /// The keeper has not written the mark to WAL in this time.
    MarkNotInWal(Duration),
    /// Something else than marks is in the file for the marks in WAL.
    OtherWalPage,
}

/// What keeps IDs from continuing while the clock is behind.
#[derive(Debug)]
pub enum ClockLimit {
    /// They may be ahead of the clock, up to this.
    MaxBorrow {
        /// `snowflake_pg.max_borrow`.
        ms: u64,
    },
    /// They may not be ahead of the clock, and calls have waited for this time.
    MaxWait {
        /// `snowflake_pg.max_wait`.
        ms: u64,
        /// `snowflake_pg.clock_regression`.
        regression: ClockRegression,
    },
}

impl From<ConfigurationError> for IssueError {
    fn from(error: ConfigurationError) -> Self {
        Self::Configuration(error)
    }
}

impl From<LeaseError> for IssueError {
    fn from(error: LeaseError) -> Self {
        Self::Lease(error)
    }
}

impl From<StateFileError> for IssueError {
    fn from(error: StateFileError) -> Self {
        Self::StateFile(error)
    }
}

impl IssueError {
    /// Raises an ERROR. It shows the path of the state directory, and what the registry has said, only to users who may
    /// read these settings. The server log has it in any case.
    pub fn raise(self) -> ! {
        match self.without_secrets() {
            Some(hidden) if !may_read_all_settings() => {
                self.log(PgLogLevel::LOG_SERVER_ONLY);
                raise(hidden.into())
            }
            _ => raise(self.into()),
        }
    }

    /// The error without the path of the state directory and what the registry has said; `None` if it has neither.
    fn without_secrets(&self) -> Option<Self> {
        Some(match self {
            Self::StateFile(failure) => Self::StateFile(failure.without_directory()),
            // mutant: lease-error-hidden
            Self::Lease(error) => Self::Lease(error.without_failure()),
            Self::StateDirectoryReplaced(file) => Self::StateDirectoryReplaced(file.without_directory()),
            Self::StateDirectoryExchanged(path) => Self::StateDirectoryExchanged(path.without_directory()),
            Self::StateDirectoryInUse(path, _) => Self::StateDirectoryInUse(path.without_directory(), None),
            Self::StateDirectoryStillInUse(path, process) => {
                Self::StateDirectoryStillInUse(path.without_directory(), *process)
            }
            _ => return None,
        })
    }

    /// The operating system's error, if it is one.
    pub fn os_error(&self) -> Option<OsError> {
        match self {
            Self::StateFile(StateFileError::Io { path, source, .. }) => {
                Some(OsError { number: source.raw_os_error()?, is_in_data_directory: path.is_in_data_directory() })
            }
            _ => None,
        }
    }

    /// Logs the error, if no call has caused it.
    pub fn log(self, level: PgLogLevel) {
        ErrorReport::from(self).report(level);
    }
}

impl From<IssueError> for Failure {
    fn from(error: IssueError) -> Self {
        let report = ErrorReport::from(error);
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        Self {
            sqlstate: None,
            message: report.message().to_owned(),
            detail: text(report.detail()),
            hint: text(report.hint()),
        }
    }
}

impl From<IssueError> for ErrorReport {
    fn from(error: IssueError) -> Self {
        use PgSqlErrorCode::*;
        match error {
            IssueError::NotPreloaded => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "snowflake_pg must be loaded via shared_preload_libraries to issue IDs",
            )
            .set_hint(
                "Add snowflake_pg to shared_preload_libraries, set snowflake_pg.worker_id in this server's own \
                 configuration, and restart the server.",
            ),
            IssueError::BinaryUpgrade => {
                error_report(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot issue IDs during pg_upgrade")
                    .set_hint("Wait until the upgrade is complete.")
            }
            IssueError::Configuration(error) => error.into(),
            IssueError::Lease(error) => error.into(),
            IssueError::InRecovery => error_report(ERRCODE_READ_ONLY_SQL_TRANSACTION, "cannot issue IDs during recovery")
                .set_detail("This server is a standby, or has not finished its recovery.")
                .set_hint("Connect to the primary. IDs can be decoded on this server."),
            IssueError::Clock(now, TimeError::BeforeEpoch { epoch }) => {
                error_report(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the server's clock is before the epoch of the layout")
                    .set_detail(format!(
                        "The clock shows {}, and the epoch is {}.",
                        display_time(now),
                        display_time(epoch)
                    ))
                    .set_hint(
                        "Set the clock, or choose an earlier epoch in snowflake_pg.layout and restart the server.",
                    )
            }
            IssueError::Clock(now, TimeError::AfterEnd { last }) => {
                let instead = gucs::layout().ok().and_then(|layout| layout.replacement(now));
                let later = instead.map(|Replacement { layout, .. }| {
                    format!(" \"{}\" begins later, for servers without old IDs.", layout.short_text())
                });
                error_report(ERRCODE_PROGRAM_LIMIT_EXCEEDED, "reached the last timestamp of the layout")
                    .set_detail(format!(
                        "The clock shows {}, and the last timestamp is {}.",
                        display_time(now),
                        display_time(last)
                    ))
                    .set_hint(format!(
                        "Check the clock. If it is right, change snowflake_pg.layout; see docs/layouts.md.{}",
                        later.unwrap_or_default()
                    ))
            }
            IssueError::LayoutEndsBefore { layout, begin } => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the layout ends before IDs would begin",
            )
            .set_detail(format!(
                "IDs would begin at {}, and the last timestamp of layout {layout} is {}.",
                display_time(begin),
                display_time(layout.last_time())
            ))
            .set_hint(
                format!("Check snowflake_pg.layout. If the mark in WAL is wrong, stop the server, remove the file \
                 \"global/{FILE}\", and start the server."),
            ),
            IssueError::ClockBehind { last, issued, now, until, limit } => {
                let last_what = if issued { "timestamp issued" } else { "timestamp reserved before the start" };
                let (now, last, until) = (display_time(now), display_time(last), display_time(until));
                let (limits, when) = match limit {
                    ClockLimit::MaxBorrow { ms } => (
                        format!("snowflake_pg.max_borrow is {ms} ms"),
                        ", or snowflake_pg.max_borrow is greater than the difference",
                    ),
                    ClockLimit::MaxWait { ms, regression } => {
                        (format!("snowflake_pg.clock_regression is {regression}, and max_wait {ms} ms"), "")
                    }
                };
                error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "the server's clock is too far behind the last ID issued")
                    .set_detail(format!("The clock shows {now}, the last {last_what} is {last}; {limits}."))
                    .set_hint(format!("Check the clock. IDs will be issued again once it reaches {until}{when}."))
            }
            IssueError::ClockWentBack { now, shown } => {
                error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "the server's clock has gone back")
                    .set_detail(format!(
                        "The clock shows {}, {} ms before a time that it has shown; snowflake_pg.clock_regression is \
                         error.",
                        display_time(now),
                        shown.saturating_sub(now)
                    ))
                    .set_hint(format!("Check the clock. IDs will be issued again once it reaches {}.", display_time(shown)))
            }
            IssueError::StartPending { now, until, was_reset } => {
                let (why, hint) = if was_reset {
                    (
                        "snowflake_reset_state() was called with a time far ahead",
                        "If that is too late, call snowflake_reset_state() again, with an earlier time that is above all IDs \
                         of this server.",
                    )
                } else {
                    (
                        "No certain durable mark of this worker was found",
                        "Check the clock. IDs will be issued once it reaches that time.",
                    )
                };
                let (now, until) = (display_time(now), display_time(until));
                error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "the server's clock is behind the time at which IDs begin")
                    .set_detail(format!("The clock shows {now}. {why}, so IDs begin at {until}."))
                    .set_hint(hint)
            }
            IssueError::MarkTooSlow { last_writes_ms: [last, previous], reserve_ahead_ms, max_borrow_ms } => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "could not keep the durable mark ahead of the clock",
            )
            .set_detail(format!(
                "The clock reached each mark before it was on disk: the last two writes took {previous} and {last} ms. \
                 snowflake_pg.reserve_ahead is {reserve_ahead_ms} ms, and snowflake_pg.max_borrow {max_borrow_ms} ms."
            ))
            .set_hint(
                "Move snowflake_pg.state_directory to a faster disk, or increase snowflake_pg.max_borrow well above the \
                 time of a write. With snowflake_pg.wal_mark = require, a write includes the wait for standbys.",
            ),
            IssueError::StateFile(failure) => failure.into(),
            IssueError::MarkConflict { conflict, record, this_server } => {
 mark_conflict::explain(conflict, record.as_deref(), &this_server)
}
            IssueError::StateDirectoryReplaced(path) => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("state file \"{}\" has been replaced by another server", path),
            )
            .set_detail("Another server writes to it, or another directory or an older file has taken its place.")
            .set_hint(
                "Give each server a snowflake_pg.state_directory of its own, put this server's directory back, and \
                 restart it.",
            ),
            IssueError::StateDirectoryExchanged(path) => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("state directory \"{path}\" is not the one with which the server started"),
            )
            .set_detail("A volume was mounted there, or the directory was exchanged, while the server ran.")
            .set_hint("If it is the right directory, restart the server. If it is not, put the right one back."),
            IssueError::StateDirectoryInUse(path, holder) => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("state directory \"{path}\" is in use by another server"),
            )
            .set_detail(match holder {
                Some(holder) => format!("The other server has {holder}."),
                None => "The other server has locked the directory.".to_owned(),
            })
            .set_hint(
                "Give each server a snowflake_pg.state_directory and a snowflake_pg.worker_id of its own; or stop the \
                 other server.",
            ),
            IssueError::StateDirectoryStillInUse(path, process) => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("state directory \"{path}\" is still in use"),
            )
            .set_detail(format!("Process ID {process} has outlived a server in this data directory."))
            .set_hint("Terminate any old server processes associated with this data directory."),
            IssueError::MarkNotInWal(waited) => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "could not write the durable mark to WAL in time",
            )
            .set_detail(format!(
                "Waited {} ms for background worker \"snowflake_pg keeper\". The mark may still have reached WAL; a standby \
                 promoted later would start above it.",
                waited.as_millis()
            ))
            .set_hint(if shared().has_keeper() {
                "See the server log for the reason. The background worker may be waiting for a synchronous standby or for a \
                 lock."
            } else {
                "The background worker does not run. If it does not start within seconds, raise max_worker_processes, and \
                 restart the server."
            }),
            IssueError::OtherWalPage => error_report(
                ERRCODE_DATA_CORRUPTED,
                format!("file \"global/{}\" has no durable marks", FILE),
            )
            .set_detail("It is damaged, of another version of snowflake_pg, or of another library.")
            .set_hint("If no other library uses it, stop the server, remove the file, and start the server."),
        }
    }
}
