//! Which rows of a table conditions choose, and whether an index has these in the order of the ID.

use super::id::column;
use super::tables::{Index, indexes};
use super::time_of::{entry_of, query_of, time_of};
use crate::hooks::tree::{cast, expression_tree_walker, nodes};
use pgrx::pg_sys::{
    self, BoolExpr, BoolExprType, BoolTestType, BooleanTest, List, Node, NodeTag, Oid, OpExpr, Query, RTEKind,
    RangeTblEntry, RowCompareExpr, TargetEntry, Var,
};
use pgrx::prelude::*;
use std::ffi::c_void;

/// `BTEqualStrategyNumber`.
const EQUAL: i32 = 3;

/// `integer_ops` of B-trees (pg_opfamily.dat).
const INTEGERS: Oid = Oid::from_u32(1976);

/// The ID in a query, or in a sub-query of it.
#[derive(Clone, Copy)]
pub struct Id {
    pub query: *mut Query,
    pub column: *mut Var,
}

/// A column of a table in FROM, where the same table can be twice.
pub type Column = (*mut RangeTblEntry, i16);

/// A condition on the rows of the table that has the ID.
pub struct Condition {
    /// As the catalog has conditions on this table alone; `None` if it has a sub-query.
    clause: Option<*mut Node>,
    /// The column that must equal something known, and by which operator.
    equal: Option<(i16, Oid)>,
    /// Whether it is on the ID or its time alone.
    is_of_id: bool,
}

/// Adds a condition to those on the table that has the ID; `None` if it is not on this table alone.
///
/// # Safety
///
/// A condition of this query, or a list of them, or null.
pub unsafe fn add(node: *mut Node, id: Id, conditions: &mut Vec<Condition>) -> Option<()> {
    // SAFETY: as the caller's.
    unsafe {
        if node.is_null() || is_known(node) {
            return Some(());
        }
        if let Some(parts) = all_of(node) {
            return nodes(parts).try_for_each(|part| add(part, id, conditions));
        }
        let (table, _) = base(id)?;
        // mutant: range-same-table
        let equal = equality(node, id).filter(|((of, _), _)| *of == table).map(|((_, number), by)| (number, by));
        let condition = Condition { clause: of_table(node, id, table), equal, is_of_id: is_of_id(node, id) };
        let is_on_table = condition.clause.is_some() || condition.equal.is_some() || condition.is_of_id;
        conditions.push(condition);
        is_on_table.then_some(())
    }
}

/// The conditions that must all be true for this one.
///
/// # Safety
///
/// A condition, or a list of them.
pub unsafe fn all_of(node: *mut Node) -> Option<*mut List> {
    // SAFETY: as the caller's.
    unsafe {
        let both = || cast::<BoolExpr>(node, NodeTag::T_BoolExpr).filter(|&it| (*it).boolop == BoolExprType::AND_EXPR);
        cast(node, NodeTag::T_List).or_else(|| Some((*both()?).args))
    }
}

/// Whether conditions choose no rows, or those of an index that has the ID after what is equal in all of them.
///
/// # Safety
///
/// Conditions of this ID.
pub unsafe fn leave_order(conditions: &[Condition], id: Id) -> bool {
    // mutant: range-restricted
    if conditions.iter().all(|condition| condition.is_of_id) {
        return true;
    }
    // SAFETY: as the caller's. The entry is a table's.
    unsafe {
        let Some((table, id)) = base(id) else { return false };
        indexes((*table).relid).iter().any(|index| has_id_after(index, id, conditions))
    }
}

/// Whether an index has exactly the rows that conditions choose, or first columns that are all equal in those, and then
/// the ID.
unsafe fn has_id_after(index: &Index, id: i16, conditions: &[Condition]) -> bool {
    // SAFETY: takes the class of an index.
    let family = |class: Oid| unsafe { pg_sys::get_opclass_family(class) };
    let is_equal = |column: i16, class: Oid| {
        // SAFETY: takes any operator.
        let is_equality = |operator| unsafe { pg_sys::get_op_opfamily_strategy(operator, family(class)) == EQUAL };
        let mut equal = conditions.iter().filter_map(|condition| condition.equal);
        equal.any(|(number, operator)| number == column && is_equality(operator))
    };
    let first =
        index.columns.iter().zip(&index.classes).take_while(|&(&column, &class)| is_equal(column, class)).count();
    if index.columns.get(first) != Some(&id) || family(index.classes[first]) != INTEGERS {
        return false;
    }
    let is_first =
        |condition: &Condition| condition.equal.is_some_and(|(number, _)| index.columns[..first].contains(&number));
    // SAFETY: conditions on the same table, as the catalog has them.
    unsafe {
        let predicate = index.predicate.map_or(std::ptr::null_mut(), |predicate| parts(predicate));
        let all = conditions.iter().filter_map(|condition| condition.clause);
        let all = all.fold(std::ptr::null_mut(), |all, clause| pg_sys::list_concat(all, parts(clause)));
        // mutant: range-predicate
        let is_all_chosen = |condition: &Condition| {
            condition.clause.is_some_and(|clause| pg_sys::predicate_implied_by(parts(clause), predicate, false))
        };
        pg_sys::predicate_implied_by(predicate, all, false)
            && conditions.iter().all(|it| it.is_of_id || is_first(it) || is_all_chosen(it))
    }
}

/// The parts of a condition in the form that `predicate_implied_by()` takes.
unsafe fn parts(clause: *mut Node) -> *mut List {
    // SAFETY: a condition.
    unsafe {
        let clause = pg_sys::eval_const_expressions(std::ptr::null_mut(), clause);
        pg_sys::make_ands_implicit(pg_sys::canonicalize_qual(clause.cast(), false))
    }
}

