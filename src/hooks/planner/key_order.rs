//! Whether the key is a good way to the first rows of a query by time.
//!
//! PostgreSQL takes rows that a condition chooses to be spread evenly over the key, and reads it from its end until it has
//! found enough. But the rows of a customer who is long gone are all at the other end. So the order of a query is that of
//! the key only where nothing else chooses rows, or where an index has the ID after what does.

use super::id::column;
use super::tables::{Index, indexes};
use super::time_of::{entry_of, query_of, time_of};
use crate::hooks::tree::{cast, nodes};
use pgrx::pg_sys::{
    self, BoolExpr, BoolExprType, ForeignKeyCacheInfo, FromExpr, JoinExpr, JoinType, Node, NodeTag, Oid, OpExpr, Query,
    RTEKind, RangeTblRef, RowCompareExpr, TargetEntry, Var,
};
use pgrx::{PgList, PgTupleDesc};

/// `BTEqualStrategyNumber`.
const EQUAL: i32 = 3;

/// `integer_ops` of B-trees (pg_opfamily.dat).
const INTEGERS: Oid = Oid::from_u32(1976);

/// A column of a table.
type Column = (Oid, i16);

/// A column that must equal something known, and by which operator.
type Equal = (Column, Oid);

/// The ID in a query, or in a sub-query of it.
#[derive(Clone, Copy)]
struct Id {
    query: *mut Query,
    column: *mut Var,
}

/// Whether the rows of a query are those of the key of this ID, or of an index that has the ID after what chooses rows.
///
/// # Safety
///
/// A query, and a column that it sees.
pub unsafe fn has_key_order(query: *mut Query, id: *mut Var) -> bool {
    // SAFETY: as the caller's.
    unsafe {
        let mut equal = Vec::new();
        let id = Id { query, column: id };
        // mutant: range-restricted
        keeps((*query).jointree.cast(), id, &mut equal).is_some()
            && (equal.is_empty()
                || base(id).is_some_and(|(table, id)| {
                    let is_of_table = equal.iter().all(|((of, _), _)| *of == table);
                    is_of_table && indexes(table).iter().any(|index| has_id_after(index, id, &equal))
                }))
    }
}

/// Whether a part of FROM keeps all rows of the table that it has the ID of, but for what must be equal.
unsafe fn keeps(node: *mut Node, id: Id, equal: &mut Vec<Equal>) -> Option<()> {
    // SAFETY: parts of FROM, and conditions, of this query.
    unsafe {
        if let Some(from) = cast::<FromExpr>(node, NodeTag::T_FromExpr) {
            let mut parts = nodes((*from).fromlist);
            let only = parts.next().filter(|_| parts.next().is_none())?;
            keeps(only, id, equal)?;
            return chooses((*from).quals, id, equal);
        }
        if let Some(join) = cast::<JoinExpr>(node, NodeTag::T_JoinExpr) {
            let has_id = |part| names(part, (*id.column).varno);
            let (with_id, other) = match (*join).jointype {
                JoinType::JOIN_LEFT => ((*join).larg, None),
                JoinType::JOIN_RIGHT => ((*join).rarg, None),
                JoinType::JOIN_INNER if has_id((*join).larg) => ((*join).larg, Some((*join).rarg)),
                JoinType::JOIN_INNER => ((*join).rarg, Some((*join).larg)),
                _ => return None,
            };
            let keeps_all = other.is_none_or(|other| finds_a_row(other, (*join).quals, id));
            return if has_id(with_id) && keeps_all { keeps(with_id, id, equal) } else { None };
        }
        let entry = entry_of(id.column, id.query).filter(|_| names(node, (*id.column).varno))?;
        nodes((*entry).securityQuals).try_for_each(|condition| chooses(condition, id, equal))?;
        match inner(id) {
            None => ((*entry).rtekind == RTEKind::RTE_RELATION).then_some(()),
            Some(inner) if (*inner.query).havingQual.is_null() => keeps((*inner.query).jointree.cast(), inner, equal),
            Some(_) => None,
        }
    }
}

