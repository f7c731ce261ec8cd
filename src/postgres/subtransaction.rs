//! Work that may fail without its transaction.

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;

/// Runs this in a subtransaction, as PL/pgSQL runs a block with EXCEPTION WHEN OTHERS. If it raises an ERROR, it has
/// done nothing, and the ERROR's message is returned. A cancel is raised again.
pub fn attempt(work: impl FnOnce()) -> Result<(), CString> {
    // SAFETY: reads two variables of this session.
    let (context, owner) = unsafe { (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner) };
    // SAFETY: in a transaction, as every command. Both outlive the subtransaction.
    let go_back = move || unsafe {
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
    };
    // SAFETY: the same. Memory that the work leaves is freed with the command.
    unsafe {
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
    }
    PgTryBuilder::new(AssertUnwindSafe(|| {
        work();
        // SAFETY: ends what was begun above.
        unsafe { pg_sys::ReleaseCurrentSubTransaction() };
        go_back();
        Ok(())
    }))
    .catch_others(move |error| {
        // SAFETY: the context is not that of errors, and outlives the subtransaction.
        unsafe { pg_sys::MemoryContextSwitchTo(context) };
        let message = message(&error);
        // SAFETY: ends what was begun above. The work has ended what it began in it.
        unsafe { pg_sys::RollbackAndReleaseCurrentSubTransaction() };
        go_back();
        message.map_or_else(|| error.rethrow(), Err)
    })
    .execute()
}

/// What an ERROR says, in the server encoding; `None` for an error that OTHERS of PL/pgSQL does not catch, and for a
/// panic.
fn message(error: &CaughtError) -> Option<CString> {
    const NOT_CAUGHT: [PgSqlErrorCode; 2] =
        [PgSqlErrorCode::ERRCODE_QUERY_CANCELED, PgSqlErrorCode::ERRCODE_ASSERT_FAILURE];
    match error {
        CaughtError::PostgresError(report) if !NOT_CAUGHT.contains(&report.sql_error_code()) => {
            // SAFETY: pgrx leaves the ERROR on PostgreSQL's stack while this is asked. Its message is a C string, or
            // null.
            unsafe {
                let message = (*pg_sys::CopyErrorData()).message;
                (!message.is_null()).then(|| CStr::from_ptr(message).to_owned())
            }
        }
        CaughtError::ErrorReport(report) => CString::new(report.message()).ok(),
        _ => None,
    }
}
