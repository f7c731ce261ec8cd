//! A CREATE TABLE or an ALTER TABLE that adds columns or constraints: what it says of them.

use super::column::Column;
use crate::catalog::{name_of_table, with_children};
use crate::server_encoding::{characters, quoted};
use pgrx::PgList;
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType, Constraint, CreateStmt, List, Node, NodeTag, Oid,
    PlannedStmt, RangeVar, TableLikeClause, TableLikeOption,
};
use std::ffi::{CStr, c_char};

/// What such a statement says.
pub struct Statement {
    relation: *mut RangeVar,
    /// New columns.
    pub columns: Vec<Column>,
    /// The tables that it inherits from.
    parents: Vec<*mut RangeVar>,
    pub has_foreign_key: bool,
    /// Whether it copies identities by LIKE.
    pub copies_identity: bool,
    creates: bool,
    if_not_exists: bool,
}

impl Statement {
    /// `None` for other statements.
    ///
    /// # Safety
    ///
    /// A statement as PostgreSQL's parser makes it.
    pub unsafe fn of(statement: *mut PlannedStmt) -> Option<Self> {
        // SAFETY: as the caller's. A node is of the type that its tag names, as are those in its lists.
        unsafe {
            let command = (*statement).utilityStmt;
            match (*command).type_ {
                NodeTag::T_CreateStmt => Some(Self::created_by(&*command.cast::<CreateStmt>())),
                NodeTag::T_AlterTableStmt => {
                    let alter = &*command.cast::<AlterTableStmt>();
                    (alter.objtype == pg_sys::ObjectType::OBJECT_TABLE).then(|| Self::altered_by(alter))
                }
                _ => None,
            }
        }
    }

    unsafe fn created_by(create: &CreateStmt) -> Self {
        let mut table = Self {
            relation: create.relation,
            columns: Vec::new(),
            // SAFETY: a list of such nodes.
            parents: unsafe { PgList::from_pg(create.inhRelations) }.iter_ptr().collect(),
            has_foreign_key: false,
            copies_identity: false,
            creates: true,
            if_not_exists: create.if_not_exists,
        };
        // SAFETY: as `of`.
        unsafe { nodes(create.tableElts) }.for_each(|element| unsafe { table.add(element, create.if_not_exists) });
        table
    }

    unsafe fn altered_by(alter: &AlterTableStmt) -> Self {
        let mut table = Self {
            relation: alter.relation,
            columns: Vec::new(),
            parents: Vec::new(),
            has_foreign_key: false,
            copies_identity: false,
            creates: false,
            if_not_exists: false,
        };
        // SAFETY: as `of`.
        unsafe {
            for command in nodes(alter.cmds).filter_map(|node| cast::<AlterTableCmd>(node, NodeTag::T_AlterTableCmd)) {
                if [AlterTableType::AT_AddColumn, AlterTableType::AT_AddConstraint].contains(&(*command).subtype) {
                    table.add((*command).def, (*command).missing_ok);
                }
            }
        }
        table
    }

    unsafe fn add(&mut self, element: *mut Node, unless_exists: bool) {
        // SAFETY: as `of`.
        unsafe {
            if let Some(column) = cast(element, NodeTag::T_ColumnDef) {
                let column = Column::new(column, self.columns.len(), unless_exists);
                self.has_foreign_key |= column.constraint(ConstrType::CONSTR_FOREIGN).is_some();
                self.columns.push(column);
            } else if let Some(constraint) = cast::<Constraint>(element, NodeTag::T_Constraint) {
                self.has_foreign_key |= (*constraint).contype == ConstrType::CONSTR_FOREIGN;
            } else if let Some(like) = cast::<TableLikeClause>(element, NodeTag::T_TableLikeClause) {
                self.copies_identity |= (*like).options & TableLikeOption::CREATE_TABLE_LIKE_IDENTITY != 0;
            }
        }
    }

