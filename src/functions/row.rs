//! Rows as results.

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::prelude::*;
use pgrx::tupdesc::PgTupleDesc;
use pgrx::{IntoDatum, PgMemoryContexts};

/// A row of the OUT parameters that `sql/snowflake_pg.sql` declares for the function that returns it.
pub struct Row<const N: usize>([Option<pg_sys::Datum>; N]);

impl<const N: usize> Row<N> {
    /// A row of these columns.
    ///
    /// # Safety
    ///
    /// They must be as many as the function declares, and of the types it declares.
    pub unsafe fn new(columns: [Option<pg_sys::Datum>; N]) -> Self {
        Self(columns)
    }
}

// SAFETY: gives a composite datum in the current memory context, as PostgreSQL expects of a function that returns one.
unsafe impl<const N: usize> BoxRet for Row<N> {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        // SAFETY: only to find the description of the row.
        let call = unsafe { fcinfo.as_mut_ptr() };
        // SAFETY: the call being made; nothing else in this library uses fn_extra of a function that returns a row.
        let description = unsafe { description(call) };
        // SAFETY: as `Row::new` was promised.
        let tuple = unsafe { PgHeapTuple::from_datums(description, self.0) }.expect("as many columns as are declared");
        match tuple.into_datum() {
            // SAFETY: a datum of the type that the function returns.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}

// SAFETY: only for cargo-pgrx, and says that there is nothing to generate: sql/snowflake_pg.sql declares the functions.
unsafe impl<const N: usize> SqlTranslatable for Row<N> {
    const TYPE_IDENT: &'static str = "record";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("record"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("record")));
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
