//! What queries become before PostgreSQL plans them.

mod arithmetic;
mod conditions;
mod functions;
mod id;
mod key_order;
mod layout_constant;
mod tables;
mod time_of;
mod time_order;
mod time_range;

use super::tree::{expression_tree_walker, query_tree_walker};
use crate::config::gucs;
use once_cell::sync::OnceCell;
use pgrx::pg_sys::{FuncExpr, Node, NodeTag, ParamListInfo, PlannedStmt, Query};
use pgrx::prelude::*;
use std::ffi::{c_char, c_int, c_void};

/// The hook of a library loaded before.
static NEXT_HOOK: OnceCell<pg_sys::planner_hook_type> = OnceCell::new();

// Not pgrx's binding, which catches errors and raises them again without their position.
unsafe extern "C-unwind" {
    fn standard_planner(
        query: *mut Query,
        text: *const c_char,
        cursor_options: c_int,
        parameters: ParamListInfo,
        #[cfg(feature = "pg19")] explain: *mut pg_sys::ExplainState,
    ) -> *mut PlannedStmt;
}

/// Installs the hook. Only while preloading. Planner hooks of libraries loaded before see the changed query.
pub fn watch() {
    // SAFETY: the postmaster has one thread.
    unsafe {
        NEXT_HOOK.get_or_init(|| pg_sys::planner_hook);
        pg_sys::planner_hook = Some(plan);
    }
}

/// Changes a query, and has it planned.
///
/// Without `#[pg_guard]`: an ERROR of the planner jumps over this frame, which is sound as long as it has nothing to
/// drop.
unsafe extern "C-unwind" fn plan(
    query: *mut Query,
    text: *const c_char,
    cursor_options: c_int,
    parameters: ParamListInfo,
    #[cfg(feature = "pg19")] explain: *mut pg_sys::ExplainState,
) -> *mut PlannedStmt {
    let next = NEXT_HOOK.get().copied().flatten().unwrap_or(standard_planner);
    // SAFETY: PostgreSQL has passed all of this to a planner, which may modify the query.
    unsafe {
        change(query.cast(), parameters.cast());
        #[cfg(not(feature = "pg19"))]
        return next(query, text, cursor_options, parameters);
        #[cfg(feature = "pg19")]
        return next(query, text, cursor_options, parameters, explain);
    }
}

/// Changes a query or an expression in place, given the parameters; never stops early. Without `#[pg_guard]`, as
/// [`plan`].
unsafe extern "C-unwind" fn change(node: *mut Node, parameters: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: a query that may be modified is of nodes, each of the type that its tag names.
    unsafe {
        match (*node).type_ {
            NodeTag::T_Query => {
                // The walker also visits its sub-queries. Conditions come afterwards, since they name layouts.
                query_tree_walker(node.cast(), change, parameters, 0);
                if gucs::enable_time_ranges() {
                    time_range::apply(node.cast(), parameters.is_null());
                    time_order::apply(node.cast());
                }
                return false;
            }
            NodeTag::T_FuncExpr => {
                let call: *mut FuncExpr = node.cast();
                if (*call).funcid.to_u32() >= pg_sys::FirstNormalObjectId {
                    layout_constant::name_layout(call);
                }
            }
            // Most of all nodes, and they have no parts.
            NodeTag::T_Var | NodeTag::T_Const | NodeTag::T_Param => return false,
            _ => {}
        }
        expression_tree_walker(node, change, parameters)
    }
}
