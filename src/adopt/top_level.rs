//! Commands as a client sends them.

use super::database::in_transaction;
use crate::postgres::command::must_become;
use crate::postgres::user::User;
use pgrx::PgMemoryContexts;
use pgrx::prelude::*;
use std::ffi::CStr;

/// Runs a utility command at the top level, outside of a transaction, as a role that the user of the session must be able to
/// become. CREATE INDEX CONCURRENTLY commits several times, which nothing may do in a function or a procedure; pg_cron
/// runs such commands in the same way.
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
    // SAFETY: outside of a transaction. The list has one statement, and PostgreSQL plans a utility command without looking
    // into it.
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
