//! Which expressions are the time of an ID.

use super::arithmetic;
use super::functions::{Function, which};
use super::id::{TimeOf, layout_of};
use super::tables::{family, unless_other};
use crate::hooks::tree::{cast, nodes};
use crate::postgres::catalog::relation_kind;
use pgrx::PgList;
use pgrx::pg_sys::{self, FieldSelect, FuncExpr, Node, NodeTag, Oid, Query, RTEKind, RangeTblEntry, TargetEntry, Var};
use snowflake_core::id::layout::Layout;
use std::ffi::CStr;

/// The ID whose time this is, in a query in which calls have their layouts.
///
/// # Safety
///
/// An expression of this query.
pub unsafe fn time_of(node: *mut Node, query: *mut Query) -> Option<TimeOf> {
    // SAFETY: a node is of the type that its tag names.
    unsafe {
        if let Some(time) = computed(node) {
            let table = entry_of(time.id, query).filter(|&entry| (*entry).rtekind == RTEKind::RTE_RELATION);
            let Some(table) = table else { return Some(time) };
            let family = family((*table).relid, None);
            // mutant: range-indexed
            return Some(TimeOf { is_foreign: family.is_foreign, ..time }).filter(|_| !family.is_by_time);
        }
        let column = cast::<Var>(node, NodeTag::T_Var)?;
        let entry = entry_of(column, query)?;
        let inner = match (*entry).rtekind {
            RTEKind::RTE_RELATION => {
                let (table, number) = ((*entry).relid, (*column).varattno);
                let time = unless_other(table, number, || generated(column, table));
                return time.filter(|_| !family(table, Some(number)).is_by_time);
            }
            _ => query_of(entry, query)?,
        };
        through(column, inner)
    }
}

/// The ID whose time an expression of it is.
unsafe fn computed(node: *mut Node) -> Option<TimeOf> {
    // SAFETY: as above.
    unsafe {
        if let Some(call) = cast::<FuncExpr>(node, NodeTag::T_FuncExpr) {
            // No layout has some shifts, units and epochs.
            let calculated = || arithmetic::time_of(node).filter(|time| sorts_by_time(time.layout));
            return called(call, Function::Timestamp).or_else(calculated);
        }
        let field = cast::<FieldSelect>(node, NodeTag::T_FieldSelect)?;
        // `issued_at` is the first one.
        let call = cast((*field).arg.cast(), NodeTag::T_FuncExpr).filter(|_| (*field).fieldnum == 1)?;
        called(call, Function::Decode)
    }
}

/// The query of a sub-query or of a common table expression.
///
/// # Safety
///
/// An entry of this query.
pub unsafe fn query_of(entry: *mut RangeTblEntry, query: *mut Query) -> Option<*mut Query> {
    // SAFETY: an entry of the kind that it says.
    unsafe {
        match (*entry).rtekind {
            RTEKind::RTE_SUBQUERY => Some((*entry).subquery),
            RTEKind::RTE_CTE if (*entry).ctelevelsup == 0 && !(*entry).self_reference => {
                common_table(query, (*entry).ctename)
            }
            _ => None,
        }
    }
}

/// What a column of this query, not of one around it, is a column of.
///
/// # Safety
///
/// A column of this query, or of one around it.
pub unsafe fn entry_of(column: *mut Var, query: *mut Query) -> Option<*mut RangeTblEntry> {
    // SAFETY: as the caller's.
    unsafe { if (*column).varlevelsup == 0 { entry((*column).varno, query) } else { None } }
}

/// The entry of a query with this number.
///
/// # Safety
///
/// A query.
pub unsafe fn entry(number: i32, query: *mut Query) -> Option<*mut RangeTblEntry> {
    // SAFETY: a list of such entries, which are numbered from 1 on.
    unsafe { Some(nodes((*query).rtable).nth(usize::try_from(number).ok()?.checked_sub(1)?)?.cast()) }
}

/// The ID of a call of this function, if a column has it and a constant names the layout.
unsafe fn called(call: *mut FuncExpr, function: Function) -> Option<TimeOf> {
    // SAFETY: the arguments of a call are a list of nodes, each of the type that its tag names.
    unsafe {
        if (*call).funcid.to_u32() < pg_sys::FirstNormalObjectId || which((*call).funcid) != function {
            return None;
        }
        let arguments = PgList::<Node>::from_pg((*call).args);
        let (id, layout) = arguments.get_ptr(0).zip(arguments.get_ptr(1))?;
        let id = super::id::column(id)?;
        sorts_by_time(layout).then_some(TimeOf { id, layout, in_utc: false, is_called: true, is_foreign: false })
    }
}

