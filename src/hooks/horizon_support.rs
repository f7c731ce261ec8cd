//! The planner support function of `snowflake_horizon()`: an ERROR where its call would be in vain.

use super::tree::{call_to_simplify, expression_tree_walker, query_tree_walker};
use crate::postgres::catalog::relation_kind;
use crate::postgres::report::{error_report, raise};
use pgrx::pg_sys::submodules::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{CmdType, FuncExpr, Node, NodeTag, Oid, PlannerInfo, Query, RTEKind};
use pgrx::prelude::*;
use pgrx::{Internal, PgList};
use std::ffi::c_void;

/// Replaces nothing. PostgreSQL calls this for each call that it plans.
#[pg_extern(sql = false)]
fn snowflake_horizon_support(request: Internal) -> Internal {
    if let Some((call, Some(planned))) = call_to_simplify(request)
        // mutant: horizon-alone
        && reads_a_table(planned, call.funcid)
    {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "snowflake_horizon() cannot be used in a query that reads a table",
            )
            .set_detail("The query would not see rows committed after it began, even below the horizon.")
            .set_hint("Read the horizon in a statement before the query, or use snowflake_poll()."),
        );
    }
    // Not NULL, which PostgreSQL does not expect.
    Internal::from(Some(pg_sys::Datum::null()))
}

/// Whether any part of the statement reads a table: all parts share a snapshot.
fn reads_a_table(mut level: &PlannerInfo, mut horizon: Oid) -> bool {
    // SAFETY: null, or what the planner knows of the query around this one.
    while let Some(outer) = unsafe { level.parent_root.as_ref() } {
        // mutant: horizon-outer-query
        level = outer;
    }
    let mut queries: Vec<*mut Node> = vec![level.parse.cast()];
    // Subqueries that were planned already, and are gone from the query.
    // SAFETY: all levels share the list of them, and each has its query.
    unsafe {
        let planned = PgList::<PlannerInfo>::from_pg((*level.glob).subroots);
        // mutant: horizon-subquery
        queries.extend(planned.iter_ptr().map(|level| (*level).parse.cast::<Node>()));
    }
    let horizon = (&raw mut horizon).cast();
    // SAFETY: these are queries and the ID of a function. Nothing in the search is dropped when an ERROR jumps over it.
    unsafe { pg_guard_ffi_boundary(|| queries.iter().any(|&query| reads(query, horizon))) }
}

/// Whether a part of a query reads a table other than the system catalogs.
unsafe extern "C-unwind" fn reads(node: *mut Node, horizon: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: the planner's trees are of nodes, each of the type that its tag names. `horizon` goes on as it came.
    unsafe {
        if (*node).type_ != NodeTag::T_Query {
            return expression_tree_walker(node, reads, horizon);
        }
        let query = &*node.cast::<Query>();
        let writes = calls(query.targetList.cast(), horizon);
        let chooses = calls(query.jointree.cast(), horizon);
        let only_writes = query.commandType == CmdType::CMD_INSERT || writes && !chooses;
        names_a_table(query, only_writes) || query_tree_walker(node.cast(), reads, horizon, 0)
    }
}

/// Whether a query names a table itself. The table that it changes does not count if the horizon is only written into
/// it, as into a table of cursors.
fn names_a_table(query: &Query, only_writes: bool) -> bool {
    // SAFETY: the range table is a list of such nodes.
    let range_table = unsafe { PgList::<pg_sys::RangeTblEntry>::from_pg(query.rtable) };
    (1..).zip(range_table.iter_ptr()).any(|(number, entry)| {
        // SAFETY: no entry is null.
        let entry = unsafe { &*entry };
        // Not the other entries that PostgreSQL makes for a view, and for ON CONFLICT.
        entry.rtekind == RTEKind::RTE_RELATION
            && matches!(
                relation_kind(entry.relkind),
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
    // SAFETY: the planner's trees are of nodes, each of the type that its tag names. `horizon` is the ID of a function.
    unsafe {
        match (*node).type_ {
            NodeTag::T_FuncExpr if (*node.cast::<FuncExpr>()).funcid == *horizon.cast::<Oid>() => true,
            NodeTag::T_Query => query_tree_walker(node.cast(), calls, horizon, 0),
            _ => expression_tree_walker(node, calls, horizon),
        }
    }
}