/// Whether a condition is on the ID or its time alone, or one that a column equals something known.
unsafe fn chooses(node: *mut Node, id: Id, equal: &mut Vec<Equal>) -> Option<()> {
    // SAFETY: a condition of this query, or a list of them, or null.
    unsafe {
        if node.is_null() || is_known(node) {
            return Some(());
        }
        if let Some(list) = cast(node, NodeTag::T_List) {
            return nodes(list).try_for_each(|part| chooses(part, id, equal));
        }
        if let Some(parts) = cast::<BoolExpr>(node, NodeTag::T_BoolExpr) {
            let is_and = (*parts).boolop == BoolExprType::AND_EXPR;
            let before = equal.len();
            nodes((*parts).args).try_for_each(|part| chooses(part, id, equal))?;
            return (is_and || equal.len() == before).then_some(());
        }
        if let Some(rows) = cast::<RowCompareExpr>(node, NodeTag::T_RowCompareExpr) {
            let (left, right) = (nodes((*rows).largs).next()?, nodes((*rows).rargs).next()?);
            return (is_of_id(left, id) || is_of_id(right, id)).then_some(());
        }
        let comparison = cast::<OpExpr>(node, NodeTag::T_OpExpr)?;
        let mut sides = nodes((*comparison).args);
        let (left, right) = (sides.next()?, sides.next()?);
        let (mine, known) = if is_known(right) { (left, right) } else { (right, left) };
        if !is_known(known) {
            return None;
        }
        if !is_of_id(mine, id) {
            equal.push((base(Id { column: column(mine)?, ..id })?, (*comparison).opno));
        }
        Some(())
    }
}

/// Whether an expression has the same value for all rows.
unsafe fn is_known(node: *mut Node) -> bool {
    // SAFETY: an expression.
    unsafe { !pg_sys::contain_vars_of_level(node, 0) && !pg_sys::contain_volatile_functions(node) }
}

/// Whether an expression is the ID, or its time.
unsafe fn is_of_id(node: *mut Node, id: Id) -> bool {
    // SAFETY: an expression of this query.
    unsafe {
        let is_it = |other: *mut Var| {
            let place = |of: *mut Var| ((*of).varno, (*of).varattno, (*of).varlevelsup);
            place(other) == place(id.column)
        };
        column(node).is_some_and(is_it) || time_of(node, id.query).is_some_and(|time| is_it(time.id))
    }
}

/// Whether an inner join finds a row of this table for each row of the ID's: by a foreign key.
unsafe fn finds_a_row(other: *mut Node, condition: *mut Node, id: Id) -> bool {
    // SAFETY: a part of FROM, and the condition of its join.
    unsafe {
        let pairs = cast::<RangeTblRef>(other, NodeTag::T_RangeTblRef)
            .and_then(|other| pairs(condition, (*other).rtindex, id.query))
            .filter(|pairs| !pairs.is_empty());
        let (Some(pairs), Some((from, _))) = (pairs, base(id)) else { return false };
        let to = pairs[0].1.0;
        if pairs.iter().any(|((own, _), (others, _))| (*own, *others) != (from, to)) {
            return false;
        }
        let table = pg_sys::relation_open(from, pg_sys::NoLock.cast_signed());
        let columns = PgTupleDesc::from_pg_copy((*table).rd_att);
        let is_never_null = |column: i16| {
            let column = usize::try_from(column).ok().and_then(|number| columns.get(number.checked_sub(1)?));
            column.is_some_and(|column| column.attnotnull)
        };
        let keys = PgList::<ForeignKeyCacheInfo>::from_pg(pg_sys::RelationGetFKeyList(table));
        let finds = pairs.iter().all(|((_, own), _)| is_never_null(*own))
            && keys.iter_ptr().any(|key| {
                let count = usize::try_from((*key).nkeys).unwrap_or(0);
                let has = |&((_, own), (_, others)): &(Column, Column)| {
                    (0..count).any(|n| ((*key).conkey[n], (*key).confkey[n]) == (own, others))
                };
                // mutant: range-foreign-key
                (*key).confrelid == to && pairs.iter().all(has)
            });
        pg_sys::relation_close(table, pg_sys::NoLock.cast_signed());
        finds
    }
}

