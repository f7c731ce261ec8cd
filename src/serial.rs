//! Serial and identity columns of new tables get Snowflake IDs, in the schemas of `snowflake_pg.serial_schemas`.
//!
//! A column of CREATE TABLE or ADD COLUMN that PostgreSQL would number by a new sequence becomes
//! `bigint DEFAULT snowflake_id() NOT NULL`, and one that refers to a bigint by a foreign key a bigint. The statement is
//! changed before PostgreSQL runs it, so that there never is a sequence. It says nothing then that its user could not have
//! written.
//!
//! What no statement can say is done beside it: columns that a table already has become wider before, by
//! `snowflake_widen()`, and identities that LIKE copies become defaults after, by `snowflake_finish_table()`.

mod column;
mod references;
mod statement;
mod tree;

use crate::catalog::{beside, may_call};
use crate::command::run;
use crate::config::gucs;
use crate::errors::error_report;
use column::Column;
use pgrx::pg_sys::{self, Datum, Oid, PlannedStmt};
use pgrx::prelude::*;
use references::Narrow;
use statement::Statement;
use std::ffi::{CStr, CString, c_char};

/// What is left to do when the statement has run. It has nothing to drop, since an ERROR jumps over it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Rest {
    /// The function that does it; the invalid OID if nothing is left to do.
    function: Oid,
    /// The table, by its name in the statement.
    table: *const c_char,
    /// Its schema.
    schema: Oid,
    /// The columns of the statement, which are not copied by LIKE: an array of texts.
    columns: Datum,
}

impl Rest {
    /// Nothing.
    pub const NONE: Self =
        Self { function: Oid::INVALID, table: std::ptr::null(), schema: Oid::INVALID, columns: Datum::null() };
}

/// The functions of the extension that are called here.
struct Ours {
    schema: CString,
    widen: Oid,
    finish: Oid,
}

/// What is to run instead of a statement: a copy with other columns, or the statement itself.
#[pg_guard]
pub unsafe extern "C-unwind" fn begin(statement: *mut PlannedStmt, rest: &mut Rest) -> *mut PlannedStmt {
    // SAFETY: the caller passes a statement.
    let Some(table) = (unsafe { Statement::of(statement) }).filter(|_| gucs::has_serial_schemas()) else {
        return statement;
    };
    if !table.is_of_interest() || is_of_extension() {
        return statement;
    }
    let Some(schema) = table.schema().filter(|&schema| gucs::is_serial_schema(schema)) else { return statement };
    let numbered = || table.columns.iter().filter(|column| column.is_numbered() && !table.has_already(column));
    let ours = match ours() {
        Ok(ours) => ours,
        Err((detail, hint)) => {
            for column in numbered() {
                warn(&format!("{} gets no Snowflake IDs", table.display(column.name())), detail, hint);
            }
            return statement;
        }
    };
    let chosen: Vec<usize> =
        numbered().filter(|column| is_to_change(&table, column)).map(|column| column.nth).collect();
    let narrow = if gucs::widens_serial() && !is_restoring() { Narrow::of(&table, &chosen) } else { Narrow::default() };
    if let Some(altered) = table.table().filter(|_| !narrow.existing.is_empty()) {
        call(ours.widen, altered, texts(narrow.existing.iter().map(CString::as_c_str)));
    }
    if table.copies_identity {
        let columns = texts(table.columns.iter().map(Column::name));
        *rest = Rest { function: ours.finish, table: table.name(), schema, columns };
    }
    if chosen.is_empty() && narrow.new.is_empty() {
        return statement;
    }
    // Not the statement itself, which a function or a prepared statement runs again.
    // SAFETY: copies a node of any type.
    let copy = unsafe { pg_sys::copyObjectImpl(statement.cast()) }.cast::<PlannedStmt>();
    // SAFETY: a copy of a statement.
    let columns = unsafe { Statement::of(copy) }.expect("a copy of the same kind").columns;
    for nth in chosen {
        // SAFETY: a copy of our own. The schema is that of the extension.
        unsafe { columns[nth].become_snowflake(&ours.schema) };
    }
    for nth in narrow.new {
        notice(
            &format!("{} becomes bigint", table.display(columns[nth].name())),
            Some("It refers to a bigint.".to_owned()),
        );
        // SAFETY: a copy of our own.
        unsafe { columns[nth].become_bigint() };
    }
    copy
}

/// Does what is left when the statement has run.
#[pg_guard]
pub unsafe extern "C-unwind" fn finish(rest: Rest) {
    if rest.function != Oid::INVALID {
        // SAFETY: the name is in the statement, which is still there.
        let table = unsafe { pg_sys::get_relname_relid(rest.table, rest.schema) };
        call(rest.function, table, rest.columns);
    }
}

