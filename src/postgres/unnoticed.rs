//! A command on a table that nobody notices: neither rules, policies nor triggers of anybody know of it.

use pgrx::prelude::*;
use std::ffi::CStr;

/// Runs an UPDATE or a SELECT, and returns how many rows it has updated or found.
///
/// Without the rewriter, which adds rules and policies, and with no triggers but PostgreSQL's own: foreign keys hold,
/// and so do deferred unique constraints. No parameter says so, such as `session_replication_role`, since code of the
/// owner, in a CHECK or an index, would find it, too, and use it to write to tables of others.
pub fn run(command: &CStr) -> u64 {
    let nothing = std::ptr::null_mut();
    let text = command.as_ptr();
    // SAFETY: in a transaction. The text is one command; its tables are locked when it is analyzed, and the query
    // description lives from its creation to its end here. The steps are those of SPI, with its snapshot.
    unsafe {
        pg_sys::CommandCounterIncrement();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let tree = pg_sys::list_nth(pg_sys::pg_parse_query(text), 0).cast::<pg_sys::RawStmt>();
        let query = pg_sys::parse_analyze_fixedparams(tree, text, std::ptr::null(), 0, nothing);
        let queries = pg_sys::lappend(std::ptr::null_mut(), query.cast());
        let plans = pg_sys::pg_plan_queries(queries, text, 0, std::ptr::null_mut());
        let plan = pg_sys::list_nth(plans, 0).cast::<pg_sys::PlannedStmt>();
        let run = pg_sys::CreateQueryDesc(
            plan,
            text,
            pg_sys::GetActiveSnapshot(),
            std::ptr::null_mut(),
            pg_sys::None_Receiver,
            std::ptr::null_mut(),
            nothing,
            0,
        );
        pg_sys::ExecutorStart(run, 0);
        // mutant: copy-fires-triggers
        leave_out_triggers((*run).estate);
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
        pg_sys::ExecutorRun(run, forward, 0, true);
        #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
        pg_sys::ExecutorRun(run, forward, 0);
        pg_sys::ExecutorFinish(run);
        let rows = (*(*run).estate).es_processed;
        pg_sys::ExecutorEnd(run);
        pg_sys::FreeQueryDesc(run);
        pg_sys::PopActiveSnapshot();
        pg_sys::CommandCounterIncrement();
        rows
    }
}

/// Of the tables that a command is about to change, all triggers but PostgreSQL's own.
///
/// # Safety
///
/// The command was started, and has not run yet: each table has a copy of its triggers then, which PostgreSQL asks
/// before each row and statement.
unsafe fn leave_out_triggers(state: *mut pg_sys::EState) {
    // SAFETY: as the caller's. The list has tables, and each description has so many triggers.
    unsafe {
        let tables = pgrx::PgList::<pg_sys::ResultRelInfo>::from_pg((*state).es_opened_result_relations);
        for table in tables.iter_ptr() {
            let Some(description) = (*table).ri_TrigDesc.as_mut() else { continue };
            let count = usize::try_from(description.numtriggers).unwrap_or(0);
            let triggers = std::slice::from_raw_parts_mut(description.triggers, count);
            let mut kept = 0;
            for number in 0..count {
                if is_of_postgresql(triggers[number].tgfoid) {
                    triggers.swap(kept, number);
                    kept += 1;
                }
            }
            *description = pg_sys::TriggerDesc {
                triggers: description.triggers,
                numtriggers: i32::try_from(kept).unwrap_or(0),
                // All of them are AFTER … FOR EACH ROW.
                trig_update_after_row: kept > 0,
                ..pg_sys::TriggerDesc::default()
            };
        }
    }
}

/// Whether this function of a trigger holds a foreign key or a deferred constraint.
fn is_of_postgresql(function: pg_sys::Oid) -> bool {
    let none = i32::try_from(pg_sys::RI_TRIGGER_NONE).unwrap_or(0);
    // SAFETY: takes any OID.
    function == pg_sys::Oid::from(pg_sys::F_UNIQUE_KEY_RECHECK)
        || unsafe { pg_sys::RI_FKey_trigger_type(function) } != none
}
