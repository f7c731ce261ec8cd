//! The columns of a statement that are narrower than the bigint that they reference by a foreign key, or that a parent
//! has.
//!
//! They become wider before there is a key. Afterwards, ALTER TABLE would recreate the key, and lock the table that it
//! references against readers.

use super::column::Column;
use super::family::{self, columns_with_default, open};
use super::statement::{FOREIGN_KEY, Statement};
use crate::hooks::tree::strings;
use crate::postgres::catalog::{column_type, find_relation, has_column, is_table};
use pgrx::PgRelation;
use pgrx::pg_sys::{self, ConstrType, Constraint, Oid};
use std::ffi::{CStr, CString};

/// Why a column becomes wider.
pub const WHY: &str = "It references a bigint.";

/// Columns that become bigint.
#[derive(Default)]
pub struct ColumnsToWiden {
    /// New columns, by their number in the statement, and why they become wider.
    pub new: Vec<(usize, &'static str)>,
    /// Columns that the table has.
    pub existing: Vec<CString>,
}

impl ColumnsToWiden {
    /// Finds the columns of a statement. The columns in `wide` become bigint anyway, and the function `id` is the
    /// default of columns with Snowflake IDs.
    pub fn find(statement: &Statement, wide: &[usize], id: Oid) -> Self {
        let mut columns = Self::default();
        for name in statement.parents.iter().flat_map(|&parent| columns_with_default(find_relation(parent), id)) {
            columns.add(statement, wide, &name, family::WHY);
        }
        // A key can reference a column of the same table that becomes wider by another key.
        loop {
            let count = columns.new.len();
            let wide: Vec<usize> = wide.iter().copied().chain(columns.new.iter().map(|&(nth, _)| nth)).collect();
            for (referring, of_type) in keys(statement).flat_map(|key| key.pairs(statement, &wide)) {
                if of_type != pg_sys::INT8OID {
                    continue;
                }
                if statement.columns.iter().any(|column| column.name() == referring.as_c_str()) {
                    columns.add(statement, &wide, &referring, WHY);
                } else if !statement.creates && !columns.existing.contains(&referring) {
                    let of_type = statement.table().map_or(Oid::INVALID, |table| column_type(table, &referring));
                    if [pg_sys::INT2OID, pg_sys::INT4OID].contains(&of_type) {
                        columns.existing.push(referring);
                    }
                }
            }
            if columns.new.len() == count {
                return columns;
            }
        }
    }

    /// Adds the new column of this name, if it is narrower than a bigint and can become one.
    fn add(&mut self, statement: &Statement, wide: &[usize], name: &CStr, why: &'static str) {
        let Some(column) = statement.columns.iter().find(|column| column.name() == name) else { return };
        let is_wide = wide.contains(&column.nth) || self.new.iter().any(|&(nth, _)| nth == column.nth);
        if !is_wide && !statement.has_already(column) && column.is_narrow() && statement.merged_with(column).is_none() {
            self.new.push((column.nth, why));
        }
    }
}

/// A foreign key, of a column or of the table.
struct Key<'statement> {
    constraint: &'statement Constraint,
    column: Option<&'statement Column>,
}

fn keys(statement: &Statement) -> impl Iterator<Item = Key<'_>> {
    // SAFETY: constraints of the statement.
    let key = |constraint: *mut Constraint, column| Key { constraint: unsafe { &*constraint }, column };
    let of_columns = statement
        .columns
        .iter()
        .flat_map(move |column| column.constraints(FOREIGN_KEY).map(move |constraint| key(constraint, Some(column))));
    let of_table = statement.constraints.iter().map(move |&constraint| key(constraint, None));
    of_columns.chain(of_table.filter(|key| key.constraint.contype == FOREIGN_KEY))
}

impl Key<'_> {
    /// Each referencing column, with the type of the column that it references.
    fn pairs(&self, statement: &Statement, wide: &[usize]) -> Vec<(CString, Oid)> {
        // SAFETY: the names in a constraint are strings, and it names a table.
        let (referring, referenced, other) = unsafe {
            let referring: Vec<_> = strings(self.constraint.fk_attrs).map(CStr::to_owned).collect();
            let referenced: Vec<_> = strings(self.constraint.pk_attrs).map(CStr::to_owned).collect();
            (referring, referenced, &mut *self.constraint.pktable)
        };
        let referring = self.column.map_or(referring, |column| vec![column.name().to_owned()]);
        let types: Vec<Oid> = if statement.creates && statement.is_itself(other) {
            let referenced = if referenced.is_empty() { primary_key(statement) } else { referenced };
            let column = |name: &CString| statement.columns.iter().find(|column| column.name() == name.as_c_str());
            let type_now =
                |column: &Column| if wide.contains(&column.nth) { pg_sys::INT8OID } else { column.type_id() };
            referenced.iter().map(|name| column(name).map_or(Oid::INVALID, type_now)).collect()
        } else {
            let other = find_relation(other);
            if referenced.is_empty() {
                types_of_primary_key(other)
            } else {
                referenced
                    .iter()
                    .map(|name| if has_column(other, name) { column_type(other, name) } else { Oid::INVALID })
                    .collect()
            }
        };
        referring.into_iter().zip(types).collect()
    }
}

/// The columns of the primary key of a new table.
fn primary_key(statement: &Statement) -> Vec<CString> {
    let kind = ConstrType::CONSTR_PRIMARY;
    if let Some(column) = statement.columns.iter().find(|column| column.constraint(kind).is_some()) {
        return vec![column.name().to_owned()];
    }
    // SAFETY: constraints of the statement, with lists of strings.
    let key = statement.constraints.iter().map(|&constraint| unsafe { &*constraint }).find(|key| key.contype == kind);
    // SAFETY: names.
    key.map(|key| unsafe { strings(key.keys) }.map(CStr::to_owned).collect()).unwrap_or_default()
}

/// The types of the columns of the primary key of a table.
fn types_of_primary_key(table: Oid) -> Vec<Oid> {
    let Some(table) = Some(table).filter(|&table| is_table(table)).and_then(open) else { return Vec::new() };
    let lock = 1; // AccessShareLock
    // SAFETY: a table, and its index. The list of its indexes tells which one is that of the primary key, if it has one.
    unsafe {
        pg_sys::RelationGetIndexList(table.as_ptr());
        let index = (*table.as_ptr()).rd_pkindex;
        if index == Oid::INVALID {
            return Vec::new();
        }
        let index = PgRelation::with_lock(index, lock);
        let index = &*(*index.as_ptr()).rd_index;
        let columns = index.indkey.values.as_slice(usize::try_from(index.indnkeyatts).unwrap_or(0));
        columns.iter().map(|&column| pg_sys::get_atttype(table.oid(), column)).collect()
    }
}
