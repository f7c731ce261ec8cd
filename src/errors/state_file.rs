//! The errors of the state file.

use super::mark;
use crate::postgres::os_error::reason;
use crate::postgres::report::error_report;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::panic::ErrorReport;
use snowflake_core::formats::Newer;
use snowflake_core::mark::state_file::Damage;
use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Adds the action and the path to an error.
pub trait While<T> {
    /// Adds this action, on this file or directory.
    fn during(self, action: &'static str, path: &StatePath) -> Result<T, StateFileError>;
}

impl<T, E: Into<io::Error>> While<T> for Result<T, E> {
    fn during(self, action: &'static str, path: &StatePath) -> Result<T, StateFileError> {
        self.map_err(|source| StateFileError::Io { action, path: path.clone(), source: source.into() })
    }
}

/// Why the mark cannot be read or written.
#[derive(Debug)]
pub enum StateFileError {
    /// The operating system has reported an error.
    Io {
        /// The action, such as "create directory" or "write file".
        action: &'static str,
        /// The file or the directory.
        path: StatePath,
        source: io::Error,
    },
    /// The directory belongs to another user.
    WrongOwner(StatePath),
    /// The directory has these permissions, which are too wide.
    WrongPermissions(StatePath, u32),
    /// The file is not a whole state file.
    Damaged {
        path: StatePath,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A later library has written the file.
    Newer(StatePath, Newer),
}

/// Adds the path to an error of a format.
pub trait OrNewer<T> {
    /// The error for this file.
    fn or_newer(self, path: &StatePath) -> Result<T, StateFileError>;
}

impl<T> OrNewer<T> for Result<T, Newer> {
    fn or_newer(self, path: &StatePath) -> Result<T, StateFileError> {
        self.map_err(|newer| StateFileError::Newer(path.clone(), newer))
    }
}

/// A directory of the server's, or a file in it.
#[derive(Clone, Debug)]
pub struct StatePath {
    kind: Kind,
    directory: PathBuf,
    file: Option<&'static str>,
}

/// Which of the two directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The directory of the durable mark.
    State,
    /// PostgreSQL's data directory, which keeps the number of the last life.
    Data,
}

impl StatePath {
    /// The state directory itself.
    pub fn directory(path: &Path) -> Self {
        Self { kind: Kind::State, directory: path.to_owned(), file: None }
    }

    /// The data directory itself.
    pub fn data_directory(path: &Path) -> Self {
        Self { kind: Kind::Data, ..Self::directory(path) }
    }

    /// A file in this directory.
    pub fn file(&self, name: &'static str) -> Self {
        Self { file: Some(name), ..self.clone() }
    }

    /// Whether it is in the data directory, and not in the state directory.
    pub fn is_in_data_directory(&self) -> bool {
        self.kind == Kind::Data
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The name of the file alone, or the parameter that has the path of the directory.
    pub(super) fn without_directory(&self) -> Self {
        let variable = match (self.file, self.kind) {
            (Some(_), _) => "",
            (None, Kind::State) => "snowflake_pg.state_directory",
            (None, Kind::Data) => "data_directory",
        };
        Self { directory: variable.into(), ..*self }
    }
}

impl Display for StatePath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.file {
            Some(name) => self.directory.join(name).display().fmt(f),
            None => self.directory.display().fmt(f),
        }
    }
}

impl StateFileError {
    /// The error for users who may not know the path of the state directory.
    pub fn without_directory(&self) -> Self {
        match self {
            Self::Io { action, path, source } => {
                let source = source
                    .raw_os_error()
                    .map_or_else(|| io::Error::new(source.kind(), source.to_string()), io::Error::from_raw_os_error);
                Self::Io { action, path: path.without_directory(), source }
            }
            Self::WrongOwner(path) => Self::WrongOwner(path.without_directory()),
            Self::WrongPermissions(path, mode) => Self::WrongPermissions(path.without_directory(), *mode),
            Self::Damaged { path, damage } => Self::Damaged { path: path.without_directory(), damage: damage.clone() },
            Self::Newer(path, newer) => Self::Newer(path.without_directory(), *newer),
        }
    }
}

impl From<StateFileError> for ErrorReport {
    fn from(failure: StateFileError) -> Self {
        use PgSqlErrorCode::*;
        match failure {
            StateFileError::Io { action, path, source } => {
                let full = matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                // As PostgreSQL's errcode_for_file_access().
                let sqlstate = match source.kind() {
                    _ if full => ERRCODE_DISK_FULL,
                    ErrorKind::NotFound => ERRCODE_UNDEFINED_FILE,
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => ERRCODE_INSUFFICIENT_PRIVILEGE,
                    _ => ERRCODE_IO_ERROR,
                };
                error_report(
                    sqlstate,
                    format!("could not {action} \"{}\": {}", path, reason(&source)),
                )
                .set_detail(if path.is_in_data_directory() {
                    "snowflake_pg records there which durable mark this server wrote last, and issues no ID without \
                     that record."
                } else {
                    "snowflake_pg keeps its durable mark there, and issues no ID above the mark on disk."
                })
                .set_hint(if full {
                    "Free disk space. IDs are issued again as soon as the mark can be written."
                } else if path.is_in_data_directory() {
                    "Check the data directory, its disk and its permissions."
                } else {
                    "Check snowflake_pg.state_directory, its disk and its permissions."
                })
            }
            StateFileError::WrongOwner(path) => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("state directory \"{}\" has wrong ownership", path),
            )
            .set_hint("The user that runs the server must own the directory."),
            StateFileError::WrongPermissions(path, mode) => error_report(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("state directory \"{}\" has invalid permissions", path),
            )
            .set_detail(format!("Permissions are {mode:04o}, and should be u=rwx (0700) or u=rwx,g=rx (0750)."))
            .set_hint("Change the permissions. Anyone who can write to this directory can cause duplicate IDs."),
            StateFileError::Newer(path, newer) => mark::newer_file(&path.to_string(), newer),
            StateFileError::Damaged { path, damage } => error_report(
                ERRCODE_DATA_CORRUPTED,
                format!("state file \"{}\" is damaged", path),
            )
            .set_detail(format!("{damage}. New IDs must begin above the timestamp in it."))
            .set_hint(
                "If the clock has always been right, call snowflake_reset_mark(now()). Otherwise, pass a time that \
                 is later than every ID that this server has issued. A copy of the file is safe to use only if no ID \
                 has been issued since it was made.",
            ),
        }
    }
}
