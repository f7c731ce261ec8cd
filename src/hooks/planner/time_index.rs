//! Whether a table has an index by the time of its IDs, which a range of IDs would not use.

use super::functions::is_time_function;
use crate::hooks::tree::expression_tree_walker;
use pgrx::PgList;
use pgrx::pg_sys::{self, FuncExpr, Node, NodeTag, Oid, RangeTblEntry};
use pgrx::prelude::*;
use std::ffi::c_void;

/// Whether an index has the time in an expression or in its predicate, or has this generated column, if one is given.
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
        indexes.into_iter().any(|index| {
            let index = pg_sys::index_open(index, lock);
            let facts = &*(*index).rd_index;
            let count = usize::try_from(facts.indnatts).unwrap_or(0);
            let columns = facts.indkey.values.as_slice(count);
            let is_by_time = column.is_some_and(|column| columns.contains(&column))
                || names_time(pg_sys::RelationGetIndexExpressions(index).cast(), std::ptr::null_mut())
                || names_time(pg_sys::RelationGetIndexPredicate(index).cast(), std::ptr::null_mut());
            pg_sys::index_close(index, pg_sys::NoLock.cast_signed());
            is_by_time
        })
    }
}

/// Whether an expression calls a function that gives a time.
#[pg_guard]
unsafe extern "C-unwind" fn names_time(node: *mut Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: an expression, or a list of them, of nodes, each of the type that its tag names.
    unsafe {
        (*node).type_ == NodeTag::T_FuncExpr && is_time_function((*node.cast::<FuncExpr>()).funcid)
            || expression_tree_walker(node, names_time, context)
    }
}
