//! Expressions about columns that others take the place of, and defaults that issue IDs.

use crate::postgres::expression::issues_ids;
use pgrx::prelude::*;
use std::ffi::{CStr, CString};

/// The text of an expression about the columns of a table, such as the predicate of an index, in which the columns `to`
/// stand in the place of `from`. Both are attribute numbers.
///
/// Evaluates nothing. Whoever reads the text finds operators and functions for the types of the new columns: PostgreSQL
/// does the same in `ALTER COLUMN TYPE`. An expression is a `pg_node_tree`, which no user can make.
#[pg_extern(sql = false)]
fn snowflake_adopt_expression(
    expression: &[u8],
    relation: pg_sys::Oid,
    from: Array<i16>,
    to: Array<i16>,
) -> Option<Vec<u8>> {
    let expression = CString::new(expression).expect("a text of PostgreSQL's");
    // SAFETY: the text is of a catalog. `natts` is the number of columns of the relation, which is open, and the map
    // has as many; it maps columns to themselves unless they are among `from`.
    unsafe {
        let table = pg_sys::try_relation_open(relation, pg_sys::AccessShareLock.cast_signed());
        if table.is_null() {
            return None;
        }
        let columns = (*(*table).rd_att).natts;
        let map = pg_sys::make_attrmap(columns);
        let numbers = std::slice::from_raw_parts_mut((*map).attnums, usize::try_from(columns).unwrap_or(0));
        for (number, place) in (1..).zip(numbers.iter_mut()) {
            let other = from.iter_deny_null().zip(to.iter_deny_null()).find(|&(from, _)| from == number);
            *place = other.map_or(number, |(_, to)| to);
        }
        let mut whole_row = false;
        let node = pg_sys::stringToNode(expression.as_ptr()).cast();
        let node = pg_sys::map_variable_attnos(node, 1, 0, map, pg_sys::InvalidOid, &raw mut whole_row);
        let context = pg_sys::deparse_context_for((*(*table).rd_rel).relname.data.as_ptr(), relation);
        let text = pg_sys::deparse_expression(node, context, false, false);
        pg_sys::relation_close(table, pg_sys::AccessShareLock.cast_signed());
        // In the encoding of the database, which need not be UTF-8.
        Some(CStr::from_ptr(text).to_bytes().to_vec())
    }
}

/// Whether the default of a column, a `pg_node_tree`, issues Snowflake IDs. Evaluates nothing.
#[pg_extern(sql = false)]
fn snowflake_adopt_issues_ids(expression: &[u8]) -> bool {
    let expression = CString::new(expression).expect("a text of PostgreSQL's");
    // SAFETY: the text is of a catalog.
    issues_ids(unsafe { pg_sys::stringToNode(expression.as_ptr()) }.cast())
}