/// Whether an expression has the same value for all rows.
unsafe fn is_known(node: *mut Node) -> bool {
    // SAFETY: an expression.
    unsafe { !pg_sys::contain_vars_of_level(node, 0) && !pg_sys::contain_volatile_functions(node) }
}

/// The side of a comparison that is not known, if the other one is.
unsafe fn compared(comparison: *mut OpExpr) -> Option<*mut Node> {
    // SAFETY: the arguments of an operator are a list of expressions.
    unsafe {
        let mut sides = nodes((*comparison).args);
        let (left, right) = (sides.next()?, sides.next()?);
        if is_known(right) { Some(left) } else { is_known(left).then_some(right) }
    }
}

/// Whether a condition is on the ID or its time alone.
unsafe fn is_of_id(node: *mut Node, id: Id) -> bool {
    // SAFETY: a condition of this query.
    unsafe {
        if let Some(parts) = cast::<BoolExpr>(node, NodeTag::T_BoolExpr) {
            return nodes((*parts).args).all(|part| is_known(part) || is_of_id(part, id));
        }
        let is_it = |side: *mut Node| {
            let place = |of: *mut Var| ((*of).varno, (*of).varattno, (*of).varlevelsup);
            let is_it = |other| place(other) == place(id.column);
            column(side).is_some_and(is_it) || time_of(side, id.query).is_some_and(|time| is_it(time.id))
        };
        if let Some(rows) = cast::<RowCompareExpr>(node, NodeTag::T_RowCompareExpr) {
            return [(*rows).largs, (*rows).rargs].into_iter().any(|side| nodes(side).next().is_some_and(is_it));
        }
        cast(node, NodeTag::T_OpExpr).and_then(|comparison| compared(comparison)).is_some_and(is_it)
    }
}

/// The column that a condition compares with something known, and the operator; by itself, a boolean is compared with
/// true or false.
unsafe fn equality(node: *mut Node, id: Id) -> Option<(Column, Oid)> {
    // SAFETY: a condition of this query.
    unsafe {
        if let Some(comparison) = cast::<OpExpr>(node, NodeTag::T_OpExpr) {
            let column = column(compared(comparison)?)?;
            return Some((base(Id { column, ..id })?, (*comparison).opno));
        }
        let test = cast::<BooleanTest>(node, NodeTag::T_BooleanTest)
            .filter(|&test| [BoolTestType::IS_TRUE, BoolTestType::IS_FALSE].contains(&(*test).booltesttype))
            .map(|test| (*test).arg.cast());
        let not = || {
            let not = cast::<BoolExpr>(node, NodeTag::T_BoolExpr)?;
            nodes((*not).args).next().filter(|_| (*not).boolop == BoolExprType::NOT_EXPR)
        };
        let column = cast::<Var>(test.or_else(not).unwrap_or(node), NodeTag::T_Var)?;
        Some((base(Id { column, ..id })?, pg_sys::BooleanEqualOperator.into()))
    }
}

/// A condition as the catalog has those on this table alone, which is number 1 there; `None` if it is not one.
unsafe fn of_table(node: *mut Node, id: Id, table: *mut RangeTblEntry) -> Option<*mut Node> {
    // SAFETY: a condition of this query. The copy is this function's.
    unsafe {
        if pg_sys::contain_subplans(node) || pg_sys::contain_volatile_functions(node) {
            return None;
        }
        let copy = pg_sys::copyObjectImpl(node.cast()).cast();
        let mut context = (id.query, table);
        (!names_other(copy, (&raw mut context).cast())).then_some(copy)
    }
}

/// Makes columns those of the table as the catalog names them, until one is of another.
#[pg_guard]
unsafe extern "C-unwind" fn names_other(node: *mut Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: an expression without sub-queries, which may be modified, and what `of_table` passes.
    unsafe {
        let (query, table) = *context.cast::<(*mut Query, *mut RangeTblEntry)>();
        let Some(column) = cast::<Var>(node, NodeTag::T_Var) else {
            return expression_tree_walker(node, names_other, context);
        };
        if (*column).varlevelsup > 0 {
            return false;
        }
        let Some((_, number)) = base(Id { query, column }).filter(|(of, _)| *of == table) else { return true };
        (*column).varno = 1;
        (*column).varattno = number;
        #[cfg(not(feature = "pg15"))]
        {
            (*column).varnullingrels = std::ptr::null_mut();
        }
        false
    }
}

/// The ID in the sub-query that it comes from.
///
/// # Safety
///
/// A column of the query, or of one around it.
pub unsafe fn inner(id: Id) -> Option<Id> {
    // SAFETY: the columns of a sub-query are its targets.
    unsafe {
        let query = query_of(entry_of(id.column, id.query)?, id.query)?;
        let targets = nodes((*query).targetList).map(|node| node.cast::<TargetEntry>());
        let target = { targets }.find(|&target| !(*target).resjunk && (*target).resno == (*id.column).varattno)?;
        Some(Id { query, column: column((*target).expr.cast())? })
    }
}

/// The column of a table that this one is.
///
/// # Safety
///
/// As above.
pub unsafe fn base(id: Id) -> Option<Column> {
    // SAFETY: a column of a query around it has no entry.
    unsafe {
        let entry = entry_of(id.column, id.query)?;
        match (*entry).rtekind {
            RTEKind::RTE_RELATION => Some((entry, (*id.column).varattno)),
            _ => base(inner(id)?),
        }
    }
}
