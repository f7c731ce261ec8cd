//! Rows as results.

use pgrx::heap_tuple::PgHeapTuple;
use pgrx::prelude::*;
use pgrx::tupdesc::PgTupleDesc;
use pgrx::{AllocatedByRust, PgMemoryContexts};

/// A row of the OUT parameters that `sql/snowflake_pg.sql` declares for the function being called.
///
/// # Safety
///
/// `fcinfo` must be that of the call, nothing else may use its `fn_extra`, and the columns must be of the declared
/// types.
pub unsafe fn row<const N: usize>(
    fcinfo: pg_sys::FunctionCallInfo,
    columns: [Option<pg_sys::Datum>; N],
) -> PgHeapTuple<'static, AllocatedByRust> {
    // SAFETY: as this function's own conditions.
    let description = unsafe { description(fcinfo) };
    // SAFETY: as this function's own conditions.
    unsafe { PgHeapTuple::from_datums(description, columns) }.expect("as many columns as are declared")
}

/// The description of the row. Looked up in the catalog by the first call in a query, and kept for the others.
unsafe fn description(fcinfo: pg_sys::FunctionCallInfo) -> PgTupleDesc<'static> {
    // SAFETY: a function called by PostgreSQL has a valid fcinfo,
    let call = unsafe { &*fcinfo };
    // SAFETY: and a valid flinfo, whose only user it is.
    let function = unsafe { &mut *call.flinfo };
    if function.fn_extra.is_null() {
        let mut made = std::ptr::null_mut();
        // SAFETY: asks for the description only; it is made in the current memory context,
        unsafe { pg_sys::get_call_result_type(fcinfo, std::ptr::null_mut(), &mut made) };
        let mut lasting = PgMemoryContexts::For(function.fn_mcxt);
        // SAFETY: and copied to the one that lives as long as fn_extra.
        let kept = unsafe { lasting.switch_to(|_| copy(made)) };
        // SAFETY: a valid description.
        function.fn_extra = unsafe { pg_sys::BlessTupleDesc(kept) }.cast();
    }
    // SAFETY: set above, in this call or an earlier one; a copy is not counted by references.
    unsafe { PgTupleDesc::from_pg_unchecked(function.fn_extra.cast()) }
}

fn copy(description: pg_sys::TupleDesc) -> pg_sys::TupleDesc {
    // SAFETY: the functions of this library return rows, so get_call_result_type() has made a description.
    unsafe { pg_sys::CreateTupleDescCopy(description) }
}
