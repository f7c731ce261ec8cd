//! Tables that another extension has added to pg_catalog.
//!
//! Read as PostgreSQL reads its own: by any role, in any function, and what was committed last, whatever snapshot the
//! transaction has.

use super::catalog::{column_number, column_type};
use pgrx::pg_sys::{Datum, Oid};
use pgrx::prelude::*;
use std::ffi::{CStr, c_int};

/// A column: its name and its type.
pub type Column<'name> = (&'name CStr, Oid);

/// What the first column must be: a value, and the function by which values are equal. And an index by it, which makes
/// it fast if there is one.
pub struct Key<'name> {
    pub index: &'name CStr,
    pub equal: u32,
    pub value: Datum,
}

/// Reads the columns of these rows; a NULL is `None`. There are no rows if there is no such table, or if it has other
/// columns.
///
/// # Safety
///
/// The function of the key compares values of the type of the first column, which the value has.
pub unsafe fn rows_of<const COLUMNS: usize, T>(
    table: &CStr,
    columns: [Column; COLUMNS],
    key: Option<Key>,
    read: impl Fn([Option<Datum>; COLUMNS]) -> T,
) -> Vec<T> {
    let table = find(table);
    let is_there = |(name, of_type): Column| column_type(table, name) == of_type;
    if table == Oid::INVALID || !columns.iter().copied().all(is_there) {
        return Vec::new();
    }
    let numbers = columns.map(|(name, _)| column_number(table, name));
    let index = key.as_ref().map_or(Oid::INVALID, |key| find(key.index));
    let no_snapshot = std::ptr::null_mut();
    let mut rows = Vec::new();
    // SAFETY: the table exists, and has these columns, of these types. A row is there until the next one is read. After
    // an ERROR, PostgreSQL closes everything.
    unsafe {
        let relation = pg_sys::table_open(table, pg_sys::AccessShareLock.cast_signed());
        let mut condition = pg_sys::ScanKeyData::default();
        if let Some(key) = &key {
            let strategy = u16::try_from(pg_sys::BTEqualStrategyNumber).unwrap_or(0);
            pg_sys::ScanKeyInit(&raw mut condition, numbers[0], strategy, key.equal.into(), key.value);
        }
        let conditions = c_int::from(key.is_some());
        let has_index = index != Oid::INVALID;
        let scan = pg_sys::systable_beginscan(relation, index, has_index, no_snapshot, conditions, &raw mut condition);
        loop {
            let row = pg_sys::systable_getnext(scan);
            if row.is_null() {
                break;
            }
            rows.push(read(numbers.map(|number| {
                let mut is_null = false;
                let value = pg_sys::heap_getattr(row, number.into(), (*relation).rd_att, &mut is_null);
                (!is_null).then_some(value)
            })));
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(relation, pg_sys::AccessShareLock.cast_signed());
    }
    rows
}

/// A relation in pg_catalog; the invalid OID if there is none.
fn find(name: &CStr) -> Oid {
    // SAFETY: looks for a name in the catalog.
    unsafe { pg_sys::get_relname_relid(name.as_ptr(), pg_sys::PG_CATALOG_NAMESPACE.into()) }
}