/// Whether a column is to become a bigint with Snowflake IDs. Says so, or why not.
fn is_to_change(table: &Statement, column: &Column) -> bool {
    let reason = column.option_of_sequence().map(|option| format!("Its identity is declared with {option}."));
    let reason = reason.or_else(|| {
        if column.is_bigint() {
            return None;
        }
        if !gucs::widens_serial() {
            return Some("It is narrower than bigint, and snowflake_pg.widen_serial is off.".to_owned());
        }
        let other = table.merged_with(column)?;
        Some(format!("It is merged with the column of {other}, which is not of type bigint."))
    });
    let is_left = reason.is_some();
    let what = if is_left { "is numbered by a sequence" } else { "gets Snowflake IDs" };
    notice(&format!("{} {what}", table.display(column.name())), reason);
    !is_left
}

fn notice(message: &str, detail: Option<String>) {
    let report = error_report(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message);
    let report = match detail {
        Some(detail) => report.set_detail(detail),
        None => report,
    };
    report.report(PgLogLevel::NOTICE);
}

fn warn(message: &str, detail: &str, hint: &str) {
    let report = error_report(PgSqlErrorCode::ERRCODE_WARNING, message);
    report.set_detail(detail).set_hint(hint).report(PgLogLevel::WARNING);
}

/// Whether the script of an extension runs the statement, whose author says what its tables are.
fn is_of_extension() -> bool {
    // SAFETY: reads a variable of this session.
    unsafe { pg_sys::creating_extension }
}

/// Whether a dump is restored, also by pg_upgrade: it turns `check_function_bodies` off. It has identities and defaults in
/// statements of their own, which nobody changes, and foreign keys.
fn is_restoring() -> bool {
    // SAFETY: reads a variable of this session.
    unsafe { !pg_sys::check_function_bodies }
}

/// The functions of the extension in this database, if the user may call them; else why not, and what to do.
fn ours() -> Result<Ours, (&'static str, &'static str)> {
    // The function without arguments, unless another one could be meant by a call without arguments.
    let id = run(&[b"SELECT p.oid::pg_catalog.int8 FROM pg_catalog.pg_extension e
        JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
            AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog.\"char\"
            AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
        JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) d.objid
        WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_pg'::pg_catalog.name
            AND p.proname OPERATOR(pg_catalog.=) 'snowflake_id'::pg_catalog.name
            AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc o WHERE o.proname OPERATOR(pg_catalog.=) p.proname
                AND o.pronamespace OPERATOR(pg_catalog.=) p.pronamespace AND o.oid OPERATOR(pg_catalog.<>) p.oid
                AND (o.pronargs OPERATOR(pg_catalog.=) o.pronargdefaults
                    OR o.provariadic OPERATOR(pg_catalog.<>) 0::pg_catalog.oid))"]);
    let Some(id) = id.and_then(|id| u32::try_from(id).ok()).map(Oid::from) else {
        return Err((
            "This database has no extension snowflake_pg, or another snowflake_id() beside its own.",
            "Run CREATE EXTENSION snowflake_pg in this database, or drop the other function.",
        ));
    };
    let arguments = [pg_sys::REGCLASSOID, pg_sys::TEXTARRAYOID];
    let [widen, finish] = [c"snowflake_widen", c"snowflake_finish_table"].map(|name| beside(id, name, &arguments));
    if [widen, finish].contains(&Oid::INVALID) {
        return Err(("The extension is older than its library.", "Run ALTER EXTENSION snowflake_pg UPDATE."));
    }
    // SAFETY: the function exists. Its schema has a name.
    let (schema, may_use) = unsafe {
        let schema = pg_sys::get_func_namespace(id);
        let name = CStr::from_ptr(pg_sys::get_namespace_name(schema)).to_owned();
        (name, may_use_schema(schema))
    };
    if !may_use || ![id, widen, finish].into_iter().all(may_call) {
        return Err((
            "You may not use the schema of the extension, or not call its functions.",
            "Grant USAGE on that schema, and EXECUTE on its functions, to the role.",
        ));
    }
    Ok(Ours { schema, widen, finish })
}

/// Whether the current user may look into a schema.
fn may_use_schema(schema: Oid) -> bool {
    let arguments = [schema.into_datum(), "USAGE".into_datum()];
    // SAFETY: takes the OID of a schema and a text, and gives a boolean, or NULL if there is no such schema.
    let may: Option<bool> = unsafe { pgrx::direct_function_call(pg_sys::has_schema_privilege_id, &arguments) };
    may == Some(true)
}

/// Calls a function of the extension, which no other can be taken for.
fn call(function: Oid, table: Oid, columns: Datum) {
    // SAFETY: the function takes the OID of a table and an array of texts, and gives nothing.
    unsafe { pg_sys::OidFunctionCall2Coll(function, Oid::INVALID, table.into(), columns) };
}

/// An array of texts.
fn texts<'tree>(names: impl Iterator<Item = &'tree CStr>) -> Datum {
    // SAFETY: takes C strings, which are names of this database, and makes texts; takes as many texts as there are.
    unsafe {
        let mut texts: Vec<Datum> = names.map(|name| Datum::from(pg_sys::cstring_to_text(name.as_ptr()))).collect();
        let count = i32::try_from(texts.len()).expect("columns of a table");
        let of_type = pg_sys::TEXTOID;
        let align = pg_sys::TYPALIGN_INT.cast_signed() as c_char;
        Datum::from(pg_sys::construct_array(texts.as_mut_ptr(), count, of_type, -1, false, align))
    }
}
