//! Gives the planner the layout as a constant.
//!
//! What depends on `snowflake_pg.layout` is STABLE. Such a condition is not sent to foreign servers, partitions are pruned by it
//! only when a query runs, and Citus refuses it in DELETE and RETURNING. But the layout of a preloaded server does not change
//! while the server runs. So in each query that is planned, `snowflake_timestamp(id)` becomes
//! `snowflake_timestamp(id, 'twitter')`, which is IMMUTABLE; likewise every other function that can be told a layout.
//!
//! Only queries are changed, and their plans do not outlive the server. Index expressions, generated columns, constraints
//! and views are stored before a planner sees them, and never contain the constant. Where the library is not preloaded, a
//! session can change the layout, and nothing is replaced. Nor is what the planner puts into a query later: the body of an
//! SQL function that it inlines.

use super::catalog::{beside, everybody_may_call};
use crate::config::gucs;
use once_cell::sync::OnceCell;
use pgrx::pg_sys::{FuncExpr, NamedArgExpr, Node, NodeTag, Oid, ParamListInfo, PlannedStmt, Query, TEXTOID};
use pgrx::prelude::*;
use pgrx::{IntoDatum, PgList};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The functions that take a layout as their last argument, or do without. By name, so that an older script of the extension,
/// which may lack some, still works.
const NAMES: [&CStr; 8] = [
    c"snowflake_compose",
    c"snowflake_decode",
    c"snowflake_explain",
    c"snowflake_interval",
    c"snowflake_min_id",
    c"snowflake_now",
    c"snowflake_timestamp",
    c"snowflake_within",
];

/// The hook of a library that was loaded before.
static NEXT_HOOK: OnceCell<pg_sys::planner_hook_type> = OnceCell::new();

type Walker = unsafe extern "C-unwind" fn(*mut Node, *mut c_void) -> bool;

// Not pgrx's: it catches errors, and raises them again without their position in the query. It would also do so at every
// node that is looked at.
unsafe extern "C-unwind" {
    fn standard_planner(
        query: *mut Query,
        text: *const c_char,
        cursor_options: c_int,
        parameters: ParamListInfo,
    ) -> *mut PlannedStmt;

    #[cfg_attr(not(feature = "pg15"), link_name = "query_tree_walker_impl")]
    fn query_tree_walker(query: *mut Query, walker: Walker, context: *mut c_void, flags: c_int) -> bool;

    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    fn expression_tree_walker(node: *mut Node, walker: Walker, context: *mut c_void) -> bool;
}

/// Has PostgreSQL show every query to this file before it is planned. Only while preloading. Planners of other extensions
/// that are loaded before see the constants.
pub fn watch() {
    // SAFETY: the postmaster has one thread, and loads one library after the other.
    NEXT_HOOK.get_or_init(|| unsafe { pg_sys::planner_hook });
    // SAFETY: the same.
    unsafe { pg_sys::planner_hook = Some(plan) };
}

/// Replaces the calls in a query, and has it planned. An ERROR jumps over this frame, without a guard: it has nothing to drop.
unsafe extern "C-unwind" fn plan(
    query: *mut Query,
    text: *const c_char,
    cursor_options: c_int,
    parameters: ParamListInfo,
) -> *mut PlannedStmt {
    // SAFETY: PostgreSQL passes a query that the planner may write to.
    unsafe { replace(query.cast(), std::ptr::null_mut()) };
    let next = NEXT_HOOK.get().copied().flatten().unwrap_or(standard_planner);
    // SAFETY: what PostgreSQL has passed.
    unsafe { next(query, text, cursor_options, parameters) }
}

/// Replaces the calls in a query or an expression; never ends early. Has nothing to drop either.
unsafe extern "C-unwind" fn replace(node: *mut Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: a node.
    match unsafe { (*node).type_ } {
        // SAFETY: a node of this type; its sub-queries come here, too.
        NodeTag::T_Query => return unsafe { query_tree_walker(node.cast(), replace, context, 0) },
        NodeTag::T_FuncExpr => {
            let call: *mut FuncExpr = node.cast();
            // SAFETY: a node of this type.
            if unsafe { (*call).funcid }.to_u32() >= pg_sys::FirstNormalObjectId {
                // SAFETY: the same.
                unsafe { name_layout(call) };
            }
        }
        _ => {}
    }
    // SAFETY: a node of an expression, or of what queries consist of.
    unsafe { expression_tree_walker(node, replace, context) }
}

