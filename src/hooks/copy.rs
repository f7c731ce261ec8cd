//! Lets COPY insert many rows at once.
//!
//! COPY collects rows and writes a page of them with one WAL record, unless a default is volatile: a volatile function
//! could read the table. PostgreSQL makes an exception for `nextval()` only, by name. `snowflake_nextval()` reads no
//! table either, but must not be declared STABLE: ALTER TABLE ADD COLUMN would then give all rows one ID.
//!
//! So while COPY FROM prepares the defaults of its columns, the planner replaces each call by that of
//! `snowflake_nextval_in_copy` with the same arguments, declared STABLE, which COPY calls for each row. All others that
//! simplify a default, such as Citus for each INSERT, get the plain call. (The initial copy of a table by logical
//! replication is not a COPY statement, and writes such rows one by one.)
//!
//! A role that lacks EXECUTE on `snowflake_nextval_in_copy` inserts row by row. This file would not be needed if a
//! function could declare that it reads no table, which `contain_volatile_functions_not_nextval()` assumes of
//! `nextval()`.

use super::tree::{call_to_simplify, nodes};
use crate::postgres::catalog::{may_call, sibling_function};
use pgrx::pg_sys::{CopyStmt, FuncExpr, INT8OID, INTERNALOID, Node, Oid};
use pgrx::prelude::*;
use pgrx::{Internal, PgList};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// What replaces the functions that issue IDs: of this name, there is one for each of their signatures. A first
/// argument more, of type internal, keeps SQL from calling it.
const IN_COPY: &CStr = c"snowflake_nextval_in_copy";

/// The name of the memory context in which BeginCopyFrom() prepares defaults, and BeginCopyTo() plans its statement.
/// Functions that COPY or the planner call run in other contexts.
const COPY_CONTEXT: &CStr = c"COPY";

/// Whether the last COPY of this process reads rows. A COPY that fails leaves it unchanged; it only matters in
/// [`COPY_CONTEXT`].
static READS_ROWS: AtomicBool = AtomicBool::new(false);

/// Records the direction of a COPY that begins, and returns the previous one.
pub fn begin(statement: &CopyStmt) -> bool {
    READS_ROWS.swap(statement.is_from, Ordering::Relaxed)
}

/// Restores the previous direction when a COPY has ended.
pub fn end(previous: bool) {
    READS_ROWS.store(previous, Ordering::Relaxed);
}

/// Whether COPY FROM prepares its defaults.
fn is_preparing() -> bool {
    // SAFETY: there always is a current memory context, and each has a name.
    let name = unsafe { CStr::from_ptr((*pg_sys::CurrentMemoryContext).name) };
    // mutant: copy-context
    name == COPY_CONTEXT && READS_ROWS.load(Ordering::Relaxed)
}

/// The planner support function of `snowflake_nextval()`. A null pointer leaves the call unchanged.
#[pg_extern(sql = false)]
fn snowflake_nextval_support(request: Internal) -> Internal {
    let call = if is_preparing() { call_to_simplify(request) } else { None };
    let replaced = call.and_then(|(call, _)| replacement(call)).unwrap_or(std::ptr::null_mut());
    // Not NULL, which PostgreSQL does not expect.
    Internal::from(Some(pg_sys::Datum::from(replaced)))
}

/// What replaces a call; `None`, which keeps the call, unless the user may execute both functions.
fn replacement(call: &FuncExpr) -> Option<*mut c_void> {
    let function = call.funcid;
    // SAFETY: the arguments of a call are a list of nodes, which are expressions.
    let given: Vec<_> = unsafe { nodes(call.args) }.collect();
    // SAFETY: as above.
    let types = given.iter().map(|&node| unsafe { pg_sys::exprType(node) });
    let types: Vec<_> = std::iter::once(INTERNALOID).chain(types).collect();
    let in_copy = sibling_function(function, IN_COPY, &types);
    if in_copy == Oid::INVALID || ![function, in_copy].into_iter().all(may_call) {
        return None;
    }
    // SAFETY: the value is any that is not NULL: nobody reads it.
    let argument = unsafe { pg_sys::makeConst(INTERNALOID, -1, Oid::INVALID, 8, 1.into(), false, true) };
    let mut arguments = PgList::<Node>::new();
    arguments.push(argument.cast());
    given.into_iter().for_each(|node| arguments.push(node));
    let arguments = arguments.into_pg();
    let cast = pg_sys::CoercionForm::COERCE_EXPLICIT_CALL;
    // SAFETY: a call as the function is declared.
    Some(unsafe { pg_sys::makeFuncExpr(in_copy, INT8OID, arguments, Oid::INVALID, Oid::INVALID, cast) }.cast())
}
