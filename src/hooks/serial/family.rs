//! Parents whose columns have Snowflake IDs: a child or a partition must have columns of the same type.

use crate::postgres::catalog::{column_type, identifier, is_narrow, name_of_table};
use crate::postgres::expression::{is_call_that_issues_an_id, issues_ids};
use pgrx::PgRelation;
use pgrx::pg_sys::{self, Oid};
use std::ffi::{CStr, CString};

/// Why a column becomes wider.
pub const WHY: &str = "The parent's column has Snowflake IDs.";

/// A table, locked against changes while this exists; `None` if there is none, or if another session has dropped it.
/// PostgreSQL says so then.
pub fn open(table: Oid) -> Option<PgRelation> {
    let lock = 1; // AccessShareLock
    // SAFETY: takes any OID. What it gives is closed once; PostgreSQL gives the lock back with the transaction.
    unsafe {
        // mutant: dropped-meanwhile
        let relation = pg_sys::try_relation_open(table, lock);
        (!relation.is_null()).then(|| PgRelation::from_pg_owned(relation))
    }
}

/// The columns of a table whose default issues IDs, and which are of type bigint.
pub fn columns_with_ids(table: Oid) -> Vec<CString> {
    defaults_with_ids(table).into_iter().map(|(name, _)| name).collect()
}

/// The same, with whether the default only calls a function that issues an ID: others can call code of the table's
/// owner.
pub fn defaults_with_ids(table: Oid) -> Vec<(CString, bool)> {
    let Some(table) = open(table) else { return Vec::new() };
    let columns = table.tuple_desc();
    // SAFETY: a relation that is open, and one of its columns. Gives an expression, or null.
    let default = |number: i16| unsafe { pg_sys::build_column_default(table.as_ptr(), number.into()) };
    // SAFETY: the name in a catalog is a C string.
    let name =
        |column: &pg_sys::FormData_pg_attribute| unsafe { CStr::from_ptr(column.attname.data.as_ptr()) }.to_owned();
    let with_ids = |column: &pg_sys::FormData_pg_attribute| {
        let default = default(column.attnum);
        issues_ids(default).then(|| (name(column), is_call_that_issues_an_id(default)))
    };
    let wide = columns.iter().filter(|column| column.atthasdef && column.atttypid == pg_sys::INT8OID);
    wide.filter_map(with_ids).collect()
}

/// The columns of the parent that are narrower in the child.
pub fn narrower(child: Oid, of_parent: Vec<CString>) -> Vec<CString> {
    of_parent.into_iter().filter(|name| is_narrow(column_type(child, name))).collect()
}

/// What PostgreSQL's error on such columns lacks: why this extension does not make them wider, and the command that
/// does.
pub fn advice(child: Oid, columns: &[CString], reason: &[u8]) -> Option<(CString, CString)> {
    let quoted = |column: &CString| [b"\"", column.as_bytes(), b"\""].concat();
    let action = |column: &CString| [b"ALTER COLUMN ", identifier(column).as_slice(), b" TYPE bigint"].concat();
    let name = name_of_table(child)?;
    let parts = |each: &dyn Fn(&CString) -> Vec<u8>| columns.iter().map(each).collect::<Vec<_>>().join(&b", "[..]);
    let detail = [
        b"The parent's column ",
        parts(&quoted).as_slice(),
        b" has Snowflake IDs. This one remains narrower: ",
        reason,
        b".",
    ]
    .concat();
    let hint = [b"Run ALTER TABLE ", name.as_slice(), b" ", parts(&action).as_slice(), b" first."].concat();
    Some((CString::new(detail).ok()?, CString::new(hint).ok()?))
}
