//! Walks through queries and expressions; which expressions issue IDs.

use super::catalog::{function_name, is_ours};
use pgrx::PgList;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, CoercionForm, FuncExpr, Node, NodeTag, Oid, OpExpr, Query, ScalarArrayOpExpr};
use std::ffi::{CStr, c_int, c_void};

/// Called for each part of a node; ends the walk by `true`.
///
/// Without `#[pg_guard]`: an ERROR, as of a stack that is too deep, jumps over its frames, which is sound as long as
/// they have nothing to drop.
pub type Walker = unsafe extern "C-unwind" fn(*mut Node, *mut c_void) -> bool;

// Not pgrx's bindings, which catch errors at every node. From PostgreSQL 16 on, the names are macros.
unsafe extern "C-unwind" {
    /// Visits each part of a query.
    #[cfg_attr(not(feature = "pg15"), link_name = "query_tree_walker_impl")]
    pub fn query_tree_walker(query: *mut Query, walker: Walker, context: *mut c_void, flags: c_int) -> bool;

    /// Visits each part of an expression.
    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    pub fn expression_tree_walker(node: *mut Node, walker: Walker, context: *mut c_void) -> bool;

    /// Visits each function that this node itself calls, also as an operator.
    fn check_functions_in_node(node: *mut Node, checker: Checker, context: *mut c_void) -> bool;
}

type Checker = unsafe extern "C-unwind" fn(Oid, *mut c_void) -> bool;

/// Whether an expression, such as the default of a column, calls one of this extension's functions that issue IDs: in
/// `sql/extension`, each is declared with this support function.
pub fn issues_ids(expression: *mut Node) -> bool {
    called(expression).into_iter().any(issues_an_id)
}

/// Whether an expression is such a call with constants, and nothing else that could run.
pub fn is_call_that_issues_an_id(expression: *mut Node) -> bool {
    // SAFETY: an expression, or null, of nodes whose tags name their types.
    unsafe { call(expression).is_some_and(|call| issues_an_id(call.funcid) && has_constants(call)) }
}

fn issues_an_id(function: Oid) -> bool {
    const SUPPORT: &CStr = c"snowflake_nextval_support";
    // SAFETY: takes any OID, and gives the invalid one if there is no such function.
    let support = unsafe { pg_sys::get_func_support(function) };
    // mutant: issuing-ours
    function_name(support).as_deref() == Some(SUPPORT) && is_ours(function) && is_ours(support)
}

/// The call that an expression is.
///
/// # Safety
///
/// Only for an expression, or null.
unsafe fn call<'node>(expression: *mut Node) -> Option<&'node FuncExpr> {
    // SAFETY: the tag names the type.
    unsafe { (expression.as_ref()?.type_ == NodeTag::T_FuncExpr).then(|| &*expression.cast::<FuncExpr>()) }
}

/// Whether the arguments are constants, or what PostgreSQL itself casts from constants.
///
/// # Safety
///
/// Only for a call whose arguments are expressions.
unsafe fn has_constants(of: &FuncExpr) -> bool {
    let is_cast = |cast: &FuncExpr| {
        let is_written = cast.funcformat == CoercionForm::COERCE_EXPLICIT_CAST;
        cast.funcid.to_u32() < pg_sys::FirstNormalObjectId
            && (is_written || cast.funcformat == CoercionForm::COERCE_IMPLICIT_CAST)
    };
    // SAFETY: a list of expressions.
    unsafe {
        PgList::<Node>::from_pg(of.args).iter_ptr().all(|argument| {
            // mutant: default-of-constants
            (*argument).type_ == NodeTag::T_Const
                || call(argument).is_some_and(|cast| is_cast(cast) && has_constants(cast))
        })
    }
}

/// The functions that an expression calls, or a list of expressions, also as operators.
pub fn called(expression: *mut Node) -> Vec<Oid> {
    let mut called: Vec<Oid> = Vec::new();
    // SAFETY: an expression, or null. Nothing in the walk is dropped when an ERROR jumps over it.
    unsafe { pg_guard_ffi_boundary(|| note_calls(expression, (&raw mut called).cast())) };
    called
}

unsafe extern "C-unwind" fn note_calls(node: *mut Node, called: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: an expression is of nodes, each of the type that its tag names. `called` goes on as it came.
    unsafe {
        check_functions_in_node(node, note_call, called);
        expression_tree_walker(node, note_calls, called)
    }
}

unsafe extern "C-unwind" fn note_call(function: Oid, called: *mut c_void) -> bool {
    // SAFETY: `called` has passed its list.
    unsafe { (*called.cast::<Vec<Oid>>()).push(function) };
    false
}

/// The operators of an expression, or of a list of expressions. Whoever has made one need not have made its function.
pub fn operators(expression: *mut Node) -> Vec<Oid> {
    let mut operators: Vec<Oid> = Vec::new();
    // SAFETY: as in `called`.
    unsafe { pg_guard_ffi_boundary(|| note_operators(expression, (&raw mut operators).cast())) };
    operators
}

unsafe extern "C-unwind" fn note_operators(node: *mut Node, operators: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: the tag names the type. `operators` has passed its list.
    unsafe {
        let operator = match (*node).type_ {
            NodeTag::T_OpExpr | NodeTag::T_DistinctExpr | NodeTag::T_NullIfExpr => Some((*node.cast::<OpExpr>()).opno),
            NodeTag::T_ScalarArrayOpExpr => Some((*node.cast::<ScalarArrayOpExpr>()).opno),
            _ => None,
        };
        (*operators.cast::<Vec<Oid>>()).extend(operator);
        expression_tree_walker(node, note_operators, operators)
    }
}
