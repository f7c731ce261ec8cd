//! What the tables of a query have by the time of their IDs: indexes, a partition key or constraints, which a range of
//! IDs would not use.
//!
//! Read from the catalogs, without a lock on children: a query that reads one partition shall not lock, or open,
//! thousands. Each process keeps what it has read until PostgreSQL says that the table has changed.

use super::arithmetic;
use super::functions::{Function, which};
use crate::hooks::tree::expression_tree_walker;
use crate::postgres::catalog::{
    c_string, column_number, expression, numbers, partition_key, relation_kind, with_children,
};
use crate::postgres::extension_catalog::{Key, rows_of};
use pgrx::pg_sys::{self, BOOLOID, Datum, FuncExpr, Node, NodeTag, Oid, Var};
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

/// What a table and all of its children have.
#[derive(Clone, Copy)]
pub struct Family {
    /// Whether something of it is by the time.
    pub is_by_time: bool,
    /// Whether rows may come from a foreign server.
    pub is_foreign: bool,
}

/// What a single table has by the time.
#[derive(Clone, Copy)]
struct Own {
    /// An index or the partition key.
    key: bool,
    /// A constraint that the table has not inherited.
    check: bool,
}

/// What is known of a table, by the number of the column for the time; 0 is none.
#[derive(Default)]
struct Known {
    own: Vec<(i16, Own)>,
    family: Vec<(i16, Family)>,
    /// The tables whose families it belongs to.
    above: Vec<Oid>,
    /// Columns of times that have nothing to do with IDs.
    others: Vec<(i16, ())>,
}

