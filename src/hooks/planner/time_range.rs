//! Makes conditions on the time of an ID conditions on the ID, which indexes, partitions and foreign servers know.
//!
//! `snowflake_timestamp(id) >= t` becomes `id >= snowflake_bound(t, '>=', 'flat')`, and so do `>`, `<`, `<=`, `=` and
//! BETWEEN. The two are true for the same IDs, so that nothing is checked twice, and the planner expects as many rows
//! as it does of any range of a column. Only where a query asks whether a condition is true: in WHERE and in ON, below
//! AND and OR, and NOT of one. Where there is no such ID, the bound is NULL, and the condition is not true.

use super::functions::ours;
use super::id::{DATETIME, TimeOf, as_bigint, call, text};
use super::time_of::time_of;
use crate::hooks::tree::{cast, cells, expression_tree_walker, nodes};
use pgrx::PgList;
use pgrx::pg_sys::{
    self, BOOLOID, BoolExprType, DATEOID, INT8OID, Node, NodeTag, Oid, OpExpr, Query, RowCompareExpr, TIMESTAMPOID,
    TIMESTAMPTZOID, TargetEntry,
};
use pgrx::prelude::*;
use std::ffi::{c_int, c_void};

/// The operators of `bigint` (pg_operator.dat).
const AT_MOST: Oid = Oid::from_u32(414);
const AT_LEAST: Oid = Oid::from_u32(415);

/// What is planned.
#[derive(Clone, Copy)]
struct Planned {
    query: *mut Query,
    /// Whether the plan is for all values of its parameters.
    is_generic: bool,
}

/// Changes the conditions of a query; not those of its sub-queries.
#[pg_guard]
pub unsafe extern "C-unwind" fn apply(query: *mut Query, is_generic: bool) {
    // SAFETY: a query that may be modified. Its conditions are expressions of it.
    unsafe {
        join_tree((*query).jointree.cast(), Planned { query, is_generic });
    }
}

/// The conditions of a part of FROM, and of WHERE.
unsafe fn join_tree(node: *mut Node, planned: Planned) {
    // SAFETY: a node, or null, of the type that its tag names.
    unsafe {
        if let Some(from) = cast::<pg_sys::FromExpr>(node, NodeTag::T_FromExpr) {
            nodes((*from).fromlist).for_each(|part| join_tree(part, planned));
            (*from).quals = condition((*from).quals, planned);
        } else if let Some(join) = cast::<pg_sys::JoinExpr>(node, NodeTag::T_JoinExpr) {
            join_tree((*join).larg, planned);
            join_tree((*join).rarg, planned);
            (*join).quals = condition((*join).quals, planned);
        }
    }
}

/// A condition that is true for the same rows.
unsafe fn condition(node: *mut Node, planned: Planned) -> *mut Node {
    // SAFETY: as above.
    unsafe {
        if let Some(both) = cast::<pg_sys::BoolExpr>(node, NodeTag::T_BoolExpr) {
            // Not below NOT, where FALSE and NULL are not the same.
            // mutant: range-not
            if (*both).boolop != BoolExprType::NOT_EXPR {
                cells((*both).args).for_each(|part| *part = condition(*part, planned));
                return node;
            }
            let comparison = nodes((*both).args).next().and_then(|not| cast::<OpExpr>(not, NodeTag::T_OpExpr));
            // True where the opposite comparison is.
            let range = |not: *mut OpExpr| range(not, pg_sys::get_negator((*not).opno), planned);
            return comparison.and_then(range).unwrap_or(node);
        }
        let range = if let Some(comparison) = cast::<OpExpr>(node, NodeTag::T_OpExpr) {
            range(comparison, (*comparison).opno, planned)
        } else {
            cast(node, NodeTag::T_RowCompareExpr).and_then(|comparison| range_of_rows(comparison, planned))
        };
        range.unwrap_or(node)
    }
}

