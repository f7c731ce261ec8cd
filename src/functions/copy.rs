//! Lets COPY write many rows at once.
//!
//! COPY collects rows, and writes a page of them with one WAL record, unless a default is volatile: such a function could
//! look at the table. PostgreSQL excepts `nextval()`, and nothing else. `snowflake_nextval()` looks at no table either; but to
//! declare it STABLE would be wrong, since ALTER TABLE ADD COLUMN would then give all rows of the table one ID.
//!
//! So while COPY FROM prepares the defaults of its columns, the planner is given a call of `snowflake_nextval_in_copy(…)` in the
//! place of each call: the same function, declared STABLE. COPY calls that for each row, and nobody else gets it: whoever else
//! simplifies a default, as Citus does for each INSERT, gets the plain call. (The first copy of a table by logical replication is
//! no COPY statement, and writes row by row where the subscriber adds such a column.)

use super::catalog::{beside, may_call};
use once_cell::sync::OnceCell;
use pgrx::Internal;
use pgrx::pg_sys::{CopyStmt, INT8OID, INTERNALOID, Node, NodeTag, Oid, SupportRequestSimplify};
use pgrx::prelude::*;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// What takes the place of `snowflake_nextval()`: the same function, declared with an argument that keeps it from being called
/// in SQL.
const IN_COPY: &CStr = c"snowflake_nextval_in_copy";

/// The name of the memory context in which BeginCopyFrom() prepares defaults, and BeginCopyTo() plans its statement. What COPY
/// calls for its rows, and what the planner evaluates, runs in others.
const COPY_CONTEXT: &CStr = c"COPY";

/// Whether the COPY that this process has begun last reads rows. Left as it is by one that fails: it means nothing outside
/// [`COPY_CONTEXT`].
static READS_ROWS: AtomicBool = AtomicBool::new(false);

/// The hook of a library that was loaded before.
static NEXT_HOOK: OnceCell<pg_sys::ProcessUtility_hook_type> = OnceCell::new();

unsafe extern "C-unwind" {
    // Not pgrx's: it catches errors, and raises them again without the constraint, the context and the position in the query.
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        query: *const c_char,
        read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        receiver: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

/// Has PostgreSQL tell this file when a COPY begins. Only while preloading: without, nothing can be issued.
pub fn watch() {
    // SAFETY: the postmaster has one thread, and loads one library after the other.
    NEXT_HOOK.get_or_init(|| unsafe { pg_sys::ProcessUtility_hook });
    // SAFETY: the same.
    unsafe { pg_sys::ProcessUtility_hook = Some(process_utility) };
}

/// Notes in which direction a COPY goes. An ERROR jumps over this frame, without a guard: it has nothing to drop.
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    let before = READS_ROWS.load(Ordering::Relaxed);
    // SAFETY: PostgreSQL passes a statement,
    let command = unsafe { (*statement).utilityStmt };
    // SAFETY: which is a node,
    if unsafe { (*command).type_ } == NodeTag::T_CopyStmt {
        // SAFETY: of this type.
        READS_ROWS.store(unsafe { (*command.cast::<CopyStmt>()).is_from }, Ordering::Relaxed);
    }
    let next = NEXT_HOOK.get().copied().flatten().unwrap_or(standard_ProcessUtility);
    // SAFETY: what PostgreSQL has passed, unchanged.
    unsafe { next(statement, query, read_only_tree, context, parameters, environment, receiver, completion) };
    READS_ROWS.store(before, Ordering::Relaxed);
}

/// Whether COPY FROM prepares its defaults.
fn is_preparing() -> bool {
    // SAFETY: a variable of this process.
    let context = unsafe { pg_sys::CurrentMemoryContext };
    // SAFETY: there always is a current memory context,
    let name = unsafe { (*context).name };
    // SAFETY: and each has a name, a C string.
    let name = unsafe { CStr::from_ptr(name) };
    name == COPY_CONTEXT && READS_ROWS.load(Ordering::Relaxed)
}

/// What the planner asks about a call of `snowflake_nextval()`; a null pointer leaves the call as it is.
#[pg_extern(sql = false)]
fn snowflake_nextval_support(request: Internal) -> Internal {
    let request = request.unwrap().map_or(std::ptr::null(), |request| request.cast_mut_ptr::<Node>().cast_const());
    let call = if is_preparing() { call_to_simplify(request) } else { None };
    let replaced = call.and_then(instead_of).unwrap_or(std::ptr::null_mut());
    // Not NULL, which PostgreSQL takes for a mistake.
    Internal::from(Some(pg_sys::Datum::from(replaced)))
}

/// The function that is called, if its call is to be simplified.
fn call_to_simplify(request: *const Node) -> Option<Oid> {
    // SAFETY: the planner passes a node.
    let tag = unsafe { (*request).type_ };
    if tag != NodeTag::T_SupportRequestSimplify {
        return None;
    }
    // SAFETY: a node of this type,
    let request = unsafe { &*request.cast::<SupportRequestSimplify>() };
    // SAFETY: which always has the call that it is about.
    Some(unsafe { (*request.fcall).funcid })
}

/// The call that takes the place of a call of this function. `None` where the user may not call both: then the call stays.
fn instead_of(function: Oid) -> Option<*mut c_void> {
    let in_copy = beside(function, IN_COPY, &[INTERNALOID]);
    if in_copy == Oid::INVALID || ![function, in_copy].into_iter().all(may_call) {
        return None;
    }
    // SAFETY: any value will do, if it is not NULL.
    let argument = unsafe { pg_sys::makeConst(INTERNALOID, -1, Oid::INVALID, 8, 1.into(), false, true) };
    // SAFETY: a list of one node.
    let arguments = unsafe { pg_sys::lappend(std::ptr::null_mut(), argument.cast()) };
    let cast = pg_sys::CoercionForm::COERCE_EXPLICIT_CALL;
    // SAFETY: a call as the function is declared.
    Some(unsafe { pg_sys::makeFuncExpr(in_copy, INT8OID, arguments, Oid::INVALID, Oid::INVALID, cast) }.cast())
}
