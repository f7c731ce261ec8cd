//! Gives the planner the layout as a constant.
//!
//! A function that depends on `snowflake_pg.layout` is STABLE. Foreign servers do not receive such a condition,
//! partitions are pruned by it only when a query runs, and Citus refuses it in DELETE and RETURNING. But the layout of
//! a server that preloads the library does not change while the server runs. So before a query is planned,
//! `snowflake_timestamp(id)` becomes `snowflake_timestamp(id, 'flat')`, which is IMMUTABLE, and so does every other
//! function that takes a layout.
//!
//! Only queries are changed, and their plans do not outlive the server. Index expressions, generated columns,
//! constraints and views are stored before a planner sees them, and never contain the constant. Without preload a
//! session can change the layout, and nothing is replaced. The bodies of SQL functions that the planner inlines later
//! are not changed either.

use super::tree::{expression_tree_walker, query_tree_walker};
use crate::config::gucs;
use crate::postgres::catalog::{everybody_may_call, sibling_function};
use once_cell::sync::OnceCell;
use pgrx::pg_sys::{FuncExpr, Node, NodeTag, Oid, ParamListInfo, PlannedStmt, Query, TEXTOID};
use pgrx::prelude::*;
use pgrx::{IntoDatum, PgList};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The functions with an optional layout as their last argument. By name, since an older script of the extension may
/// lack some.
const NAMES: [&CStr; 7] = [
    c"snowflake_compose",
    c"snowflake_decode",
    c"snowflake_explain",
    c"snowflake_interval",
    c"snowflake_min_id",
    c"snowflake_timestamp",
    c"snowflake_within",
];

/// The hook of a library loaded before.
static NEXT_HOOK: OnceCell<pg_sys::planner_hook_type> = OnceCell::new();

// Not pgrx's binding, which catches errors and raises them again without their position.
unsafe extern "C-unwind" {
    fn standard_planner(
        query: *mut Query,
        text: *const c_char,
        cursor_options: c_int,
        parameters: ParamListInfo,
        #[cfg(feature = "pg19")] explain: *mut pg_sys::ExplainState,
    ) -> *mut PlannedStmt;
}

/// Installs the hook. Only while preloading. Planner hooks of libraries loaded before see the constants.
pub fn watch() {
    // SAFETY: the postmaster has one thread.
    unsafe {
        NEXT_HOOK.get_or_init(|| pg_sys::planner_hook);
        pg_sys::planner_hook = Some(plan);
    }
}

/// Replaces the calls in a query, and has it planned.
///
/// Without `#[pg_guard]`: an ERROR of the planner jumps over this frame, which is sound as long as it has nothing to
/// drop.
unsafe extern "C-unwind" fn plan(
    query: *mut Query,
    text: *const c_char,
    cursor_options: c_int,
    parameters: ParamListInfo,
    #[cfg(feature = "pg19")] explain: *mut pg_sys::ExplainState,
) -> *mut PlannedStmt {
    let next = NEXT_HOOK.get().copied().flatten().unwrap_or(standard_planner);
    // SAFETY: PostgreSQL has passed all of this to a planner, which may modify the query.
    unsafe {
        replace(query.cast(), std::ptr::null_mut());
        #[cfg(not(feature = "pg19"))]
        return next(query, text, cursor_options, parameters);
        #[cfg(feature = "pg19")]
        return next(query, text, cursor_options, parameters, explain);
    }
}

/// Replaces the calls in a query or an expression; never stops early. Without `#[pg_guard]`, as [`plan`].
unsafe extern "C-unwind" fn replace(node: *mut Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: a query that may be modified is of nodes, each of the type that its tag names.
    unsafe {
        match (*node).type_ {
            // The walker also visits its sub-queries.
            NodeTag::T_Query => return query_tree_walker(node.cast(), replace, context, 0),
            NodeTag::T_FuncExpr => {
                let call: *mut FuncExpr = node.cast();
                if (*call).funcid.to_u32() >= pg_sys::FirstNormalObjectId {
                    name_layout(call);
                }
            }
            _ => {}
        }
        expression_tree_walker(node, replace, context)
    }
}