/// The range of IDs of a comparison with a time, as if it were by this operator.
unsafe fn range(comparison: *mut OpExpr, operator: Oid, planned: Planned) -> Option<*mut Node> {
    // SAFETY: the arguments of an operator are a list of expressions.
    unsafe {
        let mut arguments = nodes((*comparison).args);
        let (left, right) = arguments.next().zip(arguments.next())?;
        let (id, strategy, time) = compared(operator, left, right, planned)?;
        match strategy {
            1 => bound(planned, id, "<", time),
            2 => bound(planned, id, "<=", time),
            4 => bound(planned, id, ">=", time),
            5 => bound(planned, id, ">", time),
            // Each row would have its range: no hash join, no merge join, and so no FULL JOIN.
            // mutant: range-join
            _ if pg_sys::contain_subplans(time) || names_column(time, std::ptr::null_mut()) => None,
            _ => {
                let first = bound(planned, id, ">=", time)?;
                let time = pg_sys::copyObjectImpl(time.cast()).cast();
                Some(both(first, bound(planned, id, "<=", time)?))
            }
        }
    }
}

/// The range of IDs of a comparison of rows that begin with a time, as the next page has: `(created_at, id) < ($1,
/// $2)`. What decides between rows of one tick remains to be checked.
unsafe fn range_of_rows(comparison: *mut RowCompareExpr, planned: Planned) -> Option<*mut Node> {
    // SAFETY: lists of operators, and of as many expressions.
    unsafe {
        let first = |list| nodes(list).next();
        let operator = PgList::<Oid>::from_pg((*comparison).opnos).get_oid(0)?;
        let (id, strategy, time) =
            compared(operator, first((*comparison).largs)?, first((*comparison).rargs)?, planned)?;
        if pg_sys::contain_subplans(time) {
            return None;
        }
        let time = pg_sys::copyObjectImpl(time.cast()).cast();
        let range = match strategy {
            // mutant: range-rows
            1 | 2 => bound(planned, id, "<=", time),
            _ => bound(planned, id, ">=", time),
        };
        Some(both(range?, comparison.cast()))
    }
}

/// The ID whose time is compared, how (1 to 5: <, <=, =, >= and >), and with what.
unsafe fn compared(
    operator: Oid,
    left: *mut Node,
    right: *mut Node,
    planned: Planned,
) -> Option<(TimeOf, c_int, *mut Node)> {
    // SAFETY: expressions of the query, compared by this operator.
    unsafe {
        let of_time = |side| if is_time(side) { time_of(side, planned.query) } else { None };
        let of_left = of_time(left).map(|id| (id, right));
        let (id, time) = of_left.or_else(|| of_time(right).map(|id| (id, left)))?;
        let strategy = match pg_sys::get_op_opfamily_strategy(operator, DATETIME) {
            0 => return None,
            strategy if time == right => strategy,
            strategy => 6 - strategy,
        };
        // mutant: range-volatile
        if pg_sys::contain_volatile_functions(time) {
            return None;
        }
        Some((id, strategy, with_time_zone(time, id.in_utc)?))
    }
}

fn both(one: *mut Node, other: *mut Node) -> *mut Node {
    let mut both = PgList::<Node>::new();
    both.push(one);
    both.push(other);
    // SAFETY: conditions.
    unsafe { pg_sys::makeBoolExpr(BoolExprType::AND_EXPR, both.into_pg(), -1).cast() }
}

/// Whether an expression has a column, of this query or of one around it.
#[pg_guard]
unsafe extern "C-unwind" fn names_column(node: *mut Node, context: *mut c_void) -> bool {
    // SAFETY: an expression without sub-queries, or null.
    !node.is_null() && unsafe { (*node).type_ == NodeTag::T_Var || expression_tree_walker(node, names_column, context) }
}

/// Whether an expression can be the time of an ID, by its type: asked for each comparison of each query.
unsafe fn is_time(node: *mut Node) -> bool {
    // SAFETY: a node of the type that its tag names.
    let of_type = unsafe {
        match (*node).type_ {
            NodeTag::T_Var => (*node.cast::<pg_sys::Var>()).vartype,
            NodeTag::T_FuncExpr => (*node.cast::<pg_sys::FuncExpr>()).funcresulttype,
            NodeTag::T_FieldSelect => (*node.cast::<pg_sys::FieldSelect>()).resulttype,
            _ => return false,
        }
    };
    [TIMESTAMPTZOID, TIMESTAMPOID].contains(&of_type)
}

