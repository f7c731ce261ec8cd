//! Commands with the rights of another role.
//!
//! A CHECK, a domain or an index can call any function of a table's owner, which must not get the privileges of a
//! superuser who runs a command on the table. PostgreSQL does the same in REINDEX and ANALYZE.

use crate::errors::{error_report, raise};
use pgrx::prelude::*;
use std::ffi::{CString, c_int};

/// Runs a command as a role that the user can become by SET ROLE. Its first value if that is a bigint, else NULL.
#[pg_extern(sql = false)]
fn snowflake_run_as(role: pg_sys::Oid, command: &[u8]) -> Option<i64> {
    // SAFETY: every call has a user.
    let user = unsafe { pg_sys::GetUserId() };
    #[cfg(feature = "pg15")]
    // SAFETY: raises an ERROR if the one role is not a member of the other.
    unsafe {
        pg_sys::check_is_member_of_role(user, role);
    }
    #[cfg(not(feature = "pg15"))]
    // SAFETY: the same for SET ROLE.
    unsafe {
        pg_sys::check_can_set_role(user, role);
    }
    // SAFETY: raises an ERROR if there is no such role.
    unsafe { pg_sys::GetUserNameFromId(role, false) };
    let _role = As::begin(role);
    run(&[command])
}

/// While this exists, commands run as another role, in a security-restricted operation: SET ROLE does not lead back.
/// After an ERROR, PostgreSQL restores everything at the end of the (sub)transaction.
pub struct As {
    user: pg_sys::Oid,
    context: c_int,
    settings: c_int,
}

impl As {
    /// `None` if the role is who has connected: code of its own gains nothing, and a security-restricted operation cannot
    /// create temporary tables.
    pub fn begin(role: pg_sys::Oid) -> Option<Self> {
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        // SAFETY: writes to these two.
        unsafe { pg_sys::GetUserIdAndSecContext(&raw mut user, &raw mut context) };
        // Not the user of SET ROLE or SET SESSION AUTHORIZATION, which code of the role can reset.
        // SAFETY: every session has a user.
        if user == role && unsafe { pg_sys::GetAuthenticatedUserId() } == role {
            return None;
        }
        let restricted = context | pg_sys::SECURITY_RESTRICTED_OPERATION.cast_signed();
        // SAFETY: a role that exists: the owner of a locked table, or one that was just looked up.
        unsafe { pg_sys::SetUserIdAndSecContext(role, restricted) };
        // SAFETY: in a transaction, like every function.
        let settings = unsafe { pg_sys::NewGUCNestLevel() };
        let this = Self { user, context, settings };
        // SAFETY: for the level of settings just begun. PostgreSQL's own commands do so from version 17 on.
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        unsafe {
            pg_sys::RestrictSearchPath();
        }
        Some(this)
    }
}

impl Drop for As {
    fn drop(&mut self) {
        // SAFETY: the level of settings begun above; inner levels have ended.
        unsafe { pg_sys::AtEOXact_GUC(false, self.settings) };
        // SAFETY: the values found above.
        unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.context) };
    }
}

/// Runs a command. Its first value if that is a bigint.
pub fn run(command: &[&[u8]]) -> Option<i64> {
    let command = CString::new(command.concat()).expect("text of PostgreSQL's, which has no zero byte");
    Spi::connect_mut(|_| {
        // SAFETY: connected, and a C string.
        let code = unsafe { pg_sys::SPI_execute(command.as_ptr(), false, 0) };
        if code < 0 {
            raise(error_report(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "transaction commands and COPY to or from a client cannot be run in a function",
            ));
        }
        // SAFETY: set by the call before.
        let table = unsafe { pg_sys::SPI_tuptable };
        // SAFETY: null if the command has returned no rows; else valid as long as SPI is connected.
        let table = unsafe { table.as_ref() }.filter(|table| table.numvals > 0)?;
        // SAFETY: the columns of these rows, of which there may be none.
        if unsafe { pg_sys::SPI_gettypeid(table.tupdesc, 1) } != pg_sys::INT8OID {
            return None;
        }
        // SAFETY: an array of at least one row.
        let row = unsafe { *table.vals };
        let mut is_null = false;
        // SAFETY: the first column of a row, which is there.
        let value = unsafe { pg_sys::SPI_getbinval(row, table.tupdesc, 1, &raw mut is_null) };
        (!is_null).then(|| value.value().cast_signed() as i64)
    })
}