/// Columns that must be equal to columns of one table, and those; `None` if anything else must be true.
unsafe fn pairs(node: *mut Node, other: i32, query: *mut Query) -> Option<Vec<(Column, Column)>> {
    // SAFETY: a condition of this query, or a list of them, or null.
    unsafe {
        if let Some(list) = cast(node, NodeTag::T_List) {
            let parts: Option<Vec<_>> = nodes(list).map(|part| pairs(part, other, query)).collect();
            return Some(parts?.concat());
        }
        if let Some(both) =
            cast::<BoolExpr>(node, NodeTag::T_BoolExpr).filter(|&both| (*both).boolop == BoolExprType::AND_EXPR)
        {
            return pairs((*both).args.cast(), other, query);
        }
        let comparison = cast::<OpExpr>(node, NodeTag::T_OpExpr)?;
        let mut sides = nodes((*comparison).args);
        let (left, right) = (column(sides.next()?)?, column(sides.next()?)?);
        let (own, others) = if (*right).varno == other { (left, right) } else { (right, left) };
        let is_between = (*others).varno == other && (*own).varno != other;
        let is_equality = pg_sys::op_mergejoinable((*comparison).opno, (*left).vartype);
        let place = |column| base(Id { query, column });
        (is_between && is_equality).then_some(vec![(place(own)?, place(others)?)])
    }
}

/// Whether an index has first columns that are all of those that must be equal, and then the ID.
fn has_id_after(index: &Index, id: i16, equal: &[Equal]) -> bool {
    // SAFETY: takes the class of an index.
    let family = |class: Oid| unsafe { pg_sys::get_opclass_family(class) };
    let is_in = |column: i16, class: Oid| {
        // SAFETY: takes any operator.
        let is_equality = |operator| unsafe { pg_sys::get_op_opfamily_strategy(operator, family(class)) == EQUAL };
        equal.iter().any(|&((_, number), operator)| number == column && is_equality(operator))
    };
    let first = index.columns.iter().zip(&index.classes).take_while(|&(&column, &class)| is_in(column, class)).count();
    index.predicate.is_none()
        && index.columns.get(first) == Some(&id)
        && family(index.classes[first]) == INTEGERS
        && equal.iter().all(|((_, number), _)| index.columns[..first].contains(number))
}

/// Whether a part of FROM has this entry.
unsafe fn names(node: *mut Node, number: i32) -> bool {
    // SAFETY: a part of FROM.
    unsafe {
        if let Some(join) = cast::<JoinExpr>(node, NodeTag::T_JoinExpr) {
            return names((*join).larg, number) || names((*join).rarg, number);
        }
        cast::<RangeTblRef>(node, NodeTag::T_RangeTblRef).is_some_and(|entry| (*entry).rtindex == number)
    }
}

/// The ID in the sub-query that it comes from.
unsafe fn inner(id: Id) -> Option<Id> {
    // SAFETY: the columns of a sub-query are its targets.
    unsafe {
        let query = query_of(entry_of(id.column, id.query)?, id.query)?;
        let targets = nodes((*query).targetList).map(|node| node.cast::<TargetEntry>());
        let target = { targets }.find(|&target| !(*target).resjunk && (*target).resno == (*id.column).varattno)?;
        Some(Id { query, column: column((*target).expr.cast())? })
    }
}

/// The column of a table that this one is.
unsafe fn base(id: Id) -> Option<Column> {
    // SAFETY: a column of the query, or of one around it, which has no entry.
    unsafe {
        let entry = entry_of(id.column, id.query)?;
        match (*entry).rtekind {
            RTEKind::RTE_RELATION => Some(((*entry).relid, (*id.column).varattno)),
            _ => base(inner(id)?),
        }
    }
}
