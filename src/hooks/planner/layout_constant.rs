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

use super::functions::Known;
use super::id::text;
use crate::config::gucs;
use crate::postgres::catalog::{everybody_may_call, function_name, is_ours, sibling_function};
use pgrx::PgList;
use pgrx::pg_sys::{FuncExpr, Node, Oid, TEXTOID};
use pgrx::prelude::*;

/// Adds the layout to a call, if the function has an optional layout.
#[pg_guard]
pub unsafe extern "C-unwind" fn name_layout(call: *mut FuncExpr) {
    // SAFETY: a call in a query that may be modified.
    let call = unsafe { &mut *call };
    let Some(function) = with_layout(call.funcid) else { return };
    if gucs::layout().is_err() {
        return;
    }
    let mut arguments = expanded_arguments(call);
    let Some(layout) = text(&gucs::layout_text().into_string().unwrap_or_default()) else { return };
    arguments.push(layout);
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
    static VARIANTS: Known<Option<Oid>> = const { Known::new() };
}

/// [`look_up`], once for each function.
fn with_layout(function: Oid) -> Option<Oid> {
    VARIANTS.with(|variants| variants.get(function, look_up))
}

/// The variant of a function of this extension with one more text, which is the layout; `None` for other functions, and
/// unless PUBLIC may execute both: a plan is kept when its session changes its role.
fn look_up(function: Oid) -> Option<Oid> {
    let name = function_name(function)?;
    // Without a layout, `snowflake_explain` says which life of this server issued the ID.
    if !name.to_bytes().starts_with(b"snowflake_") || name.as_c_str() == c"snowflake_explain" {
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
    let variant = sibling_function(function, &name, &[types, &[TEXTOID]].concat());
    let both = [function, variant];
    // mutant: constant-ours
    // mutant: constant-rights
    (variant != Oid::INVALID && both.into_iter().all(is_ours) && both.into_iter().all(everybody_may_call))
        .then_some(variant)
}
