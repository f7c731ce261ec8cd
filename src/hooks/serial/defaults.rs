//! Defaults that no statement can declare: of identities that LIKE has copied, and of an attached partition.

use super::family::defaults_with_ids;
use super::message::{Message, readable};
use super::statement::display_named;
use crate::postgres::catalog::{column_number, find_relation};
use crate::postgres::command::{Settings, rows, run};
use crate::postgres::subtransaction::attempt;
use pgrx::pg_sys::{self, Oid, RangeVar};
use std::ffi::CString;

/// The columns of a table that are to have a default when the statement has run, if they have none.
pub struct Defaults {
    /// `snowflake_id()`, which is the default unless the source's only calls another function that issues an ID.
    pub id: Oid,
    /// The table, by its name in the statement.
    pub table: *mut RangeVar,
    /// The schema where the statement makes the table; the invalid OID if the table is there.
    pub schema: Oid,
    /// The columns that the statement declares, which do not change.
    pub declared: Vec<CString>,
    /// The tables from which others come: those after LIKE, or the parent.
    pub sources: Vec<Oid>,
}

impl Defaults {
    /// Sets these defaults with the rights of the user, and reports each. The statement, which has run, does not fail
    /// if one of them does.
    pub fn set(&self) {
        // SAFETY: the name is in the statement, which is still there.
        let table = unsafe {
            if self.schema == Oid::INVALID {
                find_relation(self.table)
            } else {
                pg_sys::get_relname_relid((*self.table).relname, self.schema)
            }
        };
        // So that names in commands and reasons show their schemas.
        let _names = Settings::catalog_names();
        for [name, column, command, copied, reason] in rows(&self.columns(table)) {
            let [Some(name), Some(column), Some(command)] = [name, column, command] else { continue };
            let column = display_named(&name, &column);
            let alter = || {
                run(&[command.to_bytes()]);
            };
            let set = || attempt(alter).map_err(|message| format!("{}.", readable(&message)));
            let message = match reason.map_or_else(set, |reason| Err(readable(&reason))) {
                Ok(()) => Message::notice(format!("{column} gets Snowflake IDs"), None, None),
                Err(reason) if copied.is_some() => {
                    Message::notice(format!("{column} is numbered by a sequence"), Some(reason), None)
                }
                Err(reason) => Message::warning(format!("{column} gets no Snowflake IDs"), reason, None),
            };
            message.send();
        }
    }

    /// A query for these columns: the names of the table and the column, the command, whether LIKE has copied an
    /// identity, and the reason not to run it.
    fn columns(&self, table: Oid) -> CString {
        let id = self.id;
        let declared: Vec<_> = self.declared.iter().map(|column| column_number(table, column).to_string()).collect();
        let declared = declared.join(",");
        // An original that was made with an identity, and has a default instead. None has number 0.
        let with_ids = |&source: &Oid| {
            defaults_with_ids(source)
                .into_iter()
                .map(move |(name, is_call)| (source, column_number(source, &name), is_call))
        };
        let originals = self.sources.iter().flat_map(with_ids).chain([(Oid::INVALID, 0, false)]);
        let originals: Vec<_> = originals
            .map(|(source, number, is_call)| {
                format!("('{source}'::pg_catalog.oid, '{number}'::pg_catalog.int2, {is_call})")
            })
            .collect();
        let originals = originals.join(", ");
        let bigint = pg_sys::INT8OID;
        // The copy is to be as the original is, and a change of the type could call code of the original's owner.
        let query = format!(
            "WITH chosen(rel, num, drops, reason, call) AS (
                SELECT attrelid, attnum, pg_catalog.format('ALTER COLUMN %I DROP IDENTITY, ', attname), CASE
                    WHEN atttypid <> '{bigint}'::pg_catalog.oid THEN
                        pg_catalog.format('LIKE has copied its type, which is %s.', atttypid::pg_catalog.regtype)
                    WHEN seqstart <> 1::pg_catalog.int8 OR seqincrement <> 1::pg_catalog.int8 OR seqmin <> 1::pg_catalog.int8
                        OR seqmax <> {most}::pg_catalog.int8 OR seqcycle THEN
                        'LIKE has copied the options of its identity.' END, NULL
                FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_depend d ON refobjid = attrelid AND refobjsubid = attnum
                    AND deptype = 'i'::pg_catalog.\"char\" AND d.classid = '{pg_class}'::pg_catalog.oid
                    AND d.refclassid = '{pg_class}'::pg_catalog.oid
                JOIN pg_catalog.pg_sequence ON seqrelid = d.objid
                WHERE attrelid = '{table}'::pg_catalog.oid AND attidentity <> ''::pg_catalog.\"char\"
                    AND attinhcount = 0 AND attnum <> ALL ('{{{declared}}}'::pg_catalog.int2[])
                UNION ALL
                SELECT a.attrelid, a.attnum, NULL, NULL, original.call FROM pg_catalog.pg_class c
                JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
                JOIN LATERAL (SELECT CASE WHEN is_call THEN pg_catalog.pg_get_expr(adbin, adrelid) END AS call
                    FROM (VALUES {originals}) AS o(rel, num, is_call)
                    JOIN pg_catalog.pg_attribute s ON s.attrelid = o.rel AND s.attnum = o.num
                    JOIN pg_catalog.pg_attrdef ON adrelid = o.rel AND adnum = o.num
                    WHERE s.attname = a.attname LIMIT 1::pg_catalog.int8) AS original ON true
                WHERE (c.oid = '{table}'::pg_catalog.oid OR c.oid IN (SELECT relid::pg_catalog.oid
                        FROM pg_catalog.pg_partition_tree('{table}'::pg_catalog.oid::pg_catalog.regclass)))
                    AND relkind IN ('r'::pg_catalog.\"char\", 'p'::pg_catalog.\"char\")
                    AND a.attnum > 0::pg_catalog.int2 AND a.atttypid = '{bigint}'::pg_catalog.oid
                    AND a.attidentity = ''::pg_catalog.\"char\" AND NOT a.atthasdef
                    AND (c.oid <> '{table}'::pg_catalog.oid OR a.attnum <> ALL ('{{{declared}}}'::pg_catalog.int2[])))
            SELECT relname, attname, pg_catalog.format('ALTER TABLE ONLY %s %sALTER COLUMN %I SET DEFAULT %s',
                    rel::pg_catalog.regclass, drops, attname,
                    coalesce(call, '{id}'::pg_catalog.oid::pg_catalog.regprocedure::pg_catalog.text)),
                drops, reason
            FROM chosen JOIN pg_catalog.pg_class c ON c.oid = rel JOIN pg_catalog.pg_attribute ON attrelid = rel AND attnum = num
            ORDER BY rel, num",
            most = i64::MAX,
            pg_class = pg_sys::RelationRelationId,
        );
        CString::new(query).expect("no zero byte")
    }
}