    /// Whether it can have what this module changes.
    pub fn is_of_interest(&self) -> bool {
        self.has_foreign_key || self.copies_identity || self.columns.iter().any(Column::is_numbered)
    }

    /// Whether it creates nothing, since the table is there.
    pub fn is_there_already(&self) -> bool {
        self.if_not_exists && self.schema().is_some_and(|schema| self.find(schema) != Oid::INVALID)
    }

    /// Whether it does not add a column, since the table has it.
    pub fn has_already(&self, column: &Column) -> bool {
        !self.creates && column.unless_exists && has(find(self.relation), column)
    }

    /// The schema that has the table, or will have it. `None` if there is no such table.
    pub fn schema(&self) -> Option<Oid> {
        if self.creates {
            // SAFETY: takes such a node. An ERROR is that of the statement.
            return Some(unsafe { pg_sys::RangeVarGetCreationNamespace(self.relation) });
        }
        let table = find(self.relation);
        // SAFETY: takes the OID of a relation.
        (table != Oid::INVALID).then(|| unsafe { pg_sys::get_rel_namespace(table) })
    }

    fn find(&self, schema: Oid) -> Oid {
        // SAFETY: takes a C string and the OID of a schema.
        unsafe { pg_sys::get_relname_relid(self.name(), schema) }
    }

    /// The name of the table.
    pub fn name(&self) -> *const c_char {
        // SAFETY: every such node has a name.
        unsafe { (*self.relation).relname }
    }

    /// The name of another table whose column PostgreSQL merges with this one, so that both must be of one type, and
    /// which is no bigint; `None` if there is none.
    pub fn merged_with(&self, column: &Column) -> Option<String> {
        let narrow = |&table: &Oid| has(table, column) && type_of(table, column) != pg_sys::INT8OID;
        let parents = self.parents.iter().map(|&parent| find(parent));
        let children = if self.creates { Vec::new() } else { with_children(find(self.relation)) };
        let other = parents.chain(children).find(narrow)?;
        Some(characters(&name_of_table(other)?).into_owned())
    }

    /// A column, for messages.
    pub fn display(&self, column: &Column) -> String {
        // SAFETY: a C string.
        let table = unsafe { CStr::from_ptr(self.name()) };
        format!("column {} of table {}", column.display(), quoted(&characters(table.to_bytes())))
    }
}

/// The nodes of a list.
///
/// # Safety
///
/// A list of nodes, or null.
pub unsafe fn nodes(list: *mut List) -> impl Iterator<Item = *mut Node> {
    // SAFETY: as the caller's.
    let nodes: Vec<_> = unsafe { PgList::<Node>::from_pg(list) }.iter_ptr().collect();
    nodes.into_iter()
}

/// A node as the type that this tag names, if it is of that type.
///
/// # Safety
///
/// A node.
pub unsafe fn cast<T>(node: *mut Node, tag: NodeTag) -> Option<*mut T> {
    // SAFETY: as the caller's.
    (!node.is_null() && unsafe { (*node).type_ } == tag).then(|| node.cast())
}

/// The table of this name; the invalid OID if there is none.
fn find(relation: *mut RangeVar) -> Oid {
    let (lock, flags) = (0, pg_sys::RVROption::RVR_MISSING_OK);
    // SAFETY: takes such a node, and needs no callback.
    unsafe { pg_sys::RangeVarGetRelidExtended(relation, lock, flags, None, std::ptr::null_mut()) }
}

/// Whether a table has a column of this name.
fn has(table: Oid, column: &Column) -> bool {
    // SAFETY: takes any OID and a C string.
    unsafe { pg_sys::get_attnum(table, column.name().as_ptr()) != 0 }
}

/// The type of the column of this name, which the table has.
fn type_of(table: Oid, column: &Column) -> Oid {
    // SAFETY: takes any OID and a C string, and then the number of a column.
    unsafe { pg_sys::get_atttype(table, pg_sys::get_attnum(table, column.name().as_ptr())) }
}
