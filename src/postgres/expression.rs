//! Walks through queries and expressions; which expressions issue IDs.

use super::catalog::{function_name, is_ours};
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, FuncExpr, Node, NodeTag, Oid, Query};
use std::ffi::{CStr, c_int, c_void};

/// Called for each part of a node; ends the walk by `true`.
///
/// Without `#[pg_guard]`: an ERROR, as of a stack that is too deep, jumps over its frames, which is sound as long as they
/// have nothing to drop.
pub type Walker = unsafe extern "C-unwind" fn(*mut Node, *mut c_void) -> bool;

// Not pgrx's bindings, which catch errors at every node. From PostgreSQL 16 on, the names are macros.
unsafe extern "C-unwind" {
    /// Visits each part of a query.
    #[cfg_attr(not(feature = "pg15"), link_name = "query_tree_walker_impl")]
    pub fn query_tree_walker(query: *mut Query, walker: Walker, context: *mut c_void, flags: c_int) -> bool;

    /// Visits each part of an expression.
    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    pub fn expression_tree_walker(node: *mut Node, walker: Walker, context: *mut c_void) -> bool;
}

/// Whether an expression, such as the default of a column, calls one of this extension's functions that issue IDs: in
/// `sql/extension`, each is declared with this support function.
pub fn issues_ids(expression: *mut Node) -> bool {
    const SUPPORT: &CStr = c"snowflake_nextval_support";
    let mut called: Vec<Oid> = Vec::new();
    // SAFETY: an expression, or null. Nothing in the walk is dropped when an ERROR jumps over it.
    unsafe { pg_guard_ffi_boundary(|| note_calls(expression, (&raw mut called).cast())) };
    called.into_iter().any(|function| {
        // SAFETY: takes any OID, and gives the invalid one if there is no such function.
        let support = unsafe { pg_sys::get_func_support(function) };
        // mutant: issuing-ours
        function_name(support).as_deref() == Some(SUPPORT) && is_ours(function) && is_ours(support)
    })
}

/// Notes the functions that an expression calls.
unsafe extern "C-unwind" fn note_calls(node: *mut Node, called: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: an expression is of nodes, each of the type that its tag names. `called` goes on as it came.
    unsafe {
        if (*node).type_ == NodeTag::T_FuncExpr {
            (*called.cast::<Vec<Oid>>()).push((*node.cast::<FuncExpr>()).funcid);
        }
        expression_tree_walker(node, note_calls, called)
    }
}
