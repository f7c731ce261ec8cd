//! Lets COPY write many rows at once.
//!
//! COPY collects rows, and writes a page of them with one WAL record, unless a default is volatile: such a function could
//! look at the table. PostgreSQL excepts `nextval()`, and nothing else. `snowflake_nextval()` looks at no table either; but to
//! declare it STABLE would be wrong, since ALTER TABLE ADD COLUMN would then give all rows of the table one ID.
//!
//! So where an expression is prepared by itself, as COPY does with defaults, the planner is given
//! `coalesce(snowflake_nextval_in_copy(…), <next value of a sequence>)` in its place. PostgreSQL takes that for what
//! `nextval()` is, volatile everywhere but in COPY. An ID is never NULL, so no sequence is ever asked. Conditions of tables,
//! domains and triggers are prepared by themselves, too, and the planner does it to estimate what a condition selects; for
//! these nothing changes.

use pgrx::pg_sys::{CoalesceExpr, INT8OID, INTERNALOID, NextValueExpr, Node, NodeTag, Oid, SupportRequestSimplify};
use pgrx::prelude::*;
use pgrx::{Internal, IntoDatum, direct_function_call};
use std::ffi::{CStr, c_void};

/// What takes the place of `snowflake_nextval()`: the same function, declared with an argument that keeps it from being called
/// in SQL.
const IN_COPY: &CStr = c"snowflake_nextval_in_copy";

/// What the planner asks about a call of `snowflake_nextval()`; a null pointer leaves the call as it is.
#[pg_extern(sql = false)]
fn snowflake_nextval_support(request: Internal) -> Internal {
    let request = request.unwrap().map_or(std::ptr::null(), |request| request.cast_mut_ptr::<Node>().cast_const());
    let replaced = call_prepared_by_itself(request).and_then(instead_of).unwrap_or(std::ptr::null_mut());
    // Not NULL, which PostgreSQL takes for a mistake.
    Internal::from(Some(pg_sys::Datum::from(replaced)))
}

/// The function that is called, if its call is to be simplified by itself.
fn call_prepared_by_itself(request: *const Node) -> Option<Oid> {
    // SAFETY: the planner passes a node.
    let tag = unsafe { (*request).type_ };
    if tag != NodeTag::T_SupportRequestSimplify {
        return None;
    }
    // SAFETY: a node of this type,
    let request = unsafe { &*request.cast::<SupportRequestSimplify>() };
    // SAFETY: which always has the call that it is about.
    let function = unsafe { (*request.fcall).funcid };
    request.root.is_null().then_some(function)
}

/// The expression that stands for a call of this function. `None` where the user may not call both: then the call stays.
fn instead_of(function: Oid) -> Option<*mut c_void> {
    let in_copy = in_copy(function);
    if in_copy == Oid::INVALID || ![function, in_copy].into_iter().all(may_call) {
        return None;
    }
    // SAFETY: any value will do, if it is not NULL.
    let argument = unsafe { pg_sys::makeConst(INTERNALOID, -1, Oid::INVALID, 8, 1.into(), false, true) };
    let cast = pg_sys::CoercionForm::COERCE_EXPLICIT_CALL;
    // SAFETY: a call as the function is declared.
    let call =
        unsafe { pg_sys::makeFuncExpr(in_copy, INT8OID, list(&[argument.cast()]), Oid::INVALID, Oid::INVALID, cast) };
    // SAFETY: a node of the type that the tag says,
    let mut next_value = unsafe { PgBox::<NextValueExpr>::alloc_node(NodeTag::T_NextValueExpr) };
    next_value.typeId = INT8OID;
    // SAFETY: and so is this.
    let mut coalesce = unsafe { PgBox::<CoalesceExpr>::alloc_node(NodeTag::T_CoalesceExpr) };
    coalesce.coalescetype = INT8OID;
    coalesce.args = list(&[call.cast(), next_value.into_pg().cast()]);
    coalesce.location = -1;
    Some(coalesce.into_pg().cast())
}

fn may_call(function: Oid) -> bool {
    let may: Option<bool> =
        // SAFETY: takes the OID of a function and a text, and gives a boolean, or NULL if there is no such function.
        unsafe { direct_function_call(pg_sys::has_function_privilege_id, &[function.into_datum(), "EXECUTE".into_datum()]) };
    may == Some(true)
}

/// The function of this file that the script has put beside another one; the invalid OID where somebody has moved it.
fn in_copy(function: Oid) -> Oid {
    // SAFETY: the function exists, as it is called.
    let schema = unsafe { pg_sys::get_func_namespace(function) };
    // SAFETY: a list of one type.
    let arguments = unsafe { pg_sys::buildoidvector(&INTERNALOID, 1) };
    // Small numbers, whose types differ from version to version.
    let cache = i32::try_from(pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP).unwrap_or(-1);
    let column = i16::try_from(pg_sys::Anum_pg_proc_oid).unwrap_or(-1);
    let (name, arguments) = (pg_sys::Datum::from(IN_COPY.as_ptr()), pg_sys::Datum::from(arguments));
    // Not by LookupFuncName(), which asks for a right to the schema, which who uses a default need not have.
    // SAFETY: the keys of this cache.
    unsafe { pg_sys::GetSysCacheOid(cache, column, name, arguments, schema.into(), 0.into()) }
}

fn list(nodes: &[*mut c_void]) -> *mut pg_sys::List {
    nodes.iter().fold(std::ptr::null_mut(), |list, &node| {
        // SAFETY: a list of nodes, or null, which is an empty one.
        unsafe { pg_sys::lappend(list, node) }
    })
}
