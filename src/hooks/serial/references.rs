//! The columns of a statement that are narrower than the bigint that they reference by a foreign key, or that a parent
//! has.
//!
//! They become wider before there is a key. Afterwards, ALTER TABLE would recreate the key, and lock the table that it
//! references against readers.

use super::column::Column;
use super::family::{self, columns_with_ids, open};
use super::statement::{FOREIGN_KEY, Statement};
use crate::hooks::tree::strings;
use crate::postgres::catalog::{c_string, column_type, find_relation, is_narrow, is_table};
use pgrx::PgRelation;
use pgrx::pg_sys::{self, ConstrType, Constraint, Oid};
use std::collections::BTreeMap;
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
    /// Columns that cannot become wider, and the tables whose columns must have the same type.
    pub left: BTreeMap<CString, String>,
}

impl ColumnsToWiden {
    /// Finds the columns of a statement. The columns in `wide` become bigint anyway.
    pub fn find(statement: &Statement, wide: &[usize]) -> Self {
        let mut columns = Self::default();
        for name in statement.parents.iter().flat_map(|&parent| columns_with_ids(find_relation(parent))) {
            columns.add(statement, wide, &name, family::WHY);
        }
        // A key can reference a column of the same table that becomes wider by another key.
        loop {
            let count = columns.new.len() + columns.existing.len();
            for key in keys(statement) {
                for (referring, of_type) in key.pairs(statement, |name| columns.type_of(statement, wide, name)) {
                    if of_type == pg_sys::INT8OID {
                        columns.add(statement, wide, &referring, WHY);
                    }
                }
            }
            if columns.new.len() + columns.existing.len() == count {
                return columns;
            }
        }
    }

    /// The type that a column of the statement's table will have, as far as is known.
    fn type_of(&self, statement: &Statement, wide: &[usize], name: &CStr) -> Oid {
        let is_wide =
            |column: &Column| wide.contains(&column.nth) || self.new.iter().any(|&(nth, _)| nth == column.nth);
        if statement.new_column(name).is_some_and(is_wide)
            || self.existing.iter().any(|column| column.as_c_str() == name)
        {
            return pg_sys::INT8OID;
        }
        statement.type_of(name)
    }

    /// Adds the column of this name, if it is narrower than a bigint, and nobody numbers it.
    fn add(&mut self, statement: &Statement, wide: &[usize], name: &CStr, why: &'static str) {
        let column = statement.new_column(name);
        if !is_narrow(self.type_of(statement, wide, name)) || column.is_some_and(Column::is_identity) {
            return;
        }
        match (column, statement.merged_with(name)) {
            (None, _) if !statement.creates => self.existing.push(name.to_owned()),
            (_, Some(other)) => {
                self.left.insert(name.to_owned(), other);
            }
            (Some(column), None) => self.new.push((column.nth, why)),
            (None, None) => {}
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
    let of_columns =
        statement.columns.iter().filter(|column| !statement.has_already(column)).flat_map(move |column| {
            column.constraints(FOREIGN_KEY).map(move |constraint| key(constraint, Some(column)))
        });
    let of_table = statement.constraints.iter().map(move |&constraint| key(constraint, None));
    of_columns.chain(of_table.filter(|key| key.constraint.contype == FOREIGN_KEY))
}

impl Key<'_> {
    /// Each referencing column, with the type of the column that it references. The types of the statement's own table
    /// are those that `own_type` gives.
    fn pairs(&self, statement: &Statement, own_type: impl Fn(&CStr) -> Oid) -> Vec<(CString, Oid)> {
        // SAFETY: the names in a constraint are strings.
        let names = |list| unsafe { strings(list) }.map(CStr::to_owned).collect::<Vec<_>>();
        let referring =
            self.column.map_or_else(|| names(self.constraint.fk_attrs), |column| vec![column.name().to_owned()]);
        let (is_itself, other) = (statement.is_itself(self.constraint.pktable), find_relation(self.constraint.pktable));
        let referenced = match names(self.constraint.pk_attrs) {
            named if !named.is_empty() => named,
            _ if is_itself => own_primary_key(statement),
            _ => primary_key(other),
        };
        let type_of = |name: CString| if is_itself { own_type(&name) } else { column_type(other, &name) };
        referring.into_iter().zip(referenced.into_iter().map(type_of)).collect()
    }
}

/// The columns of the primary key that the statement's table will have.
fn own_primary_key(statement: &Statement) -> Vec<CString> {
    let kind = ConstrType::CONSTR_PRIMARY;
    if let Some(column) = statement.columns.iter().find(|column| column.constraint(kind).is_some()) {
        return vec![column.name().to_owned()];
    }
    // SAFETY: constraints of the statement, with lists of strings.
    let key = statement.constraints.iter().map(|&constraint| unsafe { &*constraint }).find(|key| key.contype == kind);
    match key {
        // SAFETY: names.
        Some(key) => unsafe { strings(key.keys) }.map(CStr::to_owned).collect(),
        None => statement.origins().map(primary_key).find(|key| !key.is_empty()).unwrap_or_default(),
    }
}

/// The columns of the primary key of a table.
fn primary_key(table: Oid) -> Vec<CString> {
    let Some(table) = Some(table).filter(|&table| is_table(table)).and_then(open) else { return Vec::new() };
    let lock = 1; // AccessShareLock
    // SAFETY: a table, and its index. The list of its indexes tells which one is that of the primary key, if it has
    // one.
    unsafe {
        pg_sys::RelationGetIndexList(table.as_ptr());
        let index = (*table.as_ptr()).rd_pkindex;
        if index == Oid::INVALID {
            return Vec::new();
        }
        let index = PgRelation::with_lock(index, lock);
        let index = &*(*index.as_ptr()).rd_index;
        let columns = index.indkey.values.as_slice(usize::try_from(index.indnkeyatts).unwrap_or(0));
        columns.iter().map(|&column| c_string(pg_sys::get_attname(table.oid(), column, false))).collect()
    }
}