/// A time of another type as the operators between the types take it. A `timestamp` in UTC is compared with others of
/// its type, and with dates.
unsafe fn with_time_zone(time: *mut Node, in_utc: bool) -> Option<*mut Node> {
    // SAFETY: an expression.
    match (unsafe { pg_sys::exprType(time) }, in_utc) {
        (TIMESTAMPTZOID, false) => Some(time),
        // Not PostgreSQL's casts, which refuse what its operators compare: a date of the year 300000.
        // mutant: range-cast
        (TIMESTAMPOID, false) => Some(call(ours(c"snowflake_instant", 1)?, TIMESTAMPTZOID, vec![time])),
        (TIMESTAMPOID, true) => {
            let in_utc = Oid::from(pg_sys::F_TIMEZONE_TEXT_TIMESTAMP);
            Some(call(in_utc, TIMESTAMPTZOID, vec![text("UTC")?, time]))
        }
        (DATEOID, _) => {
            let midnight = call(ours(c"snowflake_midnight", 1)?, TIMESTAMPOID, vec![time]);
            // SAFETY: an expression.
            unsafe { with_time_zone(midnight, in_utc) }
        }
        _ => None,
    }
}

/// A comparison of an ID with the first or the last one whose time compares so with another.
unsafe fn bound(planned: Planned, id: TimeOf, comparison: &str, time: *mut Node) -> Option<*mut Node> {
    let operator = if comparison.starts_with('>') { AT_LEAST } else { AT_MOST };
    // SAFETY: a node that may be copied; an operator and its arguments.
    unsafe {
        let layout = pg_sys::copyObjectImpl(id.layout.cast()).cast();
        let mut bound = call(ours(c"snowflake_bound", 3)?, INT8OID, vec![time, text(comparison)?, layout]);
        if id.is_foreign && !is_known(time, planned.is_generic) && !pg_sys::contain_vars_of_level(time, 0) {
            bound = sub_query(bound);
            (*planned.query).hasSubLinks = true;
        }
        let id = as_bigint(id.id);
        Some(
            pg_sys::make_opclause(operator, BOOLOID, false, id.cast(), bound.cast(), Oid::INVALID, Oid::INVALID).cast(),
        )
    }
}

/// Whether the planner will know the value: a call of ours would not be sent to a foreign server.
unsafe fn is_known(time: *mut Node, is_generic: bool) -> bool {
    // SAFETY: an expression.
    unsafe {
        if pg_sys::contain_mutable_functions(time) || pg_sys::contain_subplans(time) {
            return false;
        }
        let time = pg_sys::eval_const_expressions(std::ptr::null_mut(), time);
        // mutant: range-generic
        !is_generic || (*time).type_ == NodeTag::T_Const
    }
}

/// `(SELECT expression)`, whose value is sent to a foreign server.
unsafe fn sub_query(expression: *mut Node) -> *mut Node {
    // SAFETY: nodes as the parser makes them. The expression has no column of the query around it.
    unsafe {
        pg_sys::IncrementVarSublevelsUp(expression, 1, 0);
        let mut targets = PgList::<TargetEntry>::new();
        targets.push(pg_sys::makeTargetEntry(expression.cast(), 1, c"bound".as_ptr().cast_mut(), false));
        let mut query = PgBox::<Query>::alloc_node(NodeTag::T_Query);
        query.commandType = pg_sys::CmdType::CMD_SELECT;
        query.canSetTag = true;
        query.targetList = targets.into_pg();
        // mutant: range-sub-query
        query.hasSubLinks = pg_sys::contain_subplans(expression);
        query.jointree = PgBox::<pg_sys::FromExpr>::alloc_node(NodeTag::T_FromExpr).into_pg();
        let mut link = PgBox::<pg_sys::SubLink>::alloc_node(NodeTag::T_SubLink);
        link.subLinkType = pg_sys::SubLinkType::EXPR_SUBLINK;
        link.subselect = query.into_pg().cast();
        link.into_pg().cast()
    }
}
