//! Serial and identity columns of new tables get Snowflake IDs, in the schemas of `snowflake_pg.serial_schemas`.
//!
//! A column of CREATE TABLE or ADD COLUMN that PostgreSQL would number by a new sequence becomes
//! `bigint DEFAULT snowflake_id() NOT NULL`, and a column that references a bigint by a foreign key becomes a bigint.
//! The statement is changed before PostgreSQL runs it, so that there never is a sequence. It then says nothing that its
//! user could not have written.
//!
//! Changes that no statement can express are made beside it. Before it runs, [`widen()`] makes existing columns wider.
//! Afterwards, [`defaults`] gives the default to columns that LIKE has copied with their identity, and to the columns
//! of an attached partition. Messages come afterwards, too, so that there are none if PostgreSQL refuses the statement.

mod column;
mod defaults;
mod family;
mod followup;
mod message;
mod references;
mod statement;
mod widen;

use crate::config::gucs;
use crate::postgres::catalog::{find_relation, may_call};
use crate::postgres::command::run;
use column::Column;
use defaults::Defaults;
use family::{columns_with_ids, narrower};
pub use followup::{Followup, explain, finish};
use message::{Message, readable};
use pgrx::pg_sys::{self, Oid, PlannedStmt};
use pgrx::prelude::*;
use references::ColumnsToWiden;
use statement::{Statement, display};
use std::ffi::{CStr, CString};
use widen::widen;

/// The extension's `snowflake_id()`.
struct IdFunction {
    schema: CString,
    oid: Oid,
}

/// The statement that is to run: a copy with other columns, or the statement itself.
#[pg_guard]
pub unsafe extern "C-unwind" fn begin(planned: *mut PlannedStmt, followup: &mut Followup) -> *mut PlannedStmt {
    // SAFETY: the caller passes a statement.
    let Some(statement) = (unsafe { Statement::read(planned) }).filter(|_| gucs::has_serial_schemas()) else {
        return planned;
    };
    if !statement.is_of_interest() || is_of_extension() {
        return planned;
    }
    let Some(schema) = statement.schema().filter(|&schema| gucs::is_serial_schema(schema)) else { return planned };
    let numbered = || statement.columns.iter().filter(|column| column.is_numbered() && !statement.has_already(column));
    let mut messages = Vec::new();
    let id_function = match id_function() {
        Ok(id_function) => id_function,
        Err((detail, hint)) => {
            let lacks = |column: &Column| format!("{} gets no Snowflake IDs", statement.display(column.name()));
            followup.report(
                numbered().map(|column| Message::warning(lacks(column), detail.to_owned(), Some(hint))).collect(),
            );
            return planned;
        }
    };
    let chosen: Vec<usize> =
        numbered().filter(|column| is_to_change(&statement, column, &mut messages)).map(|column| column.nth).collect();
    let to_widen = if is_restoring() {
        ColumnsToWiden::default()
    } else {
        let to_widen = widen_existing(&statement, &chosen, &mut messages);
        join(&statement, &id_function, followup, &mut messages);
        to_widen
    };
    if !statement.sources.is_empty() {
        followup.set_defaults(Defaults {
            id: id_function.oid,
            table: statement.relation,
            schema,
            declared: statement.columns.iter().map(|column| column.name().to_owned()).collect(),
            sources: statement.sources.iter().map(|&source| find_relation(source)).collect(),
        });
    }
    let new = |nth: usize| &statement.columns[nth];
    messages.extend(to_widen.new.iter().map(|&(nth, why)| becomes(&statement.display(new(nth).name()), why)));
    followup.report(messages);
    if chosen.is_empty() && to_widen.new.is_empty() {
        return planned;
    }
    // SAFETY: the caller passes a statement.
    unsafe { copy_with(planned, &id_function.schema, &chosen, &to_widen) }
}

/// A copy of a statement, in which the chosen columns get Snowflake IDs, and new columns become wider. Not the
/// statement itself, which a function or a prepared statement runs again.
unsafe fn copy_with(
    planned: *mut PlannedStmt,
    schema: &CStr,
    chosen: &[usize],
    to_widen: &ColumnsToWiden,
) -> *mut PlannedStmt {
    // SAFETY: copies a node of any type.
    // mutant: statement-copied
    let copy = unsafe { pg_sys::copyObjectImpl(planned.cast()) }.cast::<PlannedStmt>();
    // SAFETY: a copy of a statement.
    let columns = unsafe { Statement::read(copy) }.expect("a copy of the same kind").columns;
    for &nth in chosen {
        // SAFETY: a copy of our own. The schema is that of the extension.
        unsafe { columns[nth].become_snowflake(schema) };
    }
    for &(nth, _) in &to_widen.new {
        // SAFETY: a copy of our own.
        unsafe { columns[nth].become_bigint() };
    }
    copy
}

