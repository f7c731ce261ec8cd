//! Columns that a table already has, and that must be bigint before PostgreSQL adds a foreign key or a parent.

use crate::postgres::catalog::column_number;
use crate::postgres::command::{Settings, rows, run, run_as};
use crate::postgres::subtransaction::attempt;
use pgrx::pg_sys::{self, Oid};
use std::ffi::CString;

/// Makes these columns wider, and the columns that reference them. An error says why they are unchanged: the statement
/// must not fail because of that.
pub fn widen(table: Oid, columns: &[CString]) -> Result<(), CString> {
    // So that names in reasons show their schemas.
    let _names = Settings::catalog_names();
    // ALTER TABLE will refuse it.
    let owner = owner(table).ok_or_else(|| c"you do not own it".to_owned())?;
    let steps = rows(&steps(table, columns));
    if let Some(reason) = steps.iter().find_map(|[_, reason]| reason.clone()) {
        return Err(reason);
    }
    attempt(|| {
        for command in steps.iter().filter_map(|[command, _]| command.as_deref()) {
            run_as(owner, command.to_bytes());
        }
    })
}

/// The owner of a table, if the user has the owner's rights.
fn owner(table: Oid) -> Option<Oid> {
    let query = format!(
        "SELECT relowner::pg_catalog.int8 FROM pg_catalog.pg_class
         WHERE oid OPERATOR(pg_catalog.=) '{table}'::pg_catalog.oid AND pg_catalog.pg_has_role(relowner, 'USAGE'::pg_catalog.text)"
    );
    run(&[query.as_bytes()]).and_then(|owner| u32::try_from(owner).ok()).map(Oid::from)
}

/// A query for the tables that are to be altered, this one first: the command, NULL if nothing is narrow, and the
/// reason not to run it. ALTER TABLE also rewrites children, and checks keys of tables that reference this one. All
/// must be empty and of one owner, since a CHECK or an index can call functions of the owner.
fn steps(table: Oid, columns: &[CString]) -> CString {
    let number = |column: &CString| column_number(table, column).to_string();
    let columns = columns.iter().map(number).collect::<Vec<_>>().join(",");
    let (smallint, integer) = (pg_sys::INT2OID, pg_sys::INT4OID);
    // mutant: widen-own-tables
    let query = format!(
        "WITH RECURSIVE wide(rel, num) AS (
            SELECT attrelid, attnum FROM pg_catalog.pg_attribute
            WHERE attrelid = '{table}'::pg_catalog.oid AND attnum = ANY ('{{{columns}}}'::pg_catalog.int2[])
            UNION
            SELECT conrelid, k.referring FROM wide JOIN pg_catalog.pg_constraint
                ON contype = 'f'::pg_catalog.\"char\" AND confrelid = rel
            CROSS JOIN LATERAL unnest(conkey, confkey) k(referring, referenced) WHERE k.referenced = num),
        members(rel, member) AS (
            SELECT rel, rel FROM wide
            UNION
            SELECT rel, inhrelid FROM members JOIN pg_catalog.pg_inherits ON inhparent = member),
        asked AS (SELECT relowner, relnamespace FROM pg_catalog.pg_class WHERE oid = '{table}'::pg_catalog.oid),
        altered AS (SELECT DISTINCT rel, pg_catalog.format('%s', rel::pg_catalog.regclass) AS name FROM wide)
        SELECT pg_catalog.format('ALTER TABLE %s ', name) || (
                SELECT pg_catalog.string_agg(pg_catalog.format('ALTER COLUMN %I TYPE bigint', attname), ', ' ORDER BY attnum)
                FROM wide JOIN pg_catalog.pg_attribute ON attrelid = wide.rel AND attnum = num
                WHERE wide.rel = altered.rel AND atttypid IN ('{smallint}'::pg_catalog.oid, '{integer}'::pg_catalog.oid)),
            (SELECT CASE
                WHEN pg_catalog.bool_or(pg_catalog.pg_relation_size(member) > 0::pg_catalog.int8) THEN name || ' is not empty'
                WHEN pg_catalog.bool_or(c.relowner <> asked.relowner) THEN name || ' or one of its children has another owner'
                WHEN pg_catalog.bool_or(c.relnamespace <> asked.relnamespace) THEN name || ' or one of its children is in another schema'
                END FROM members JOIN pg_catalog.pg_class c ON c.oid = member CROSS JOIN asked WHERE members.rel = altered.rel)
        FROM altered ORDER BY rel <> '{table}'::pg_catalog.oid"
    );
    CString::new(query).expect("no zero byte")
}
