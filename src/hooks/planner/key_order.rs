//! Whether the key is a good way to the first rows of a query by time.
//!
//! PostgreSQL takes rows that a condition chooses to be spread evenly over the key, and reads it from its end until it
//! has found enough. But the rows of a customer who is long gone are all at the other end. So the order of a query is
//! that of the key only where nothing else chooses rows, or where an index has these, or has the ID after what chooses
//! them.

use super::conditions::{Condition, Id, add, all_of, base, inner, leave_order};
use super::id::column;
use super::time_of::{entry, entry_of};
use crate::hooks::tree::{cast, nodes};
use pgrx::pg_sys::{
    self, ForeignKeyCacheInfo, FromExpr, JoinExpr, JoinType, Node, NodeTag, OpExpr, Query, RTEKind, RangeTblRef, Var,
};
use pgrx::{PgList, PgTupleDesc};

/// Whether the rows of a query are those of the key of this ID, or of an index that has the ID after what chooses rows.
///
/// # Safety
///
/// A query, and a column that it sees.
pub unsafe fn has_key_order(query: *mut Query, id: *mut Var) -> bool {
    // SAFETY: as the caller's.
    unsafe {
        let mut conditions = Vec::new();
        let id = Id { query, column: id };
        keeps((*query).jointree.cast(), id, &mut conditions).is_some() && leave_order(&conditions, id)
    }
}

/// Whether a part of FROM keeps all rows of the table whose ID it has, apart from conditions on this table.
unsafe fn keeps(node: *mut Node, id: Id, conditions: &mut Vec<Condition>) -> Option<()> {
    // SAFETY: parts of FROM, and conditions, of this query.
    unsafe {
        if let Some(from) = cast::<FromExpr>(node, NodeTag::T_FromExpr) {
            return joined(&nodes((*from).fromlist).collect::<Vec<_>>(), (*from).quals, id, conditions);
        }
        if let Some(join) = cast::<JoinExpr>(node, NodeTag::T_JoinExpr) {
            return match (*join).jointype {
                JoinType::JOIN_LEFT => keeps((*join).larg, id, conditions),
                JoinType::JOIN_RIGHT => keeps((*join).rarg, id, conditions),
                JoinType::JOIN_INNER => joined(&[(*join).larg, (*join).rarg], (*join).quals, id, conditions),
                _ => None,
            };
        }
        let entry = entry_of(id.column, id.query).filter(|_| names(node, (*id.column).varno))?;
        nodes((*entry).securityQuals).try_for_each(|condition| add(condition, id, conditions))?;
        match inner(id) {
            None => ((*entry).rtekind == RTEKind::RTE_RELATION).then_some(()),
            Some(inner) if (*inner.query).havingQual.is_null() => {
                keeps((*inner.query).jointree.cast(), inner, conditions)
            }
            Some(_) => None,
        }
    }
}

/// Whether an inner join keeps all rows of the table whose ID it has, apart from conditions on this table.
unsafe fn joined(parts: &[*mut Node], condition: *mut Node, id: Id, conditions: &mut Vec<Condition>) -> Option<()> {
    // SAFETY: as above.
    unsafe {
        let mut rest = Vec::new();
        flatten(condition, &mut rest);
        let (with_id, others): (Vec<_>, Vec<_>) = parts.iter().partition(|&&part| names(part, (*id.column).varno));
        for other in others {
            let number = (*cast::<RangeTblRef>(other, NodeTag::T_RangeTblRef)?).rtindex;
            let mut links = Vec::new();
            rest.retain(|&part| match link(part, number, id) {
                Some(link) => {
                    links.push(link);
                    false
                }
                None => true,
            });
            if !is_key(&links, number, id) {
                return None;
            }
        }
        keeps(*with_id.first()?, id, conditions)?;
        rest.into_iter().try_for_each(|part| add(part, id, conditions))
    }
}

/// The conditions of which a condition is made, all of which must be true.
unsafe fn flatten(node: *mut Node, parts: &mut Vec<*mut Node>) {
    // SAFETY: a condition, or a list of them, or null.
    unsafe {
        match all_of(node) {
            Some(all) => nodes(all).for_each(|part| flatten(part, parts)),
            None => parts.push(node),
        }
    }
}

/// The columns that a condition makes equal: one of the ID's table, and one of the table with this number.
unsafe fn link(node: *mut Node, other: i32, id: Id) -> Option<(i16, i16)> {
    // SAFETY: a condition of this query, or null.
    unsafe {
        let comparison = cast::<OpExpr>(node, NodeTag::T_OpExpr)?;
        let mut sides = nodes((*comparison).args);
        let (left, right) = (column(sides.next()?)?, column(sides.next()?)?);
        let (own, others) = if (*right).varno == other { (left, right) } else { (right, left) };
        let is_between = (*others).varno == other && (*others).varlevelsup == 0 && (*own).varno != other;
        let is_equality = pg_sys::op_mergejoinable((*comparison).opno, (*left).vartype);
        let (table, own) = base(Id { column: own, ..id }).filter(|_| is_between && is_equality)?;
        (table == base(id)?.0).then_some((own, (*others).varattno))
    }
}

/// Whether a foreign key has these columns of the ID's table, which are never NULL, and of the table with this number,
/// all of whose rows are there.
unsafe fn is_key(links: &[(i16, i16)], other: i32, id: Id) -> bool {
    // SAFETY: the number is of an entry. The statement has a lock on its tables.
    unsafe {
        let (Some((own, _)), false) = (base(id), links.is_empty()) else { return false };
        let Some(other) = entry(other, id.query) else { return false };
        // mutant: range-whole-table
        if !(*other).securityQuals.is_null() || !(*other).tablesample.is_null() {
            return false;
        }
        let table = pg_sys::relation_open((*own).relid, pg_sys::NoLock.cast_signed());
        let columns = PgTupleDesc::from_pg_copy((*table).rd_att);
        let is_never_null = |column: i16| {
            let column = usize::try_from(column).ok().and_then(|number| columns.get(number.checked_sub(1)?));
            column.is_some_and(|column| column.attnotnull)
        };
        let keys = PgList::<ForeignKeyCacheInfo>::from_pg(pg_sys::RelationGetFKeyList(table));
        let is_key = links.iter().all(|(own, _)| is_never_null(*own))
            && keys.iter_ptr().any(|key| {
                let count = usize::try_from((*key).nkeys).unwrap_or(0);
                let has = |&link: &(i16, i16)| (0..count).any(|n| ((*key).conkey[n], (*key).confkey[n]) == link);
                #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
                let is_enforced = true;
                #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
                let is_enforced = (*key).conenforced;
                // mutant: range-foreign-key
                is_enforced && (*key).confrelid == (*other).relid && links.iter().all(has)
            });
        pg_sys::relation_close(table, pg_sys::NoLock.cast_signed());
        is_key
    }
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
