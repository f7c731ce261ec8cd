//! Batches of rows whose columns are copied into those beside them.

use super::caller;
use crate::postgres::catalog::name_of_table;
use crate::postgres::command::{As, must_become};
use crate::postgres::report::{error_report, raise};
use crate::postgres::unnoticed;
use pgrx::prelude::*;
use std::ffi::{CStr, CString};

/// Copies columns into the `bigint` columns beside them, by their attribute numbers, for the rows in these blocks of a
/// table, with the rights of its owner and without its triggers: a copy is no change to anybody, so no trigger is to
/// write a time or a line of an audit. Returns how many rows were copied, and how many are left since others have
/// locked them.
///
/// Code of the owner that the copy calls, such as a CHECK, finds nothing that other commands of the owner do not find.
#[pg_extern(sql = false)]
fn snowflake_adopt_copy_blocks(
    relation: pg_sys::Oid,
    first: i64,
    after: i64,
    columns: Array<i16>,
    besides: Array<i16>,
) -> Vec<i64> {
    let (owner, pairs) = owner_and_pairs(relation, columns.iter().flatten().zip(besides.iter().flatten()));
    must_become(caller::role(), owner);
    let Some(table) = name_of_table(relation) else { return Vec::new() };
    let list = |between: &[u8], separator: &[u8]| {
        pairs
            .iter()
            .map(|[column, beside]| [&**beside, between, &**column].concat())
            .collect::<Vec<_>>()
            .join(separator)
    };
    let range = format!(" WHERE ctid >= '({first},0)' AND ctid < '({after},0)' AND (");
    let rows = [b" FROM ONLY ", &*table, range.as_bytes(), &list(b" IS DISTINCT FROM ", b" OR "), b")"].concat();
    let copy = [
        b"UPDATE ONLY ",
        &*table,
        b" SET ",
        &list(b" = ", b", "),
        b" WHERE ctid = ANY (ARRAY(SELECT ctid",
        &rows,
        b" FOR NO KEY UPDATE SKIP LOCKED))",
    ];
    let left = [b"SELECT", &*rows].concat();
    // mutant: copy-as-owner
    let _owner = As::restricted(owner);
    let run = |query| unnoticed::run(&CString::new(query).expect("no zero byte")).cast_signed();
    caller::aside(|| [copy.concat(), left].map(run)).to_vec()
}

/// The owner of a table, and the quoted names of such pairs of columns.
fn owner_and_pairs(relation: pg_sys::Oid, pairs: impl Iterator<Item = (i16, i16)>) -> (pg_sys::Oid, Vec<[Vec<u8>; 2]>) {
    // SAFETY: the relation is open while its description is read, and locked until the end of the transaction, so that
    // its name stays.
    unsafe {
        let table = pg_sys::relation_open(relation, pg_sys::RowExclusiveLock.cast_signed());
        let description = pgrx::PgTupleDesc::from_pg_unchecked((*table).rd_att);
        let name = |number: i16, types: &[pg_sys::Oid]| {
            let attribute = usize::try_from(number).ok().and_then(|number| description.get(number.checked_sub(1)?));
            let Some(attribute) = attribute.filter(|attribute| types.contains(&attribute.atttypid)) else {
                raise(error_report(PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH, "columns are not of the expected types"))
            };
            CStr::from_ptr(pg_sys::quote_identifier(attribute.attname.data.as_ptr())).to_bytes().to_vec()
        };
        let pairs = pairs
            .map(|(column, beside)| {
                [name(column, &[pg_sys::INT2OID, pg_sys::INT4OID]), name(beside, &[pg_sys::INT8OID])]
            })
            .collect();
        let owner = (*(*table).rd_rel).relowner;
        pg_sys::relation_close(table, pg_sys::NoLock.cast_signed());
        (owner, pairs)
    }
}