/// Whether this is the constant of a layout whose IDs, as `bigint`, are ordered by time.
unsafe fn sorts_by_time(layout: *mut Node) -> bool {
    // mutant: range-layout
    let sorts = |layout: Layout| layout.sorts_by_time() && i64::try_from(layout.max_id()).is_ok();
    // SAFETY: an expression of type text.
    unsafe { layout_of(layout) }.is_some_and(sorts)
}

/// The query of a common table expression; `None` if it refers to itself, or writes.
unsafe fn common_table(query: *mut Query, name: *const std::ffi::c_char) -> Option<*mut Query> {
    // SAFETY: the list is of such expressions, whose names are C strings.
    unsafe {
        let table = nodes((*query).cteList)
            .map(|node| node.cast::<pg_sys::CommonTableExpr>())
            .find(|&table| CStr::from_ptr((*table).ctename) == CStr::from_ptr(name))?;
        let inner = cast::<Query>((*table).ctequery, NodeTag::T_Query)?;
        (!(*table).cterecursive && (*inner).commandType == pg_sys::CmdType::CMD_SELECT).then_some(inner)
    }
}

/// The ID whose time a column of a sub-query is, if that is another column of it.
unsafe fn through(column: *mut Var, inner: *mut Query) -> Option<TimeOf> {
    // SAFETY: the columns of a sub-query are its targets, in their order, each an expression of it.
    unsafe {
        // In a row of a grouping set, one of the two can be NULL without the other.
        // mutant: range-grouping
        if !(*inner).setOperations.is_null() || !(*inner).groupingSets.is_null() {
            return None;
        }
        let targets =
            || nodes((*inner).targetList).map(|node| node.cast::<TargetEntry>()).filter(|&target| !(*target).resjunk);
        let time = targets().find(|&target| (*target).resno == (*column).varattno)?;
        let time = time_of((*time).expr.cast(), inner)?;
        let target = targets().find(|&target| pg_sys::equal((*target).expr.cast(), time.id.cast()))?;
        Some(TimeOf { id: beside(column, time.id, (*target).resno), ..time })
    }
}

/// The ID whose time a generated column is.
unsafe fn generated(column: *mut Var, table: Oid) -> Option<TimeOf> {
    // SAFETY: the statement has a lock on its tables. The expression is copied before the table is closed.
    unsafe {
        let relation = pg_sys::relation_open(table, pg_sys::NoLock.cast_signed());
        let expression = expression_of(relation, (*column).varattno);
        pg_sys::relation_close(relation, pg_sys::NoLock.cast_signed());
        let time = computed(expression?)?;
        let id = beside(column, time.id, (*time.id).varattno);
        Some(TimeOf { id, is_foreign: family(table, None).is_foreign, ..time })
    }
}

/// Whether a stored column has the result of the table's own expression in all rows: not in those of a foreign server
/// and, from PostgreSQL 16 on, of a child table.
unsafe fn computes_stored(table: pg_sys::Relation) -> bool {
    // SAFETY: a table.
    let facts = unsafe { &*(*table).rd_rel };
    let is_partitioned = relation_kind(facts.relkind) == b'p';
    // SAFETY: as above.
    let is_foreign = || family(unsafe { (*table).rd_id }, None).is_foreign;
    (!facts.relhassubclass || cfg!(feature = "pg15") && is_partitioned) && !is_foreign()
}

/// The expression of a generated column of which all rows of the table have the result.
unsafe fn expression_of(table: pg_sys::Relation, number: i16) -> Option<*mut Node> {
    // SAFETY: a table has a description, and as many columns and defaults as it says.
    unsafe {
        let facts = (*(*table).rd_att).constr.as_ref().filter(|_| number > 0)?;
        match relation_kind(pg_sys::get_attgenerated((*table).rd_id, number)) {
            b'v' => {}
            b's' if computes_stored(table) => {}
            _ => return None,
        }
        let defaults = std::slice::from_raw_parts(facts.defval, facts.num_defval.into());
        let default = defaults.iter().find(|default| default.adnum == number)?;
        let expression = pg_sys::stringToNode(default.adbin).cast();
        Some(pg_sys::eval_const_expressions(std::ptr::null_mut(), expression))
    }
}

/// Another column of the same row, which is there, or NULL, for both.
unsafe fn beside(column: *mut Var, other: *mut Var, number: i16) -> *mut Var {
    // SAFETY: columns. The copy belongs to who asks.
    unsafe {
        let copy = pg_sys::copyObjectImpl(column.cast()).cast::<Var>();
        (*copy).varattno = number;
        (*copy).vartype = (*other).vartype;
        (*copy).vartypmod = (*other).vartypmod;
        (*copy).varcollid = (*other).varcollid;
        (*copy).varattnosyn = number;
        copy
    }
}
