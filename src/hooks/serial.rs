//! Serial and identity columns of new tables get Snowflake IDs, in the schemas of `snowflake_pg.serial_schemas`.
//!
//! A column of CREATE TABLE or ADD COLUMN that PostgreSQL would number by a new sequence becomes
//! `bigint DEFAULT snowflake_id() NOT NULL`, and one that refers to a bigint by a foreign key a bigint. The statement is
//! changed before PostgreSQL runs it, so that there never is a sequence. It says nothing then that its user could not have
//! written.
//!
//! What no statement can say is done beside it: columns that a table already has become wider before, by
//! `snowflake_widen()`. Afterwards, `snowflake_finish_table()` gives the default to columns that LIKE has copied with their
//! identity, and to those of a partition that was attached. Messages come afterwards, too: not if PostgreSQL refuses the
//! statement.

mod column;
mod family;
mod references;
mod rest;
mod statement;

use crate::config::gucs;
use crate::postgres::catalog::{beside, may_call};
use crate::postgres::command::run;
use column::Column;
use family::{columns_with_default, narrower};
use pgrx::pg_sys::{self, Datum, Oid, PlannedStmt};
use pgrx::prelude::*;
use references::Narrow;
pub use rest::{Rest, explain, finish};
use rest::{Said, readable};
use statement::{Statement, display, find};
use std::ffi::{CStr, CString, c_char};

/// The functions of the extension that are called here.
struct Ours {
    schema: CString,
    id: Oid,
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
    let mut said = Vec::new();
    let ours = match ours() {
        Ok(ours) => ours,
        Err((detail, hint)) => {
            let lacks = |column: &Column| format!("{} gets no Snowflake IDs", table.display(column.name()));
            rest.say(numbered().map(|column| Said::warning(lacks(column), detail.to_owned(), hint)).collect());
            return statement;
        }
    };
    let chosen: Vec<usize> =
        numbered().filter(|column| is_to_change(&table, column, &mut said)).map(|column| column.nth).collect();
    let mut narrow = Narrow::default();
    if !is_restoring() {
        narrow = Narrow::of(&table, &chosen, ours.id);
        if let Some(altered) = table.table().filter(|_| !narrow.existing.is_empty()) {
            let reason = widen(&ours, altered, &narrow.existing);
            said.extend(narrow.existing.iter().map(|column| of_existing(&table, column, &reason)));
        }
        join(&table, &ours, rest, &mut said);
    }
    if !table.sources.is_empty() {
        let columns = texts(table.columns.iter().map(Column::name));
        rest.call(
            ours.finish,
            (table.relation, schema),
            columns,
            oids(table.sources.iter().map(|&source| find(source))),
        );
    }
    let new = |nth: usize| &table.columns[nth];
    said.extend(narrow.new.iter().map(|&(nth, why)| becomes(&table.display(new(nth).name()), why)));
    rest.say(said);
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
    for (nth, _) in narrow.new {
        // SAFETY: a copy of our own.
        unsafe { columns[nth].become_bigint() };
    }
    copy
}

/// Gives a child the types of the parent that the statement gives it, and a partition its defaults.
fn join(table: &Statement, ours: &Ours, rest: &mut Rest, said: &mut Vec<Said>) {
    let Some((named, parent)) = table.joined else { return };
    let [child, parent] = [named, parent].map(find);
    let columns = narrower(child, columns_with_default(parent, ours.id));
    if !columns.is_empty() {
        let reason = widen(ours, child, &columns);
        if reason.is_empty() {
            said.extend(columns.iter().map(|column| becomes(&display(named, column), family::WHY)));
        } else {
            rest.explain(child, &columns, &reason);
        }
    }
    if table.attaches {
        let none = texts(std::iter::empty());
        rest.call(ours.finish, (named, Oid::INVALID), none, oids(std::iter::once(parent)));
    }
}

/// Makes columns wider, which a table has. Why not, or an empty text.
fn widen(ours: &Ours, table: Oid, columns: &[CString]) -> CString {
    let columns = texts(columns.iter().map(CString::as_c_str));
    // SAFETY: the function takes the OID of a table and an array of texts, and gives a text.
    unsafe {
        let reason = pg_sys::OidFunctionCall2Coll(ours.widen, Oid::INVALID, table.into(), columns);
        CStr::from_ptr(pg_sys::text_to_cstring(reason.cast_mut_ptr())).to_owned()
    }
}

/// What is said of a column that refers, and that the table has already.
fn of_existing(table: &Statement, column: &CStr, reason: &CStr) -> Said {
    if reason.is_empty() {
        return becomes(&table.display(column), references::WHY);
    }
    Said::warning(
        format!("{} is narrower than what it refers to", table.display(column)),
        format!("It remains as it is: {}.", readable(reason)),
        "Make it a bigint, and what refers to it, before rows refer to new Snowflake IDs.",
    )
}

/// What is said of a column that becomes wider.
fn becomes(column: &str, why: &str) -> Said {
    Said::notice(format!("{column} becomes bigint"), Some(why.to_owned()), None)
}

/// Whether a column is to become a bigint with Snowflake IDs. Says so, or why not.
fn is_to_change(table: &Statement, column: &Column, said: &mut Vec<Said>) -> bool {
    let reason = column.option_of_sequence().map(|option| (format!("Its identity is declared with {option}."), None));
    let reason = reason.or_else(|| {
        if column.is_bigint() {
            return None;
        }
        if !gucs::widens_serial() {
            return Some((
                "It is narrower than bigint, and snowflake_pg.widen_serial is off.".to_owned(),
                Some(
                    "Declare it as bigserial or bigint. Or set snowflake_pg.widen_serial = on, if the application reads \
                     its keys as 64 bits.",
                ),
            ));
        }
        let other = table.merged_with(column)?;
        Some((format!("It is merged with the column of {other}, which is not of type bigint."), None))
    });
    let is_left = reason.is_some();
    let what = if is_left { "is numbered by a sequence" } else { "gets Snowflake IDs" };
    let (detail, hint) = reason.unzip();
    said.push(Said::notice(format!("{} {what}", table.display(column.name())), detail, hint.flatten()));
    !is_left
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
    let arguments = [pg_sys::REGCLASSOID, pg_sys::TEXTARRAYOID, pg_sys::OIDARRAYOID];
    let widen = beside(id, c"snowflake_widen", &arguments[..2]);
    let finish = beside(id, c"snowflake_finish_table", &arguments);
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
    Ok(Ours { schema, id, widen, finish })
}

/// Whether the current user may look into a schema.
fn may_use_schema(schema: Oid) -> bool {
    let arguments = [schema.into_datum(), "USAGE".into_datum()];
    // SAFETY: takes the OID of a schema and a text, and gives a boolean, or NULL if there is no such schema.
    let may: Option<bool> = unsafe { pgrx::direct_function_call(pg_sys::has_schema_privilege_id, &arguments) };
    may == Some(true)
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

/// An array of OIDs.
fn oids(of: impl Iterator<Item = Oid>) -> Datum {
    let mut oids: Vec<Datum> = of.map(Datum::from).collect();
    let count = i32::try_from(oids.len()).expect("tables of a statement");
    let align = pg_sys::TYPALIGN_INT.cast_signed() as c_char;
    // SAFETY: takes as many OIDs, of four bytes, as there are.
    Datum::from(unsafe { pg_sys::construct_array(oids.as_mut_ptr(), count, pg_sys::OIDOID, 4, true, align) })
}