thread_local! {
    static KNOWN: RefCell<HashMap<Oid, Known>> = RefCell::new(HashMap::new());
    static WATCHES: Cell<bool> = const { Cell::new(false) };
    /// How often a relation has changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// What is known of a column of a table.
fn recall<T: Copy>(table: Oid, column: i16, facts: impl Fn(&Known) -> &Vec<(i16, T)>) -> Option<T> {
    KNOWN.with_borrow(|known| facts(known.get(&table)?).iter().find(|(of, _)| *of == column).map(|(_, fact)| *fact))
}

/// Finds something out about a column of a table, and keeps it.
fn find_out<T: Copy>(
    table: Oid,
    column: i16,
    facts: impl Fn(&mut Known) -> &mut Vec<(i16, T)>,
    look: impl FnOnce() -> T,
) -> T {
    let (found, is_current) = watch(look);
    if is_current {
        keep(table, column, facts, found);
    }
    found
}

/// What is found, and whether it still holds: PostgreSQL can say that a relation has changed while the catalogs are
/// read.
fn watch<T>(look: impl FnOnce() -> T) -> (T, bool) {
    if !WATCHES.replace(true) {
        // SAFETY: the callback takes any relation, and no argument.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(forget), 0.into()) };
    }
    let changes = CHANGES.get();
    let found = look();
    (found, CHANGES.get() == changes)
}

/// Keeps what was found out about a column of a table.
fn keep<T>(table: Oid, column: i16, facts: impl Fn(&mut Known) -> &mut Vec<(i16, T)>, found: T) {
    KNOWN.with_borrow_mut(|known| {
        let facts = facts(known.entry(table).or_default());
        facts.retain(|(of, _)| *of != column);
        facts.push((column, found));
    });
}

/// Called by PostgreSQL when a relation, or any of them, may have changed.
unsafe extern "C-unwind" fn forget(_argument: Datum, relation: Oid) {
    CHANGES.set(CHANGES.get().wrapping_add(1));
    KNOWN.with(|known| {
        if let Ok(mut known) = known.try_borrow_mut() {
            if relation == Oid::INVALID {
                return known.clear();
            }
            // mutant: range-tables-forgotten
            let above = known.remove(&relation).map(|known| known.above);
            for table in above.into_iter().flatten() {
                // mutant: range-children-forgotten
                if let Some(known) = known.get_mut(&table) {
                    known.family.clear();
                }
            }
        }
    });
}

/// What a column of times has to do with an ID, unless it is known that there is nothing.
pub fn unless_other<T>(table: Oid, column: i16, look: impl FnOnce() -> Option<T>) -> Option<T> {
    if recall(table, column, |known| &known.others).is_some() {
        return None;
    }
    let (found, is_current) = watch(look);
    if found.is_none() && is_current {
        keep(table, column, |known| &mut known.others, ());
    }
    found
}

/// What a table and its children have by the time of their IDs, or by this generated column.
pub fn family(table: Oid, column: Option<i16>) -> Family {
    let column = column.unwrap_or(0);
    recall(table, column, |known| &known.family)
        .unwrap_or_else(|| find_out(table, column, |known| &mut known.family, || look(table, column)))
}

fn look(table: Oid, column: i16) -> Family {
    // SAFETY: takes any relation.
    let kind = |table| relation_kind(unsafe { pg_sys::get_rel_relkind(table) });
    let mut family = Family { is_by_time: own(table, column).key, is_foreign: kind(table) == b'f' };
    // SAFETY: as above.
    if !unsafe { pg_sys::has_subclass(table) } {
        return family;
    }
    // SAFETY: the name of a column, or null if there is none.
    let name = unsafe { pg_sys::get_attname(table, column, true) };
    let name = (!name.is_null() && column > 0).then(|| c_string(name));
    for child in with_children(table).into_iter().filter(|&child| child != table) {
        KNOWN.with_borrow_mut(|known| {
            let above = &mut known.entry(child).or_default().above;
            if !above.contains(&table) {
                above.push(table);
            }
        });
        let own = own(child, name.as_ref().map_or(0, |name| column_number(child, name)));
        // mutant: range-children
        family.is_by_time |= own.key || own.check;
        family.is_foreign |= kind(child) == b'f';
    }
    family
}

/// What this table alone has.
fn own(table: Oid, column: i16) -> Own {
    recall(table, column, |known| &known.own).unwrap_or_else(|| {
        find_out(
            table,
            column,
            |known| &mut known.own,
            || Own {
                key: has_key(table, column),
                check: constraints(table).into_iter().any(|constraint| names_time(constraint, column)),
            },
        )
    })
}

fn has_key(table: Oid, column: i16) -> bool {
    let is_by_time = |columns: &[i16], expressions: &[*mut Node]| {
        column > 0 && columns.contains(&column) || expressions.iter().any(|&expression| names_time(expression, column))
    };
    let is_of_index = |index: &Index| {
        let expressions: Vec<_> = [index.expressions, index.predicate].into_iter().flatten().collect();
        is_by_time(&index.columns, &expressions)
    };
    indexes(table).iter().any(is_of_index)
        || partition_key(table).is_some_and(|key| {
            // mutant: range-partition-key
            is_by_time(&key.columns, key.expressions.as_slice())
        })
}

/// A valid index.
pub struct Index {
    /// The numbers of its columns, except those that are only included; 0 is an expression.
    pub columns: Vec<i16>,
    /// Their operator classes.
    pub classes: Vec<Oid>,
    /// Its expressions.
    pub expressions: Option<*mut Node>,
    /// The condition of the rows that it has.
    pub predicate: Option<*mut Node>,
}

/// The valid indexes of a table.
pub fn indexes(table: Oid) -> Vec<Index> {
    let columns = [
        (c"indrelid", pg_sys::OIDOID),
        (c"indisvalid", BOOLOID),
        (c"indnkeyatts", pg_sys::INT2OID),
        (c"indkey", pg_sys::INT2VECTOROID),
        (c"indclass", pg_sys::OIDVECTOROID),
        (c"indexprs", pg_sys::PG_NODE_TREEOID),
        (c"indpred", pg_sys::PG_NODE_TREEOID),
    ];
    let key = Key { index: c"pg_index_indrelid_index", equal: pg_sys::F_OIDEQ, value: table.into() };
    // SAFETY: an OID is compared with one. The columns have these types.
    let rows = unsafe {
        rows_of(c"pg_index", columns, Some(key), |[_, valid, count, columns, classes, expressions, predicate]| {
            let count = usize::try_from(i16::from_datum(count?, false)?).ok()?;
            let classes = classes?.cast_mut_ptr::<pg_sys::oidvector>();
            bool::from_datum(valid?, false)?.then(|| Index {
                columns: numbers(columns.unwrap_or(0.into())).into_iter().take(count).collect(),
                classes: (*classes).values.as_slice(count).to_vec(),
                expressions: expressions.map(|text| expression(text)),
                predicate: predicate.map(|text| expression(text)),
            })
        })
    };
    rows.into_iter().flatten().collect()
}

/// The CHECK constraints that a table has for itself.
fn constraints(table: Oid) -> Vec<*mut Node> {
    let columns = [
        (c"conrelid", pg_sys::OIDOID),
        (c"contype", pg_sys::CHAROID),
        (c"coninhcount", COUNT),
        (c"conbin", pg_sys::PG_NODE_TREEOID),
    ];
    let index = c"pg_constraint_conrelid_contypid_conname_index";
    let key = Key { index, equal: pg_sys::F_OIDEQ, value: table.into() };
    // SAFETY: as above.
    let rows = unsafe {
        rows_of(c"pg_constraint", columns, Some(key), |[_, kind, inherited, text]| {
            let is_check = i8::from_datum(kind?, false).map(i32::from) == Some(i32::from(b'c'));
            let is_own = inherited?.value() == 0;
            text.filter(|_| is_check && is_own).map(|text| expression(text))
        })
    };
    rows.into_iter().flatten().collect()
}

/// Counts of parents became shorter in PostgreSQL 16.
const COUNT: Oid = if cfg!(feature = "pg15") { pg_sys::INT4OID } else { pg_sys::INT2OID };

/// Whether an expression has the time of an ID, or this column.
fn names_time(node: *mut Node, column: i16) -> bool {
    let mut column = c_int::from(column);
    // SAFETY: an expression, or a list of them.
    unsafe { is_time_or_has_one(node, (&raw mut column).cast()) }
}

#[pg_guard]
unsafe extern "C-unwind" fn is_time_or_has_one(node: *mut Node, column: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: nodes, each of the type that its tag names.
    unsafe {
        match (*node).type_ {
            NodeTag::T_FuncExpr if which((*node.cast::<FuncExpr>()).funcid) != Function::Other => true,
            NodeTag::T_FuncExpr if arithmetic::time_of(node).is_some() => true,
            NodeTag::T_Var => {
                let number = c_int::from((*node.cast::<Var>()).varattno);
                number > 0 && number == *column.cast::<c_int>()
            }
            _ => expression_tree_walker(node, is_time_or_has_one, column),
        }
    }
}
