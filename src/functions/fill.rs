//! A trigger that gives rows their IDs, for tables whose clients send NULL for the key, as postgres_fdw does.

use crate::postgres::catalog::{may_call, sibling_function, type_name};
use crate::postgres::expression::issues_ids;
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{characters, displayable, quoted};
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use pgrx::trigger_support::{called_as_trigger, trigger_fired_before, trigger_fired_by_insert, trigger_fired_for_row};
use pgrx::{PgMemoryContexts, is_a};
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// The trigger function. It returns the row, with an ID where the column is NULL.
#[unsafe(no_mangle)]
#[pg_guard]
extern "C-unwind" fn snowflake_fill(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: PostgreSQL calls a function with a valid fcinfo and flinfo. The context of a trigger's call is its data.
    let (data, function) = unsafe {
        if !called_as_trigger(call) {
            raise(misused("was not called by trigger manager"));
        }
        (&*(*call).context.cast::<pg_sys::TriggerData>(), &mut *(*call).flinfo)
    };
    // mutant: trigger-new-row
    must_be_fired_for_new_row(data);
    // The first row of a statement looks the column up, and the others reuse it: these are calls of one trigger.
    if function.fn_extra.is_null() {
        let known = Known { column: column(data).into(), source: None };
        function.fn_extra = PgMemoryContexts::For(function.fn_mcxt).leak_and_drop_on_delete(known).cast();
    }
    // SAFETY: what the first row has kept. No other call of this trigger runs meanwhile that changes it.
    let known = unsafe { &mut *function.fn_extra.cast::<Known>() };
    let (row, columns) = (data.tg_trigtuple, table(data).rd_att);
    // SAFETY: the row of a trigger that is fired for one, and the number of a column.
    if !unsafe { pg_sys::heap_attisnull(row, known.column, columns) } {
        return row.into();
    }
    let source = *known.source.get_or_insert_with(|| source(data, known.column, function));
    // SAFETY: the row has these columns, one of them with this number.
    unsafe { fill(row, columns, known.column, source) }.into()
}

/// What a statement keeps.
struct Known {
    /// The number of the column.
    column: c_int,
    /// Where its IDs come from, from the first row on that lacks one.
    source: Option<Source>,
}

/// Where IDs come from.
#[derive(Clone, Copy)]
enum Source {
    /// The next ID of the server. The role may have it.
    Next,
    /// The default of the column, which chooses the place or the tag of an ID.
    Default(*mut pg_sys::ExprState, *mut pg_sys::ExprContext),
}

/// What PG_FUNCTION_INFO_V1() defines in C.
#[unsafe(no_mangle)]
extern "C" fn pg_finfo_snowflake_fill() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

/// Where the IDs of a column come from; an ERROR unless the role may have them.
fn source(data: &pg_sys::TriggerData, column: c_int, function: &pg_sys::FmgrInfo) -> Source {
    // Any other call of the extension chooses a place or a tag.
    let next = [c"snowflake_nextval", c"snowflake_id"].map(|name| sibling_function(function.fn_oid, name, &[]));
    // What is prepared points to the constants of the default, so both live as long as the function's context.
    // SAFETY: an open table has this column. A node is of the type that its tag says.
    let prepare = |_: &mut PgMemoryContexts| unsafe {
        let default = pg_sys::build_column_default(ptr::from_ref(table(data)).cast_mut(), column);
        let call = pg_sys::strip_implicit_coercions(default);
        let is_call = !call.is_null() && is_a(call, pg_sys::NodeTag::T_FuncExpr);
        // mutant: trigger-default
        (is_call && !next.contains(&(*call.cast::<pg_sys::FuncExpr>()).funcid) && issues_ids(call)).then(|| {
            let state = pg_sys::CreateExecutorState();
            Source::Default(pg_sys::ExecPrepareExpr(default.cast(), state), pg_sys::MakePerTupleExprContext(state))
        })
    };
    // SAFETY: the context is that of the function which is called.
    if let Some(default) = unsafe { PgMemoryContexts::For(function.fn_mcxt).switch_to(prepare) } {
        return default;
    }
    // mutant: trigger-may-issue
    must_issue(function.fn_oid);
    Source::Next
}