/// Widens the columns that the table already has, with messages. Returns all columns that are to become wider.
fn widen_existing(statement: &Statement, chosen: &[usize], messages: &mut Vec<Message>) -> ColumnsToWiden {
    let to_widen = ColumnsToWiden::find(statement, chosen);
    if let Some(altered) = statement.table().filter(|_| !to_widen.existing.is_empty()) {
        let widened = widen(altered, &to_widen.existing);
        messages.extend(to_widen.existing.iter().map(|column| match &widened {
            Ok(()) => becomes(&statement.display(column), references::WHY),
            Err(reason) => stays_narrow(&statement.display(column), &readable(reason)),
        }));
    }
    messages.extend(to_widen.left.iter().map(|(column, other)| {
        let reason = format!("it must have the same type as the column of {other}");
        stays_narrow(&statement.display(column), &reason)
    }));
    to_widen
}

/// Gives a child the types of the parent that the statement gives it, and a partition its defaults.
fn join(statement: &Statement, id_function: &IdFunction, followup: &mut Followup, messages: &mut Vec<Message>) {
    let Some((named, parent)) = statement.joined else { return };
    let [child, parent] = [named, parent].map(find_relation);
    let columns = narrower(child, columns_with_ids(parent));
    if !columns.is_empty() {
        match widen(child, &columns) {
            Ok(()) => messages.extend(columns.iter().map(|column| becomes(&display(named, column), family::WHY))),
            Err(reason) => followup.explain(child, &columns, &reason),
        }
    }
    if statement.attaches {
        let (schema, declared, sources) = (Oid::INVALID, Vec::new(), vec![parent]);
        followup.set_defaults(Defaults { id: id_function.oid, table: named, schema, declared, sources });
    }
}

/// The message on a column that references a bigint and stays as it is.
fn stays_narrow(column: &str, reason: &str) -> Message {
    Message::warning(
        format!("{column} is narrower than the column that it references"),
        format!("It is unchanged: {reason}."),
        Some("Change it, and the columns that reference it, to bigint before rows refer to new Snowflake IDs."),
    )
}

/// The message on a column that becomes wider.
fn becomes(column: &str, why: &str) -> Message {
    Message::notice(format!("{column} becomes bigint"), Some(why.to_owned()), None)
}

/// Whether a column is to become a bigint with Snowflake IDs. Adds a message that says so, or why not.
fn is_to_change(statement: &Statement, column: &Column, messages: &mut Vec<Message>) -> bool {
    let reason = column.option_of_sequence().map(|option| (format!("Its identity is declared with {option}."), None));
    let reason = reason.or_else(|| {
        if column.is_bigint() {
            return None;
        }
        if !gucs::widens_serial() {
            return Some((
                "It is narrower than bigint, and snowflake_pg.widen_serial is off.".to_owned(),
                Some(
                    "Declare it as bigserial or bigint. Or set snowflake_pg.widen_serial = on, if the application \
                     reads its keys as 64-bit integers.",
                ),
            ));
        }
        let other = statement.merged_with(column.name())?;
        Some((format!("It is merged with the column of {other}, which is not of type bigint."), None))
    });
    let is_left = reason.is_some();
    let what = if is_left { "is numbered by a sequence" } else { "gets Snowflake IDs" };
    let (detail, hint) = reason.unzip();
    messages.push(Message::notice(format!("{} {what}", statement.display(column.name())), detail, hint.flatten()));
    !is_left
}

/// Whether the script of an extension runs the statement, whose author says what its tables are.
fn is_of_extension() -> bool {
    // SAFETY: reads a variable of this session.
    // mutant: extension-tables-left
    unsafe { pg_sys::creating_extension }
}

/// Whether a dump is restored, also by pg_upgrade: it turns `check_function_bodies` off. It has identities, defaults
/// and foreign keys in separate statements, which nobody changes.
fn is_restoring() -> bool {
    // SAFETY: reads a variable of this session.
    // mutant: restored-tables-left
    unsafe { !pg_sys::check_function_bodies }
}

/// The function of the extension in this database, if the user may call it; else why not, and what to do.
fn id_function() -> Result<IdFunction, (&'static str, &'static str)> {
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
            "This database does not have extension snowflake_pg, or has another snowflake_id() beside the extension's.",
            "Run CREATE EXTENSION snowflake_pg in this database, or drop the other function.",
        ));
    };
    // SAFETY: the function exists. Its schema has a name.
    let (schema, may_use) = unsafe {
        let schema = pg_sys::get_func_namespace(id);
        let name = CStr::from_ptr(pg_sys::get_namespace_name(schema)).to_owned();
        (name, may_use_schema(schema))
    };
    if !may_use || !may_call(id) {
        return Err((
            "You lack USAGE on the schema of the extension, or EXECUTE on its functions.",
            "Grant USAGE on that schema, and EXECUTE on its functions, to the role.",
        ));
    }
    Ok(IdFunction { schema, oid: id })
}

/// Whether the current user may look into a schema.
fn may_use_schema(schema: Oid) -> bool {
    let arguments = [schema.into_datum(), "USAGE".into_datum()];
    // SAFETY: takes the OID of a schema and a text, and gives a boolean, or NULL if there is no such schema.
    let may: Option<bool> = unsafe { pgrx::direct_function_call(pg_sys::has_schema_privilege_id, &arguments) };
    may == Some(true)
}
