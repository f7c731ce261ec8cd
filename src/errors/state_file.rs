//! What can go wrong with the durable mark on disk, in words.

use super::error;
use crate::state_file::StateFileError;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgSqlErrorCode, pg_sys};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

impl StateFileError {
    /// The same error for those who may not know where the state directory is.
    pub fn without_directory(&self) -> Self {
        match self {
            Self::Io { action, path, source } => {
                let source = source.raw_os_error().map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
                Self::Io { action, path: without_directory(path), source }
            }
            Self::WrongOwner(path) => Self::WrongOwner(without_directory(path)),
            Self::WrongPermissions(path, mode) => Self::WrongPermissions(without_directory(path), *mode),
            Self::Damaged { path, damage } => Self::Damaged { path: without_directory(path), damage: damage.clone() },
        }
    }
}

/// Whether the current user may know where the state directory is, as those do who may read snowflake_pg.state_directory. To be
/// asked in a transaction.
pub(super) fn may_know_directory() -> bool {
    // SAFETY: every session has a user,
    let user = unsafe { pg_sys::GetUserId() };
    // SAFETY: and this role always exists.
    unsafe { pg_sys::has_privs_of_role(user, pg_sys::Oid::from(pg_sys::ROLE_PG_READ_ALL_SETTINGS)) }
}

/// A file of the state directory by its name alone, and the directory by the variable that has its path.
pub(super) fn without_directory(path: &Path) -> PathBuf {
    match path.file_name() {
        Some(name) if StateFileError::is_file(name) => name.into(),
        _ => "snowflake_pg.state_directory".into(),
    }
}

impl From<StateFileError> for ErrorReport {
    fn from(failure: StateFileError) -> Self {
        use PgSqlErrorCode::*;
        match failure {
            StateFileError::Io { action, path, source } => {
                let full = matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                error(
                    if full { ERRCODE_DISK_FULL } else { ERRCODE_IO_ERROR },
                    format!("could not {action} \"{}\": {}", path.display(), reason(&source)),
                )
                .set_detail("The durable mark of snowflake_pg lies there; no ID is issued beyond a mark on disk.")
                .set_hint(if full {
                    "Free disk space; IDs are issued again as soon as the mark can be written."
                } else {
                    "Check snowflake_pg.state_directory, its disk and its permissions."
                })
            }
            StateFileError::WrongOwner(path) => error(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("state directory \"{}\" has wrong ownership", path.display()),
            )
            .set_hint("The directory must belong to the user that runs the server."),
            StateFileError::WrongPermissions(path, mode) => error(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("state directory \"{}\" has invalid permissions", path.display()),
            )
            .set_detail(format!("Permissions are {mode:04o}, and should be 0700 or 0750."))
            .set_hint("Whoever can write there can make IDs come twice."),
            StateFileError::Damaged { path, damage } => error(
                ERRCODE_DATA_CORRUPTED,
                format!("state file \"{}\" is damaged", path.display()),
            )
            .set_detail(format!("As it stands, {damage}. It says above which timestamp new IDs must begin."))
            .set_hint(
                "Call snowflake_reset_state() with a time that is later than every ID this server has issued. A copy of \
                         the file is as good only if nothing was issued since it was made.",
            ),
        }
    }
}

/// What the operating system said, in its own words only.
fn reason(source: &io::Error) -> String {
    let text = source.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}
