//! Whether a table has an index by the time of its IDs, which a range of IDs would not use.

use super::arithmetic;
use super::functions::{Function, which};
use crate::hooks::tree::expression_tree_walker;
use pgrx::PgList;
use pgrx::pg_sys::{self, FuncExpr, Node, NodeTag, Oid, RangeTblEntry, Var};
use pgrx::prelude::*;
use std::ffi::c_void;

/// Whether an index has the time, or this generated column, if one is given, as a column, in an expression or in its
/// predicate.
///
/// # Safety
///
/// The entry of a table of a query.
pub unsafe fn has_index_by_time(entry: *mut RangeTblEntry, column: Option<i16>) -> bool {
    // SAFETY: the statement has this lock on the table. The planner opens the same indexes in the same way.
    unsafe {
        let lock = (*entry).rellockmode;
        let table = pg_sys::relation_open((*entry).relid, pg_sys::NoLock.cast_signed());
        let indexes: Vec<Oid> = PgList::<Oid>::from_pg(pg_sys::RelationGetIndexList(table)).iter_oid().collect();
        pg_sys::relation_close(table, pg_sys::NoLock.cast_signed());
        let context = &raw const column;
        indexes.into_iter().any(|index| {
            let index = pg_sys::index_open(index, lock);
            let facts = &*(*index).rd_index;
            let count = usize::try_from(facts.indnkeyatts).unwrap_or(0);
            let columns = facts.indkey.values.as_slice(count);
            let is_by_time = facts.indisvalid
                && (column.is_some_and(|column| columns.contains(&column))
                    || names_time(pg_sys::RelationGetIndexExpressions(index).cast(), context.cast_mut().cast())
                    || names_time(pg_sys::RelationGetIndexPredicate(index).cast(), context.cast_mut().cast()));
            pg_sys::index_close(index, pg_sys::NoLock.cast_signed());
            is_by_time
        })
    }
}

/// Whether an expression of an index has the time of an ID, or the column that the context names.
#[pg_guard]
unsafe extern "C-unwind" fn names_time(node: *mut Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: an expression, or a list of them, of nodes, each of the type that its tag names.
    unsafe {
        match (*node).type_ {
            NodeTag::T_FuncExpr if which((*node.cast::<FuncExpr>()).funcid) != Function::Other => true,
            NodeTag::T_FuncExpr if arithmetic::time_of(node).is_some() => true,
            NodeTag::T_Var => *context.cast::<Option<i16>>() == Some((*node.cast::<Var>()).varattno),
            _ => expression_tree_walker(node, names_time, context),
        }
    }
}
