//! SQL commands, with the rights of the user or of another role.
//!
//! A CHECK, a domain or an index can call any function of a table's owner, which must not get the privileges of a
//! superuser who runs a command on the table. PostgreSQL does the same in REINDEX and ANALYZE.

use super::report::{error_report, raise};
use super::user::{FormerUser, User};
use pgrx::prelude::*;
use std::ffi::{CStr, CString, c_char, c_int};

/// While this exists, settings can differ. After an ERROR, PostgreSQL restores everything at the end of the
/// (sub)transaction.
pub struct Settings(c_int);

impl Settings {
    pub fn begin() -> Self {
        // SAFETY: in a transaction, as every command and every call of a function.
        Self(unsafe { pg_sys::NewGUCNestLevel() })
    }

    /// Sets a parameter, whoever may set it, until this is dropped.
    pub fn set(&self, name: &CStr, value: &CStr) {
        // SAFETY: for the level of settings begun last, the name and the value of a parameter.
        unsafe {
            pg_sys::set_config_option(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_SESSION,
                // mutant: role-search-path
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
    }

    /// Names in commands are those of pg_catalog, and texts show the schemas of all others.
    pub fn catalog_names() -> Self {
        let settings = Self::begin();
        settings.set(c"search_path", c"pg_catalog, pg_temp");
        settings
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // SAFETY: `begin` began this level of settings, and inner levels have ended.
        unsafe { pg_sys::AtEOXact_GUC(false, self.0) };
    }
}

/// While this exists, commands run as another role, in a security-restricted operation: SET ROLE does not lead back.
/// After an ERROR, PostgreSQL restores everything at the end of the (sub)transaction.
pub struct As {
    // Fields are dropped in this order.
    _names: Settings,
    _user: FormerUser,
}

impl As {
    /// `None` if the session has connected as the role: its own code gains nothing, and a security-restricted operation
    /// cannot create temporary tables.
    pub fn begin(role: pg_sys::Oid) -> Option<Self> {
        // SAFETY: every session has these users.
        let (user, authenticated) = unsafe { (pg_sys::GetUserId(), pg_sys::GetAuthenticatedUserId()) };
        // Not the user of SET ROLE or SET SESSION AUTHORIZATION, which code of the role can reset.
        // mutant: role-not-reset
        if user == role && authenticated == role {
            return None;
        }
        Some(Self::restricted(role))
    }

    /// Also if the session has connected as the role.
    pub fn restricted(role: pg_sys::Oid) -> Self {
        // As PostgreSQL's RestrictSearchPath(), which came with version 17: else the caller's search_path would choose
        // what the role's code calls.
        // The role exists, as the owner of a locked table, or since it was just looked up.
        Self { _user: User::now().restricted(role).begin(), _names: Settings::catalog_names() }
    }
}

/// Runs a command as a role that the user can become by SET ROLE. Returns its first value if that is a bigint.
pub fn run_as(role: pg_sys::Oid, command: &[u8]) -> Option<i64> {
    // SAFETY: every session has a user.
    // mutant: run-as-member
    let user = unsafe { pg_sys::GetUserId() };
    must_become(user, role);
    let _role = As::begin(role);
    run(&[command])
}

/// Raises an ERROR unless there are these roles, and the user could become the other one by SET ROLE.
pub fn must_become(user: pg_sys::Oid, role: pg_sys::Oid) {
    // SAFETY: these take any roles.
    unsafe {
        #[cfg(feature = "pg15")]
        pg_sys::check_is_member_of_role(user, role);
        #[cfg(not(feature = "pg15"))]
        pg_sys::check_can_set_role(user, role);
        pg_sys::GetUserNameFromId(role, false);
    }
}

/// Runs a command. Returns its first value if that is a bigint.
pub fn run(command: &[&[u8]]) -> Option<i64> {
    let length = command.iter().map(|part| part.len()).sum::<usize>();
    // In PostgreSQL's memory: a command can be as long as a text, and Rust would end the process where there is no
    // room.
    // SAFETY: as many bytes as the parts have, and a zero byte, which no text of PostgreSQL's has.
    let command = unsafe {
        let text = pg_sys::palloc0(length + 1).cast::<u8>();
        let mut at = text;
        for part in command {
            at.copy_from_nonoverlapping(part.as_ptr(), part.len());
            at = at.add(part.len());
        }
        text.cast::<c_char>()
    };
    Spi::connect_mut(|_| {
        // SAFETY: SPI is connected, and the command is a C string.
        let table = unsafe { execute(command) }.filter(|table| table.numvals > 0)?;
        let mut is_null = false;
        // SAFETY: there is at least one row. It has the first column if that has a type.
        let value = unsafe {
            if pg_sys::SPI_gettypeid(table.tupdesc, 1) != pg_sys::INT8OID {
                return None;
            }
            pg_sys::SPI_getbinval(*table.vals, table.tupdesc, 1, &raw mut is_null)
        };
        (!is_null).then(|| value.value().cast_signed() as i64)
    })
}

/// The rows of a query with so many columns, as texts; `None` is NULL.
pub fn rows<const COLUMNS: usize>(query: &CStr) -> Vec<[Option<CString>; COLUMNS]> {
    Spi::connect_mut(|_| {
        // SAFETY: SPI is connected, and the query is a C string.
        let table = unsafe { execute(query.as_ptr()) }.expect("a query returns rows");
        // SAFETY: there are as many rows, each with the columns of the table, whose texts are C strings or null.
        let text = |row: usize, column: usize| unsafe {
            let number = c_int::try_from(column + 1).expect("a column of a query");
            let text = pg_sys::SPI_getvalue(*table.vals.add(row), table.tupdesc, number);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_owned())
        };
        let count = usize::try_from(table.numvals).unwrap_or(0);
        (0..count).map(|row| std::array::from_fn(|column| text(row, column))).collect()
    })
}

/// Runs a command in a new snapshot. The rows, if it returns any, are there as long as SPI is connected.
///
/// # Safety
///
/// SPI is connected, and the command is a C string.
unsafe fn execute<'spi>(command: *const c_char) -> Option<&'spi pg_sys::SPITupleTable> {
    // SAFETY: as the caller's.
    let code = unsafe { pg_sys::SPI_execute(command, false, 0) };
    if code < 0 {
        raise(error_report(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "transaction commands and COPY to or from a client cannot be run in a function",
        ));
    }
    // SAFETY: null if the command has returned no rows.
    unsafe { pg_sys::SPI_tuptable.as_ref() }
}
