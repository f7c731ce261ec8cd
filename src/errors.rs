//! Why no ID can be issued: each error with its SQLSTATE, DETAIL and HINT.

mod clock;
mod configuration;
mod lease;
mod machine;
mod mark;
mod mark_conflict;
mod state_directory;
mod state_file;
pub mod summary;

pub use clock::ClockLimit;
pub use configuration::ConfigurationError;
pub use lease::{LeaseError, sentences};
pub use state_file::{OrNewer, StateFileError, StatePath, While};

use crate::config::gucs;
use crate::postgres::failure::Failure;
use crate::postgres::report::{error_report, may_read_all_settings, raise};
use crate::shared::machine::Change;
use crate::shared::optional::OsError;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_core::UnixMs;
use snowflake_core::formats::Newer;
use snowflake_core::id::layout::{Layout, TimeError};
use snowflake_core::mark::record::Record;
use snowflake_core::mark::start_table::MarkConflict;
use snowflake_core::server::identity::Identity;
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
    /// Of the IDs of this time, none falls where the caller needs it.
    NothingFits(Duration),
    /// The clock has gone back, and `clock_regression` is `error`.
    ClockWentBack {
        /// What the clock shows.
        now: UnixMs,
        /// What the clock has shown before.
        shown: UnixMs,
    },
    /// There is no certain durable mark, and the clock stays behind the time at which IDs begin without one.
    StartPending {
        /// What the clock shows.
        now: UnixMs,
        /// When IDs begin.
        until: UnixMs,
        /// Whether somebody has reset the mark to far ahead of the clock.
        was_reset: bool,
    },
    /// The clock overtook each mark before it was on disk.
    MarkTooSlow {
        /// How long the last two writes took.
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
    /// The clock, which shows this, has jumped ahead, and IDs are to begin by it.
    ClockJumped(UnixMs),
    /// While the server ran, another directory or record has replaced its own at this path.
    StateDirectoryReplaced(StatePath),
    /// The directory at this path is not the one that was there when the server started.
    StateDirectoryExchanged(StatePath),
    /// Another server has locked this state directory. Which one, if that is known.
    StateDirectoryInUse(StatePath, Option<String>),
    /// A process with this ID, which an earlier server has left in the data directory, has locked this state directory.
    StateDirectoryStillInUse(StatePath, u32),
    /// The keeper has not written the mark to WAL in this time.
    MarkNotInWal(Duration),
    /// The file for the marks in WAL has something else in it.
    OtherWalPage,
    /// A later library has written the marks in WAL.
    NewerWalPage(Newer),
    /// The machine is not the one on which the server has begun.
    Machine(Change),
}

impl From<ConfigurationError> for IssueError {
    fn from(error: ConfigurationError) -> Self {
        Self::Configuration(error)
    }
}

impl From<Change> for IssueError {
    fn from(change: Change) -> Self {
        Self::Machine(change)
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

    /// Logs an error that no call has caused.
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
        use PgSqlErrorCode::{
            ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            ERRCODE_READ_ONLY_SQL_TRANSACTION,
        };
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
            IssueError::InRecovery => {
                error_report(ERRCODE_READ_ONLY_SQL_TRANSACTION, "cannot issue IDs during recovery")
                    .set_detail("This server is a standby, or has not finished its recovery.")
                    .set_hint("Connect to the primary. IDs can be decoded on this server.")
            }
            IssueError::Clock(now, outside) => clock::outside_layout(now, outside),
            IssueError::LayoutEndsBefore { layout, begin } => clock::layout_ends_before(layout, begin),
            IssueError::ClockBehind { last, issued, now, until, limit } => {
                clock::behind(last, issued, now, until, limit)
            }
            IssueError::NothingFits(waited) => {
                error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "none of the next IDs falls into this place")
                    .set_detail(format!("The call has waited {} ms for one.", waited.as_millis()))
                    .set_hint("Use fewer shards or partitions, or give snowflake_pg.layout a tag, such as h8.")
            }
            IssueError::ClockJumped(now) => clock::jumped(now),
            IssueError::ClockWentBack { now, shown } => clock::went_back(now, shown),
            IssueError::StartPending { now, until, was_reset } => {
                let wait_ms = gucs::layout().map_or(0, |layout| gucs::first_wait_ms(&layout));
                clock::start_pending(now, until, was_reset, wait_ms)
            }
            IssueError::MarkTooSlow { last_writes_ms, reserve_ahead_ms, max_borrow_ms } => {
                mark::too_slow(last_writes_ms, reserve_ahead_ms, max_borrow_ms)
            }
            IssueError::StateFile(failure) => failure.into(),
            IssueError::MarkConflict { conflict, record, this_server } => {
                mark_conflict::explain(conflict, record.as_deref(), &this_server)
            }
            IssueError::StateDirectoryReplaced(path) => state_directory::replaced(&path),
            IssueError::StateDirectoryExchanged(path) => state_directory::exchanged(&path),
            IssueError::StateDirectoryInUse(path, holder) => state_directory::in_use(&path, holder),
            IssueError::StateDirectoryStillInUse(path, process) => state_directory::still_in_use(&path, process),
            IssueError::MarkNotInWal(waited) => mark::not_in_wal(waited),
            IssueError::OtherWalPage => mark::other_wal_page(),
            IssueError::NewerWalPage(newer) => mark::newer_wal_page(newer),
            IssueError::Machine(change) => machine::changed(change),
        }
    }
}
