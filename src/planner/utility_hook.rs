//! What this extension does when COPY and DISCARD run.

use super::copy;
use crate::issue::last_id;
use once_cell::sync::OnceCell;
use pgrx::pg_sys::{CopyStmt, DiscardMode, DiscardStmt, NodeTag};
use pgrx::prelude::*;
use std::ffi::c_char;

/// The hook of a library loaded before.
static NEXT_HOOK: OnceCell<pg_sys::ProcessUtility_hook_type> = OnceCell::new();

unsafe extern "C-unwind" {
    // Not pgrx's binding, which catches errors and raises them again without constraint, context and position.
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        query: *const c_char,
        read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        parameters: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        receiver: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

/// Installs the hook. Only while preloading; without preload no ID is issued.
pub fn watch() {
    // SAFETY: the postmaster has one thread.
    NEXT_HOOK.get_or_init(|| unsafe { pg_sys::ProcessUtility_hook });
    // SAFETY: the same.
    unsafe { pg_sys::ProcessUtility_hook = Some(process_utility) };
}

/// Tells the rest of this extension of the statement.
///
/// Without `#[pg_guard]`: an ERROR of the statement jumps over this frame, which is sound as long as it has nothing to
/// drop.
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: PostgreSQL passes a statement.
    let command = unsafe { (*statement).utilityStmt };
    // SAFETY: a statement has a node.
    let kind = unsafe { (*command).type_ };
    let mut copied_before = None;
    let mut forgets = false;
    if kind == NodeTag::T_CopyStmt {
        // SAFETY: a node of this type.
        copied_before = Some(copy::begin(unsafe { &*command.cast::<CopyStmt>() }));
    } else if kind == NodeTag::T_DiscardStmt {
        // SAFETY: a node of this type.
        let target = unsafe { (*command.cast::<DiscardStmt>()).target };
        // As lastval() is.
        forgets = [DiscardMode::DISCARD_ALL, DiscardMode::DISCARD_SEQUENCES].contains(&target);
    }
    let next = NEXT_HOOK.get().copied().flatten().unwrap_or(standard_ProcessUtility);
    // SAFETY: what PostgreSQL has passed, unchanged.
    unsafe { next(statement, query, read_only_tree, context, parameters, environment, receiver, completion) };
    if let Some(before) = copied_before {
        copy::end(before);
    }
    if forgets {
        last_id::forget();
    }
}