/// Adds the layout to a call, if it is one that goes without.
#[pg_guard]
unsafe extern "C-unwind" fn name_layout(call: *mut FuncExpr) {
    // SAFETY: a call, in a query that may be written to.
    let call = unsafe { &mut *call };
    let Some(function) = with_layout(call.funcid) else { return };
    if gucs::layout().is_err() {
        return;
    }
    // SAFETY: the arguments of a call are a list of nodes.
    let mut arguments = unsafe { PgList::<Node>::from_pg(call.args) };
    let layout = gucs::layout_text().into_string().unwrap_or_default().into_datum().unwrap_or(pg_sys::Datum::null());
    // SAFETY: a text, which was made in the memory of the query.
    let layout = unsafe { pg_sys::makeConst(TEXTOID, -1, pg_sys::DEFAULT_COLLATION_OID, -1, layout, false, false) };
    let mut layout: *mut Node = layout.cast();
    // SAFETY: a node.
    if arguments.tail().is_some_and(|last| unsafe { (*last).type_ } == NodeTag::T_NamedArgExpr) {
        // SAFETY: a node of the type that the tag says.
        let mut named = unsafe { PgBox::<NamedArgExpr>::alloc_node(NodeTag::T_NamedArgExpr) };
        named.arg = layout.cast();
        // SAFETY: copies a C string.
        named.name = unsafe { pg_sys::pstrdup(c"layout".as_ptr()) };
        named.argnumber = c_int::try_from(arguments.len()).expect("a function's arguments");
        named.location = -1;
        layout = named.into_pg().cast();
    }
    arguments.push(layout);
    call.args = arguments.into_pg();
    call.funcid = function;
    call.inputcollid = pg_sys::DEFAULT_COLLATION_OID;
}

thread_local! {
    /// What [`look_up`] has found, until any function changes.
    static KNOWN: RefCell<HashMap<Oid, Option<Oid>>> = RefCell::new(HashMap::new());
    /// How often functions have changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// [`look_up`], once for each function.
fn with_layout(function: Oid) -> Option<Oid> {
    static WATCHED: OnceCell<()> = OnceCell::new();
    let cache = i32::try_from(pg_sys::SysCacheIdentifier::PROCOID).unwrap_or(-1);
    // SAFETY: the function takes any argument, cache and hash.
    WATCHED.get_or_init(|| unsafe { pg_sys::CacheRegisterSyscacheCallback(cache, Some(forget), 0.into()) });
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&function).copied()) {
        return known;
    }
    let before = CHANGES.get();
    let found = look_up(function);
    if CHANGES.get() == before {
        KNOWN.with_borrow_mut(|known| known.insert(function, found));
    }
    found
}

#[pg_guard]
unsafe extern "C-unwind" fn forget(_argument: pg_sys::Datum, _cache: c_int, _hash: u32) {
    CHANGES.set(CHANGES.get() + 1);
    KNOWN.with_borrow_mut(HashMap::clear);
}

/// The function of this extension that is told the layout where this one goes without; `None` for all other functions, and
/// where not everybody may call both. A plan is kept whatever role its session takes on.
fn look_up(function: Oid) -> Option<Oid> {
    // SAFETY: takes any OID.
    let name = unsafe { pg_sys::get_func_name(function) };
    // SAFETY: a C string, where it is not null.
    let name = if name.is_null() { return None } else { unsafe { CStr::from_ptr(name) } };
    if !NAMES.contains(&name) {
        return None;
    }
    let (mut types, mut count) = (std::ptr::null_mut(), 0);
    // SAFETY: the function exists, as it has a name.
    unsafe { pg_sys::get_func_signature(function, &mut types, &mut count) };
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: an array of this length, which lives as long as the memory of the query; null only if it is empty.
    let types = if types.is_null() { &[][..] } else { unsafe { std::slice::from_raw_parts(types, count) } };
    let told = beside(function, name, &[types, &[TEXTOID]].concat());
    let both = [function, told];
    (told != Oid::INVALID && both.into_iter().all(is_ours) && both.into_iter().all(everybody_may_call)).then_some(told)
}

/// Whether a function belongs to this extension. Anybody may make one with such a name.
fn is_ours(function: Oid) -> bool {
    // SAFETY: a C string.
    let extension = unsafe { pg_sys::get_extension_oid(c"snowflake_pg".as_ptr(), true) };
    // SAFETY: the OID of a function.
    let owner = unsafe { pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, function) };
    extension != Oid::INVALID && owner == extension
}