/// Adds the layout to a call, if the function has an optional layout.
#[pg_guard]
unsafe extern "C-unwind" fn name_layout(call: *mut FuncExpr) {
    // SAFETY: a call in a query that may be modified.
    let call = unsafe { &mut *call };
    let Some(function) = with_layout(call.funcid) else { return };
    if gucs::layout().is_err() {
        return;
    }
    let mut arguments = expanded_arguments(call);
    let layout = gucs::layout_text().into_string().unwrap_or_default().into_datum().unwrap_or(pg_sys::Datum::null());
    // SAFETY: the value is a text, in the memory of the query.
    let layout = unsafe { pg_sys::makeConst(TEXTOID, -1, pg_sys::DEFAULT_COLLATION_OID, -1, layout, false, false) };
    arguments.push(layout.cast());
    call.args = arguments.into_pg();
    call.funcid = function;
    call.inputcollid = pg_sys::DEFAULT_COLLATION_OID;
}

/// All arguments of a call in their order, without names, and with the defaults of those that the call omits. The
/// planner, which does the same, comes later.
fn expanded_arguments(call: &FuncExpr) -> PgList<Node> {
    let cache = i32::try_from(pg_sys::SysCacheIdentifier::PROCOID).unwrap_or(-1);
    // SAFETY: the function exists, since its variant was found beside it. Its row is valid until it is released.
    // The arguments are those that the parser has found to fit.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache, call.funcid.into());
        let arguments = pg_sys::expand_function_arguments(call.args, false, call.funcresulttype, row);
        pg_sys::ReleaseSysCache(row);
        PgList::from_pg(arguments)
    }
}

thread_local! {
    /// What [`look_up`] has found, until a function changes.
    static KNOWN: RefCell<HashMap<Oid, Option<Oid>>> = RefCell::new(HashMap::new());
    /// How many times functions have changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// [`look_up`], once for each function.
fn with_layout(function: Oid) -> Option<Oid> {
    static WATCHED: OnceCell<()> = OnceCell::new();
    let cache = i32::try_from(pg_sys::SysCacheIdentifier::PROCOID).unwrap_or(-1);
    // SAFETY: the callback takes any argument, cache and hash.
    WATCHED.get_or_init(|| unsafe { pg_sys::CacheRegisterSyscacheCallback(cache, Some(forget), 0.into()) });
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&function).copied()) {
        return known;
    }
    let changes = CHANGES.get();
    let variant = look_up(function);
    if CHANGES.get() == changes {
        KNOWN.with_borrow_mut(|known| known.insert(function, variant));
    }
    variant
}

#[pg_guard]
unsafe extern "C-unwind" fn forget(_argument: pg_sys::Datum, _cache: c_int, _hash: u32) {
    CHANGES.set(CHANGES.get() + 1);
    // mutant: constant-forgotten
    KNOWN.with_borrow_mut(HashMap::clear);
}

/// The variant with a layout of a function of this extension; `None` for other functions, and unless PUBLIC may execute
/// both: a plan is kept when its session changes its role.
fn look_up(function: Oid) -> Option<Oid> {
    // SAFETY: takes any OID, and returns a C string, or null if there is no such function.
    let name = unsafe {
        let name = pg_sys::get_func_name(function);
        if name.is_null() { return None } else { CStr::from_ptr(name) }
    };
    if !NAMES.contains(&name) {
        return None;
    }
    let (mut types, mut count) = (std::ptr::null_mut(), 0);
    // SAFETY: the function exists, since it has a name. Its types are an array of this length, which is null only if it
    // is empty, in the memory of the query.
    let types = unsafe {
        pg_sys::get_func_signature(function, &mut types, &mut count);
        let count = usize::try_from(count).unwrap_or(0);
        if types.is_null() { &[][..] } else { std::slice::from_raw_parts(types, count) }
    };
    let variant = sibling_function(function, name, &[types, &[TEXTOID]].concat());
    let both = [function, variant];
    // mutant: constant-ours
    // mutant: constant-rights
    (variant != Oid::INVALID && both.into_iter().all(is_ours) && both.into_iter().all(everybody_may_call))
        .then_some(variant)
}

/// Whether a function belongs to this extension. Other functions can have the same name.
fn is_ours(function: Oid) -> bool {
    // SAFETY: these look for a C string, and for any OID, in the catalog.
    let (extension, owner) = unsafe {
        let extension = pg_sys::get_extension_oid(c"snowflake_pg".as_ptr(), true);
        (extension, pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, function))
    };
    extension != Oid::INVALID && owner == extension
}
