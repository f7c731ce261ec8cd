//! What this extension does when CREATE TABLE, ALTER TABLE, COPY and DISCARD run.

use super::copy;
use super::serial::{self, Followup};
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
    unsafe {
        NEXT_HOOK.get_or_init(|| pg_sys::ProcessUtility_hook);
        pg_sys::ProcessUtility_hook = Some(process_utility);
    }
}

/// Runs the statement, and what this extension does before and after it.
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
    // SAFETY: PostgreSQL passes a statement, whose command is a node of the type that its tag names.
    let (copies, discards) = unsafe {
        let command = (*statement).utilityStmt;
        match (*command).type_ {
            NodeTag::T_CopyStmt => (Some(&*command.cast::<CopyStmt>()), None),
            NodeTag::T_DiscardStmt => (None, Some((*command.cast::<DiscardStmt>()).target)),
            _ => (None, None),
        }
    };
    let previous_direction = copies.map(copy::begin);
    // PostgreSQL then forgets lastval(), too.
    let forgets = [DiscardMode::DISCARD_ALL, DiscardMode::DISCARD_SEQUENCES].map(Some).contains(&discards);
    let mut followup = Followup::NONE;
    let next = NEXT_HOOK.get().copied().flatten().unwrap_or(standard_ProcessUtility);
    // SAFETY: PostgreSQL has passed all of this for a hook to pass on.
    unsafe {
        // PostgreSQL splits a statement into commands, which say nothing new.
        let is_part = context == pg_sys::ProcessUtilityContext::PROCESS_UTILITY_SUBCOMMAND
            && (*(*statement).utilityStmt).type_ == NodeTag::T_AlterTableStmt;
        let statement = if is_part { statement } else { serial::begin(statement, &mut followup) };
        // After an ERROR, PostgreSQL restores the stack to what it was where the ERROR is caught.
        let outer = pg_sys::error_context_stack;
        let mut explaining = pg_sys::ErrorContextCallback {
            previous: outer,
            callback: Some(serial::explain),
            arg: (&raw mut followup).cast(),
        };
        if followup.explains() {
            pg_sys::error_context_stack = &raw mut explaining;
        }
        next(statement, query, read_only_tree, context, parameters, environment, receiver, completion);
        pg_sys::error_context_stack = outer;
        serial::finish(&followup);
    }
    if let Some(direction) = previous_direction {
        copy::end(direction);
    }
    if forgets {
        // mutant: last-id-forgotten
        last_id::forget();
    }
}
