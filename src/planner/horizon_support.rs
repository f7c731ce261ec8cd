//! The planner support function of `snowflake_horizon()`: an ERROR where its call would be in vain.

use super::tree::{expression_tree_walker, query_tree_walker};
use crate::errors::{error_report, raise};
use pgrx::pg_sys::submodules::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{CmdType, FuncExpr, Node, NodeTag, Oid, PlannerInfo, Query, RTEKind, SupportRequestSimplify};
use pgrx::prelude::*;
use pgrx::{Internal, PgList};
use std::ffi::c_void;

/// Replaces nothing. PostgreSQL calls this for each call that it plans.
#[pg_extern(sql = false)]
fn snowflake_horizon_support(request: Internal) -> Internal {
    let request = request.unwrap().map_or(std::ptr::null(), |request| request.cast_mut_ptr::<Node>().cast_const());
    // SAFETY: the planner passes a node.
    if unsafe { (*request).type_ } == NodeTag::T_SupportRequestSimplify {
        // SAFETY: a node of this type.
        let request = unsafe { &*request.cast::<SupportRequestSimplify>() };
        // SAFETY: the request has a call.
        let horizon = unsafe { (*request.fcall).funcid };
        // SAFETY: null, or what the planner knows of a query.
        if unsafe { request.root.as_ref() }.is_some_and(|planned| reads_a_table(planned, horizon)) {
            raise(
                error_report(
                    PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                    "snowflake_horizon() cannot be used in a query that reads a table",
                )
                .set_detail("The query would not see rows committed after it has begun, also below the horizon.")
                .set_hint("Read the horizon in a statement before the query, or use snowflake_poll()."),
            );
        }
    }
    // Not NULL, which PostgreSQL does not expect.
    Internal::from(Some(pg_sys::Datum::null()))
}

/// Whether any part of the statement reads a table: all parts share a snapshot.
fn reads_a_table(mut level: &PlannerInfo, mut horizon: Oid) -> bool {
    // SAFETY: null, or what the planner knows of the query around this one.
    while let Some(outer) = unsafe { level.parent_root.as_ref() } {
        level = outer;
    }
    // SAFETY: the planner shares this among all levels.
    let global = unsafe { &*level.glob };
    // SAFETY: a list of such nodes: subqueries that were planned already, and are gone from the query.
    let planned = unsafe { PgList::<PlannerInfo>::from_pg(global.subroots) };
    // SAFETY: every level has its query.
    let planned = planned.iter_ptr().map(|level| unsafe { (*level).parse });
    let queries: Vec<*mut Node> = std::iter::once(level.parse).chain(planned).map(<*mut Query>::cast).collect();
    let horizon = (&raw mut horizon).cast();
    // SAFETY: queries, and the ID of a function.
    let search = || queries.iter().any(|&query| unsafe { reads(query, horizon) });
    // SAFETY: nothing in the search is dropped when an ERROR jumps over it.
    unsafe { pg_guard_ffi_boundary(search) }
}

/// Whether a part of a query reads a table other than the system catalogs.
unsafe extern "C-unwind" fn reads(node: *mut Node, horizon: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: the planner's trees are of nodes.
    if unsafe { (*node).type_ } != NodeTag::T_Query {
        // SAFETY: calls this function for each part of the node.
        return unsafe { expression_tree_walker(node, reads, horizon) };
    }
    let query = node.cast::<Query>();
    // SAFETY: a query.
    let itself = unsafe { &*query };
    // SAFETY: a list of expressions, and the ID of a function.
    let writes = unsafe { calls(itself.targetList.cast(), horizon) };
    // SAFETY: an expression, and the ID of a function.
    let chooses = unsafe { calls(itself.jointree.cast(), horizon) };
    let only_writes = itself.commandType == CmdType::CMD_INSERT || writes && !chooses;
    // SAFETY: calls this function for each part of the query.
    names_a_table(itself, only_writes) || unsafe { query_tree_walker(query, reads, horizon, 0) }
}

/// Whether a query names a table itself. The table that it changes does not count if the horizon is only written into
/// it, as into a table of cursors.
fn names_a_table(query: &Query, only_writes: bool) -> bool {
    // SAFETY: the range table is a list of such nodes.
    let range_table = unsafe { PgList::<pg_sys::RangeTblEntry>::from_pg(query.rtable) };
    (1..).zip(range_table.iter_ptr()).any(|(number, entry)| {
        // SAFETY: a node of the list.
        let entry = unsafe { &*entry };
        // Not the other entries that PostgreSQL makes for a view, and for ON CONFLICT.
        entry.rtekind == RTEKind::RTE_RELATION
            && matches!(
                entry.relkind.cast_unsigned(),
                pg_sys::RELKIND_RELATION
                    | pg_sys::RELKIND_PARTITIONED_TABLE
                    | pg_sys::RELKIND_FOREIGN_TABLE
                    | pg_sys::RELKIND_MATVIEW
            )
            && entry.relid.to_u32() >= pg_sys::FirstNormalObjectId
            && !(only_writes && number == query.resultRelation)
    })
}

/// Whether an expression calls the function.
unsafe extern "C-unwind" fn calls(node: *mut Node, horizon: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: the ID of a function.
    let function = unsafe { *horizon.cast::<Oid>() };
    // SAFETY: the planner's trees are of nodes.
    match unsafe { (*node).type_ } {
        // SAFETY: a call.
        NodeTag::T_FuncExpr if unsafe { (*node.cast::<FuncExpr>()).funcid } == function => true,
        // SAFETY: calls this function for each part of the query.
        NodeTag::T_Query => unsafe { query_tree_walker(node.cast(), calls, horizon, 0) },
        // SAFETY: calls this function for each part of the node.
        _ => unsafe { expression_tree_walker(node, calls, horizon) },
    }
}
