//! What depends on the order of times becomes a question about the order of IDs, which the key answers.
//!
//! `ORDER BY snowflake_timestamp(id)` becomes the order of the ID, which is one of those that it allows, and
//! `max(snowflake_timestamp(id))` the time of `max(id)`.

use super::arithmetic;
use super::functions::ours;
use super::id::{DATETIME, TimeOf, as_bigint, call, layout_of, text};
use super::key_order::has_key_order;
use super::time_of::time_of;
use crate::hooks::tree::{cast, nodes};
use pgrx::PgList;
use pgrx::pg_sys::{
    self, Aggref, INT8OID, Node, NodeTag, Oid, Query, SortGroupClause, TIMESTAMPOID, TIMESTAMPTZOID, TargetEntry,
};
use pgrx::prelude::*;

/// The operators of `bigint` (pg_operator.dat).
const EQUAL: Oid = Oid::from_u32(410);
const LESS: Oid = Oid::from_u32(412);
const GREATER: Oid = Oid::from_u32(413);

/// Changes the order of a query, and its results; not those of its sub-queries.
#[pg_guard]
pub unsafe extern "C-unwind" fn apply(query: *mut Query) {
    // SAFETY: a query that may be modified.
    unsafe {
        order(query);
        if (*query).hasAggs {
            for target in nodes((*query).targetList).map(|node| node.cast::<TargetEntry>()) {
                if let Some(time) = cast((*target).expr.cast(), NodeTag::T_Aggref).and_then(|it| extreme(it, query)) {
                    (*target).expr = time.cast();
                }
            }
        }
    }
}

/// The time of the greatest ID, or of the least one, for the greatest or least time.
unsafe fn extreme(aggregate: *mut Aggref, query: *mut Query) -> Option<*mut Node> {
    // SAFETY: an expression of the query, which stays as it is.
    unsafe {
        let of_ids = match (*aggregate).aggfnoid.to_u32() {
            // mutant: range-extreme
            pg_sys::F_MAX_TIMESTAMP | pg_sys::F_MAX_TIMESTAMPTZ => pg_sys::F_MAX_INT8,
            pg_sys::F_MIN_TIMESTAMP | pg_sys::F_MIN_TIMESTAMPTZ => pg_sys::F_MIN_INT8,
            _ => return None,
        };
        let is_plain =
            (*aggregate).aggorder.is_null() && (*aggregate).aggdistinct.is_null() && (*aggregate).agglevelsup == 0;
        let argument = nodes((*aggregate).args).next().filter(|_| is_plain)?.cast::<TargetEntry>();
        let time = time_of((*argument).expr.cast(), query)?;
        // Of groups, PostgreSQL reads all rows anyway.
        if (*query).groupClause.is_null() && !has_key_order(query, time.id) {
            return None;
        }
        let mut targets = PgList::<TargetEntry>::new();
        targets.push(pg_sys::makeTargetEntry(as_bigint(time.id).cast(), 1, std::ptr::null_mut(), false));
        let id = pg_sys::copyObjectImpl(aggregate.cast()).cast::<Aggref>();
        (*id).aggfnoid = Oid::from(of_ids);
        (*id).aggtype = INT8OID;
        (*id).aggargtypes = pg_sys::lappend_oid(std::ptr::null_mut(), INT8OID);
        (*id).args = targets.into_pg();
        let at = if time.is_called {
            let layout = pg_sys::copyObjectImpl(time.layout.cast()).cast();
            call(ours(c"snowflake_timestamp", 2)?, TIMESTAMPTZOID, vec![id.cast(), layout])
        } else {
            arithmetic::time_at(id.cast(), &layout_of(time.layout)?)?
        };
        let in_utc =
            |at| Some(call(Oid::from(pg_sys::F_TIMEZONE_TEXT_TIMESTAMPTZ), TIMESTAMPOID, vec![text("UTC")?, at]));
        if time.in_utc { in_utc(at) } else { Some(at) }
    }
}

/// Orders by the ID instead of its time, where nothing else orders the rows of a tick.
unsafe fn order(query: *mut Query) {
    // SAFETY: lists of such nodes.
    unsafe {
        let is_plain = (*query).groupClause.is_null()
            && (*query).groupingSets.is_null()
            && (*query).distinctClause.is_null()
            && (*query).setOperations.is_null()
            && (*query).windowClause.is_null()
            && !(*query).hasAggs
            && !(*query).hasTargetSRFs
            // mutant: range-ties
            && (*query).limitOption != pg_sys::LimitOption::LIMIT_OPTION_WITH_TIES;
        if (*query).sortClause.is_null() || !is_plain {
            return;
        }
        let clauses: Vec<_> = nodes((*query).sortClause).map(|node| node.cast::<SortGroupClause>()).collect();
        for (n, &clause) in clauses.iter().enumerate() {
            let target = pg_sys::get_sortgroupclause_tle(clause, (*query).targetList);
            let strategy = pg_sys::get_op_opfamily_strategy((*clause).sortop, DATETIME);
            let id = if strategy == 0 { None } else { time_of((*target).expr.cast(), query) };
            let Some(TimeOf { id: column, .. }) = id else { continue };
            let id = as_bigint(column);
            let sortop = if strategy == 1 { LESS } else { GREATER };
            // The ID itself, in the same direction, may come next.
            let is_last = clauses.get(n + 1).is_none_or(|&next| {
                let target = pg_sys::get_sortgroupclause_tle(next, (*query).targetList);
                (*next).sortop == sortop
                    && (*next).nulls_first == (*clause).nulls_first
                    && pg_sys::equal((*target).expr.cast(), id.cast())
            });
            // mutant: range-order
            if is_last && has_key_order(query, column) {
                order_by(query, clause, target, id, sortop);
            }
            return;
        }
    }
}

/// As many columns as a row can have (`MaxTupleAttributeNumber`).
const MOST_COLUMNS: usize = 1664;

/// Makes an item of ORDER BY one of this ID.
unsafe fn order_by(
    query: *mut Query,
    clause: *mut SortGroupClause,
    target: *mut TargetEntry,
    id: *mut Node,
    sortop: Oid,
) {
    // SAFETY: as above.
    unsafe {
        if (*target).resjunk {
            (*target).expr = id.cast();
        } else {
            let mut targets = PgList::<TargetEntry>::from_pg((*query).targetList);
            let visible = targets.iter_ptr().find(|&other| pg_sys::equal((*other).expr.cast(), id.cast()));
            // mutant: range-columns
            if visible.is_none() && targets.len() >= MOST_COLUMNS {
                return;
            }
            let target = visible.unwrap_or_else(|| {
                let number = i16::try_from(targets.len() + 1).unwrap_or(i16::MAX);
                let target = pg_sys::makeTargetEntry(id.cast(), number, std::ptr::null_mut(), true);
                targets.push(target);
                target
            });
            (*query).targetList = targets.into_pg();
            (*clause).tleSortGroupRef = pg_sys::assignSortGroupRef(target, (*query).targetList);
        }
        (*clause).eqop = EQUAL;
        (*clause).sortop = sortop;
    }
}
