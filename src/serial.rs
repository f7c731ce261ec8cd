//! Serial and identity columns of new tables get Snowflake IDs, in the schemas of `snowflake_pg.serial_schemas`.
//!
//! A column of CREATE TABLE or ADD COLUMN that PostgreSQL would number by a new sequence becomes
//! `bigint DEFAULT snowflake_id() NOT NULL`. The statement is changed before PostgreSQL runs it, so that there never is a
//! sequence. It says nothing then that its user could not have written.
//!
//! What only the catalog shows is done after the statement, by `snowflake_finish_table()`: identities that LIKE copies,
//! and columns that are too narrow for the IDs to which they refer.

mod column;
mod statement;

use crate::catalog::{c_string, identifier};
use crate::command::run;
use crate::config::gucs;
use crate::errors::error_report;
use column::Column;
use pgrx::pg_sys::{self, Oid, PlannedStmt};
use pgrx::prelude::*;
use statement::Statement;
use std::ffi::{CStr, c_char};

/// What is left to do when the statement has run. It has nothing to drop, since an ERROR jumps over it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Rest {
    /// The table, by its name in the statement; null if nothing is left to do.
    table: *const c_char,
    /// Its schema.
    schema: Oid,
    copies_identity: bool,
    /// Whether columns that refer are to be wide enough.
    widens: bool,
    /// The schema of the extension.
    ours: Oid,
}

impl Rest {
    /// Nothing.
    pub const NONE: Self = Self {
        table: std::ptr::null(),
        schema: Oid::INVALID,
        copies_identity: false,
        widens: false,
        ours: Oid::INVALID,
    };
}

/// What is to run instead of a statement: a copy with other columns, or the statement itself.
#[pg_guard]
pub unsafe extern "C-unwind" fn begin(statement: *mut PlannedStmt, rest: &mut Rest) -> *mut PlannedStmt {
    // SAFETY: the caller passes a statement.
    let Some(table) = (unsafe { Statement::of(statement) }) else { return statement };
    if !table.is_of_interest() || is_left_alone() || table.is_there_already() {
        return statement;
    }
    let Some(schema) = table.schema().filter(|&schema| gucs::has_serial_schema(schema)) else { return statement };
    let numbered = || table.columns.iter().filter(|column| column.is_numbered() && !table.has_already(column));
    let Some(ours) = schema_of_extension() else {
        for column in numbered() {
            error_report(PgSqlErrorCode::ERRCODE_WARNING, format!("{} gets no Snowflake IDs", table.display(column)))
                .set_detail("This database has no extension snowflake_pg, or you lack USAGE on its schema.")
                .set_hint("Run CREATE EXTENSION snowflake_pg in this database.")
                .report(PgLogLevel::WARNING);
        }
        return statement;
    };
    let widens = table.has_foreign_key && gucs::widens_serial();
    if widens || table.copies_identity {
        *rest = Rest { table: table.name(), schema, copies_identity: table.copies_identity, widens, ours };
    }
    let chosen: Vec<&Column> = numbered().filter(|column| is_to_change(&table, column)).collect();
    if chosen.is_empty() {
        return statement;
    }
    // SAFETY: the name of a schema that exists.
    let ours = unsafe { CStr::from_ptr(pg_sys::get_namespace_name(ours)) };
    // Not the statement itself, which a function or a prepared statement runs again.
    // SAFETY: copies a node of any type.
    let copy = unsafe { pg_sys::copyObjectImpl(statement.cast()) }.cast::<PlannedStmt>();
    // SAFETY: a copy of a statement.
    let columns = unsafe { Statement::of(copy) }.expect("a copy of the same kind").columns;
    for column in chosen {
        // SAFETY: a copy of our own. The schema is that of the extension.
        unsafe { columns[column.nth].become_bigint(ours) };
    }
    copy
}

/// Does what is left when the statement has run.
#[pg_guard]
pub unsafe extern "C-unwind" fn finish(rest: Rest) {
    if rest.table.is_null() {
        return;
    }
    // SAFETY: the name is in the statement, which is still there. The schemas existed when it began.
    let (table, ours) = unsafe {
        (pg_sys::get_relname_relid(rest.table, rest.schema), c_string(pg_sys::get_namespace_name(rest.ours)))
    };
    let (table, copies, widens) = (u32::from(table), rest.copies_identity, rest.widens);
    let call = format!(".snowflake_finish_table({table}::pg_catalog.oid::pg_catalog.regclass, {copies}, {widens})");
    run(&[b"SELECT ".as_slice(), &identifier(&ours), call.as_bytes()]);
}

/// Whether a column is to become a bigint with Snowflake IDs. Says so, or why not.
fn is_to_change(table: &Statement, column: &Column) -> bool {
    let reason = column.option_of_sequence().map(|option| format!("Its identity is declared with {option}."));
    let reason = reason.or_else(|| {
        if column.is_bigint() {
            return None;
        }
        if !gucs::widens_serial() {
            return Some("It is narrower than a bigint, and snowflake_pg.widen_serial is off.".to_owned());
        }
        let other = table.merged_with(column)?;
        Some(format!("It is merged with the column of {other}, which is no bigint."))
    });
    let what = if reason.is_some() { "is numbered by a sequence" } else { "gets Snowflake IDs" };
    let report =
        error_report(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, format!("{} {what}", table.display(column)));
    let is_left = reason.is_some();
    let report = match reason {
        Some(reason) => report.set_detail(reason),
        None => report,
    };
    report.report(PgLogLevel::NOTICE);
    !is_left
}

/// Whether somebody else says what the table is to be: the script of an extension, or a dump, also that of pg_upgrade. A
/// dump turns `check_function_bodies` off.
fn is_left_alone() -> bool {
    // SAFETY: reads variables of this session.
    unsafe { pg_sys::creating_extension || !pg_sys::check_function_bodies }
}

/// The schema of the extension in this database, if the user may look into it.
fn schema_of_extension() -> Option<Oid> {
    let schema = run(&[b"SELECT extnamespace::pg_catalog.int8 FROM pg_catalog.pg_extension \
        WHERE extname OPERATOR(pg_catalog.=) 'snowflake_pg'::pg_catalog.name \
            AND pg_catalog.has_schema_privilege(extnamespace, 'USAGE'::pg_catalog.text)"])?;
    u32::try_from(schema).ok().map(Oid::from)
}
