//! Rows as results.

use crate::postgres::catalog::type_name;
use crate::postgres::report::{error_report, raise};
use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::prelude::*;
use pgrx::tupdesc::PgTupleDesc;
use pgrx::{IntoDatum, PgMemoryContexts};
use std::ffi::CStr;

/// A value of a type, or NULL of a type.
#[derive(Clone, Copy)]
pub struct Column {
    value: Option<pg_sys::Datum>,
    type_oid: pg_sys::Oid,
}

/// A column with this value.
pub fn column<T: IntoDatum>(value: T) -> Column {
    Column { value: value.into_datum(), type_oid: T::type_oid() }
}

/// A row, or one of a set of rows: its columns by their names.
///
/// The caller declares columns, by OUT parameters, by a type or by a column definition list. It gets those that it
/// declares, in its order. Between the installation of a new library and ALTER EXTENSION UPDATE, these are of another
/// version: columns that the caller lacks are omitted, and columns that this row lacks are NULL. A declared type that
/// is not the column's raises an ERROR.
pub struct Row(Vec<(&'static str, Column)>);

impl Row {
    /// A row of these columns, each of them once.
    pub fn new(columns: impl Into<Vec<(&'static str, Column)>>) -> Self {
        Self(columns.into())
    }

    /// The value for one of the caller's columns, which mostly is at the same place here.
    fn value(&self, index: usize, attribute: &pg_sys::FormData_pg_attribute) -> Option<pg_sys::Datum> {
        // SAFETY: PostgreSQL ends a name with a zero.
        let label = unsafe { CStr::from_ptr(attribute.attname.data.as_ptr()) };
        let is_named = |column: &&(&str, Column)| column.0.as_bytes() == label.to_bytes();
        let column = self.0.get(index).filter(is_named).or_else(|| self.0.iter().find(is_named));
        let &(name, Column { value, type_oid }) = column?;
        let expected = attribute.atttypid;
        // SAFETY: takes any two OIDs.
        // mutant: row-types
        if type_oid != expected && !unsafe { pg_sys::IsBinaryCoercible(type_oid, expected) } {
            raise(mismatch(name, type_oid, expected));
        }
        value
    }
}

// SAFETY: returns a composite datum in the current memory context, as PostgreSQL expects.
unsafe impl BoxRet for Row {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        // SAFETY: the call is of a function that returns this row or a set of such rows. The description is a copy,
        // which is not reference-counted.
        let (description, attributes) = unsafe {
            let description = description(fcinfo.as_mut_ptr());
            (description, PgTupleDesc::from_pg_unchecked(description))
        };
        // The iterator does not say how many there are, so that collecting them would grow both time and again.
        let mut values = Vec::with_capacity(attributes.len());
        let mut nulls = Vec::with_capacity(attributes.len());
        for (index, attribute) in attributes.iter().enumerate() {
            let value = self.value(index, attribute);
            values.push(value.unwrap_or(pg_sys::Datum::null()));
            nulls.push(value.is_none());
        }
        // SAFETY: there are as many values as columns, and of their types. The description is blessed, as a datum needs
        // it, and of the type that the function returns.
        unsafe {
            let tuple = pg_sys::heap_form_tuple(description, values.as_mut_ptr(), nulls.as_mut_ptr());
            fcinfo.return_raw_datum(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data))
        }
    }
}

/// The error for a type that differs, with the message of PostgreSQL's own error.
fn mismatch(column: &str, returned: pg_sys::Oid, expected: pg_sys::Oid) -> ErrorReport {
    error_report(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        "function return row and query-specified return row do not match",
    )
    .set_detail(format!(
        "Returned type {} for column \"{column}\", but query expects {}.",
        type_name(returned).to_string_lossy(),
        type_name(expected).to_string_lossy()
    ))
}

// SAFETY: only for cargo-pgrx, which has nothing to generate: sql/extension declares the functions.
unsafe impl SqlTranslatable for Row {
    const TYPE_IDENT: &'static str = "record";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("record"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("record")));
}

/// The description of the row. The first call in a query looks it up, and the others reuse it.
///
/// # Safety
///
/// Only for calls of functions that return [`Row`] or `SetOfIterator<Row>`, after the first row was made.
unsafe fn description(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::TupleDesc {
    // SAFETY: PostgreSQL calls a function with a valid fcinfo and flinfo.
    let function = unsafe { &mut *(*fcinfo).flinfo };
    let (kept, context) = if function.fn_retset {
        // SAFETY: pgrx keeps the state of a set there, in which nothing else uses tuple_desc.
        let set = unsafe { &mut *function.fn_extra.cast::<pg_sys::FuncCallContext>() };
        (&mut set.tuple_desc, set.multi_call_memory_ctx)
    } else {
        // SAFETY: nothing else uses fn_extra of a function that returns a row.
        let extra = unsafe { &mut *(&raw mut function.fn_extra).cast::<pg_sys::TupleDesc>() };
        (extra, function.fn_mcxt)
    };
    if kept.is_null() {
        let mut made = std::ptr::null_mut();
        // SAFETY: returns a description, the caller's or a new one in the current memory context.
        let class = unsafe { pg_sys::get_call_result_type(fcinfo, std::ptr::null_mut(), &mut made) };
        if class != pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE || made.is_null() {
            // With the text of PostgreSQL's own error.
            raise(error_report(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "function returning record called in context that cannot accept type record",
            ));
        }
        let mut lasting = PgMemoryContexts::For(context);
        // SAFETY: the description is valid. Its copy is made in the context that lives as long as `kept`.
        *kept = unsafe { pg_sys::BlessTupleDesc(lasting.switch_to(|_| pg_sys::CreateTupleDescCopy(made))) };
    }
    *kept
}