/// The row, with an ID in this column.
///
/// # Safety
///
/// The row has these columns, one of them with this number.
unsafe fn fill(
    row: pg_sys::HeapTuple,
    columns: pg_sys::TupleDesc,
    mut number: c_int,
    source: Source,
) -> pg_sys::HeapTuple {
    let mut is_null = false;
    // SAFETY: the caller promises that the row has the column. The ID is a value of its type, or of that on which a
    // domain is based. `source` has prepared the default, whose memory only the row before used.
    unsafe {
        let mut id = match source {
            Source::Next => super::nextval::next().into(),
            Source::Default(state, context) => {
                pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
                let evaluate = (*state).evalfunc.expect("an expression that is prepared");
                PgMemoryContexts::For((*context).ecxt_per_tuple_memory)
                    .switch_to(|_| pg_guard_ffi_boundary(|| evaluate(state, context, &raw mut is_null)))
            }
        };
        let of_type = pg_sys::SPI_gettypeid(columns, number);
        // mutant: trigger-domain
        if of_type != pg_sys::INT8OID && pg_sys::getBaseType(of_type) != of_type {
            // Keeps nothing for another call.
            pg_sys::domain_check(id, false, of_type, ptr::null_mut(), ptr::null_mut());
        }
        pg_sys::heap_modify_tuple_by_cols(row, columns, 1, &raw mut number, &raw mut id, &raw mut is_null)
    }
}

/// The table of a trigger, which is open.
fn table(data: &pg_sys::TriggerData) -> &pg_sys::RelationData {
    // SAFETY: the data of a trigger has the table.
    unsafe { &*data.tg_relation }
}

/// An ERROR if there is no new row, or if it is too late for it. One statement can insert rows and update others.
fn must_be_fired_for_new_row(data: &pg_sys::TriggerData) {
    if !trigger_fired_before(data.tg_event) || !trigger_fired_for_row(data.tg_event) {
        raise(misused("must be fired BEFORE ROW"));
    }
    if !trigger_fired_by_insert(data.tg_event) {
        raise(misused("must be fired for INSERT"));
    }
}

/// The number of the column that the trigger fills; an ERROR if it fills none.
fn column(data: &pg_sys::TriggerData) -> u16 {
    // SAFETY: the data of a trigger has the trigger.
    let (trigger, table) = (unsafe { &*data.tg_trigger }, table(data));
    if trigger.tgnargs != 1 {
        raise(
            misused("must be given the name of one column")
                .set_detail(format!("Trigger {} gives it {} arguments.", name(trigger.tgname), trigger.tgnargs))
                .set_hint(
                    "Create the trigger with EXECUTE FUNCTION snowflake_fill('id'), where id is the column of the IDs.",
                ),
        );
    }
    // SAFETY: the trigger has one argument, a C string, and an open table has its columns.
    let (argument, number) = unsafe {
        let argument = *trigger.tgargs;
        (argument, pg_sys::SPI_fnumber(table.rd_att, argument))
    };
    // SAFETY: an open table has its row of pg_class.
    let of_table = || name(unsafe { (*table.rd_rel).relname.data.as_ptr() });
    // Columns of the system have negative numbers.
    let Some(attribute) = u16::try_from(number).ok().filter(|&attribute| attribute > 0) else {
        raise(error_report(
            PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
            format!("column {} of relation {} does not exist", name(argument), of_table()),
        ));
    };
    // SAFETY: the table has a column of this number, which has a type.
    let (of_type, is_bigint) = unsafe {
        let of_type = pg_sys::SPI_gettypeid(table.rd_att, number);
        (of_type, pg_sys::IsBinaryCoercible(of_type, pg_sys::INT8OID))
    };
    if !is_bigint {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!("column {} of relation {} must be of type bigint or snowflake", name(argument), of_table()),
            )
            .set_detail(format!("Its type is {}.", displayable(&characters(type_name(of_type).to_bytes())))),
        );
    }
    attribute
}

/// An ERROR unless the role may issue IDs, as with the default `snowflake_nextval()`.
fn must_issue(function: Oid) {
    const ISSUES: &CStr = c"snowflake_nextval";
    if !may_call(sibling_function(function, ISSUES, &[])) {
        let (why, kind) = (pg_sys::AclResult::ACLCHECK_NO_PRIV, pg_sys::ObjectType::OBJECT_FUNCTION);
        // SAFETY: raises an ERROR with the name, a C string.
        unsafe { pg_sys::aclcheck_error(why, kind, ISSUES.as_ptr()) };
    }
}

fn misused(how: &str) -> ErrorReport {
    error_report(
        PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        format!("function \"snowflake_fill\" {how}"),
    )
}

/// A name for messages.
fn name(text: *const c_char) -> String {
    // SAFETY: every caller passes a C string of PostgreSQL's.
    quoted(&characters(unsafe { CStr::from_ptr(text) }.to_bytes()))
}
