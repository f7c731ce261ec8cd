//! Commands as a client sends them.

use super::caller;
use super::database::{definer, in_transaction};
use crate::postgres::command::{self, must_become};
use crate::postgres::expression::{called, operators};
use crate::postgres::user::User;
use pgrx::pg_sys::{IndexElem, IndexStmt, Node, NodeTag, Oid};
use pgrx::prelude::*;
use pgrx::{PgList, PgMemoryContexts};
use std::ffi::{CStr, c_char, c_void};

// pgrx declares it as a function of Rust's, which cannot be a callback.
unsafe extern "C-unwind" {
    fn RangeVarCallbackOwnsRelation(
        relation: *const pg_sys::RangeVar,
        found: pg_sys::Oid,
        before: pg_sys::Oid,
        nothing: *mut c_void,
    );
}

/// Runs a utility command at the top level, outside of a transaction, as a role that the user of the session must be
/// able to become. CREATE INDEX CONCURRENTLY commits several times, which nothing may do in a function or a procedure;
/// pg_cron runs such commands in the same way.
///
/// After an ERROR, the role is another one until somebody restores it: the transaction of the command began with it.
pub fn run(command: &CStr, role: pg_sys::Oid) {
    let session = User::of_session();
    in_transaction(|| must_become(session.role, role));
    // In no security-restricted operation, which no transaction may begin with.
    // mutant: top-level-as-owner
    let _role = session.becoming(role).begin();
    // Outlives the transactions of the command, as a portal's context does.
    let context = PgMemoryContexts::new("snowflake_adopt command");
    // SAFETY: outside of a transaction. The list has one statement, and PostgreSQL plans a utility command without
    // looking into it.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::MemoryContextSwitchTo(context.value());
        let query = command.as_ptr();
        let tree = pg_sys::list_nth(pg_sys::pg_parse_query(query), 0).cast::<pg_sys::RawStmt>();
        let nothing = std::ptr::null_mut();
        let queries = pg_sys::pg_analyze_and_rewrite_fixedparams(tree, query, std::ptr::null(), 0, nothing);
        let plans = pg_sys::pg_plan_queries(queries, query, 0, std::ptr::null_mut());
        let plan = pg_sys::list_nth(plans, 0).cast::<pg_sys::PlannedStmt>();
        assert!(!(*plan).utilityStmt.is_null(), "a utility command");
        // As PortalRunUtility(), whose snapshot the command gives back.
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        if (*(*plan).utilityStmt).type_ == NodeTag::T_IndexStmt {
            (*plan).utilityStmt = understood((*plan).utilityStmt.cast(), query).cast();
        }
        pg_sys::ProcessUtility(
            plan,
            query,
            false,
            pg_sys::ProcessUtilityContext::PROCESS_UTILITY_TOPLEVEL,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            pg_sys::None_Receiver,
            std::ptr::null_mut(),
        );
        if pg_sys::ActiveSnapshotSet() {
            pg_sys::PopActiveSnapshot();
        }
        pg_sys::CommitTransactionCommand();
    }
}

/// A command that creates an index, with the functions that it is going to call. A function of somebody else's can fit
/// better than the one that the old index calls, and have come at any moment before this.
///
/// # Safety
///
/// The command and its text are valid. A snapshot is active.
unsafe fn understood(index: *mut IndexStmt, query: *const c_char) -> *mut IndexStmt {
    let (lock, owns) = (pg_sys::ShareUpdateExclusiveLock.cast_signed(), RangeVarCallbackOwnsRelation as _);
    // SAFETY: as the caller's. The command itself looks for the table in the same way, and finds a command that was
    // understood as one. Its elements have an expression, or are null there.
    unsafe {
        let relation = pg_sys::RangeVarGetRelidExtended((*index).relation, lock, 0, Some(owns), std::ptr::null_mut());
        let index = pg_sys::transformIndexStmt(relation, index, query);
        let elements = PgList::<IndexElem>::from_pg((*index).indexParams);
        let expressions: Vec<_> =
            elements.iter_ptr().map(|element| (*element).expr).chain([(*index).whereClause]).collect();
        let list = |of: fn(*mut Node) -> Vec<Oid>| {
            expressions
                .iter()
                .flat_map(|&part| of(part))
                .map(|oid| oid.to_u32().to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        let check = format!(
            "SELECT snowflake_adopt.must_be_called_already({}::oid, '{{{}}}'::oid[], '{{{}}}'::oid[])",
            relation.to_u32(),
            list(called),
            list(operators)
        );
        // mutant: index-calls-others
        if let Some(definer) = definer() {
            caller::inside(definer, || command::run(&[check.as_bytes()]));
        }
        index
    }
}
