//! A CREATE TABLE or an ALTER TABLE that adds columns or constraints: what it says of them.

use super::column::Column;
use crate::hooks::tree::{cast, nodes};
use crate::postgres::catalog::{
    column_type, find_relation, has_column, is_table, name_of_table, schemas, with_children,
};
use crate::postgres::server_encoding::{characters, quoted};
use pgrx::PgList;
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, AlterTableType, ConstrType, Constraint, CreateStmt, Node, NodeTag, Oid,
    PartitionCmd, PlannedStmt, RangeVar, TableLikeClause, TableLikeOption,
};
use std::ffi::{CStr, c_char};

/// What such a statement says.
pub struct Statement {
    /// The table.
    pub relation: *mut RangeVar,
    /// New columns.
    pub columns: Vec<Column>,
    /// Constraints of the table.
    pub constraints: Vec<*mut Constraint>,
    /// The tables that it inherits from.
    pub parents: Vec<*mut RangeVar>,
    /// The tables whose columns it copies by LIKE.
    pub copied: Vec<*mut RangeVar>,
    /// Those whose identities it copies, too.
    pub sources: Vec<*mut RangeVar>,
    /// A table that becomes a child, and its parent.
    pub joined: Option<(*mut RangeVar, *mut RangeVar)>,
    /// Whether the child becomes a partition.
    pub attaches: bool,
    /// Whether it makes the table.
    pub creates: bool,
    if_not_exists: bool,
}

impl Statement {
    /// `None` for other statements.
    ///
    /// # Safety
    ///
    /// A statement as PostgreSQL's parser makes it.
    pub unsafe fn read(planned: *mut PlannedStmt) -> Option<Self> {
        // SAFETY: as the caller's. A node is of the type that its tag names, as are those in its lists.
        unsafe {
            let command = (*planned).utilityStmt;
            match (*command).type_ {
                NodeTag::T_CreateStmt => {
                    let create = &*command.cast::<CreateStmt>();
                    let mut statement = Self::new(create.relation);
                    (statement.creates, statement.if_not_exists) = (true, create.if_not_exists);
                    statement.parents = PgList::from_pg(create.inhRelations).iter_ptr().collect();
                    nodes(create.tableElts).for_each(|element| statement.add(element, create.if_not_exists));
                    Some(statement)
                }
                NodeTag::T_AlterTableStmt => {
                    let alter = &*command.cast::<AlterTableStmt>();
                    if alter.objtype != pg_sys::ObjectType::OBJECT_TABLE {
                        return None;
                    }
                    let mut statement = Self::new(alter.relation);
                    for command in nodes(alter.cmds) {
                        let command = &*command.cast::<AlterTableCmd>();
                        if [AlterTableType::AT_AddColumn, AlterTableType::AT_AddConstraint].contains(&command.subtype) {
                            statement.add(command.def, command.missing_ok);
                        }
                        match command.subtype {
                            AlterTableType::AT_AddInherit => {
                                statement.joined = Some((alter.relation, command.def.cast()));
                            }
                            AlterTableType::AT_AttachPartition => {
                                statement.joined = Some(((*command.def.cast::<PartitionCmd>()).name, alter.relation));
                                statement.attaches = true;
                            }
                            _ => {}
                        }
                    }
                    Some(statement)
                }
                _ => None,
            }
        }
    }

    fn new(relation: *mut RangeVar) -> Self {
        Self {
            relation,
            columns: Vec::new(),
            constraints: Vec::new(),
            parents: Vec::new(),
            copied: Vec::new(),
            sources: Vec::new(),
            joined: None,
            attaches: false,
            creates: false,
            if_not_exists: false,
        }
    }

    unsafe fn add(&mut self, element: *mut Node, unless_exists: bool) {
        // SAFETY: as `read`.
        unsafe {
            if let Some(column) = cast(element, NodeTag::T_ColumnDef) {
                self.columns.push(Column::new(column, self.columns.len(), unless_exists));
            } else if let Some(constraint) = cast(element, NodeTag::T_Constraint) {
                self.constraints.push(constraint);
            } else if let Some(like) = cast::<TableLikeClause>(element, NodeTag::T_TableLikeClause) {
                self.copied.push((*like).relation);
                if (*like).options & TableLikeOption::CREATE_TABLE_LIKE_IDENTITY != 0 {
                    self.sources.push((*like).relation);
                }
            }
        }
    }

    /// Whether it can have something that this module changes.
    pub fn is_of_interest(&self) -> bool {
        !self.sources.is_empty()
            || self.joined.is_some()
            || !self.parents.is_empty() && !self.columns.is_empty()
            || self.columns.iter().any(|column| column.is_numbered() || column.constraint(FOREIGN_KEY).is_some())
            // SAFETY: a constraint of the statement.
            || self.constraints.iter().any(|&constraint| unsafe { (*constraint).contype } == FOREIGN_KEY)
    }

    /// The schema that has the table, or will have it. `None` if PostgreSQL will refuse the statement, or make nothing
    /// since the table is there.
    pub fn schema(&self) -> Option<Oid> {
        if !self.creates {
            let table = self.table()?;
            // SAFETY: takes the OID of a relation.
            return Some(unsafe { pg_sys::get_rel_namespace(table) });
        }
        // Not RangeVarGetCreationNamespace(), whose errors would have no position.
        // SAFETY: a node with these fields. The functions take C strings.
        let schema = unsafe {
            let relation = &*self.relation;
            if relation.relpersistence.to_ne_bytes() == [pg_sys::RELPERSISTENCE_TEMP] {
                return self.temporary_schema();
            }
            if relation.schemaname.is_null() {
                PgList::<Oid>::from_pg(pg_sys::fetch_search_path(false)).iter_oid().next()?
            } else if CStr::from_ptr(relation.schemaname) == c"pg_temp" {
                return self.temporary_schema();
            } else {
                pg_sys::get_namespace_oid(relation.schemaname, true)
            }
        };
        let is_there = self.if_not_exists && self.find_in(schema) != Oid::INVALID;
        (schema != Oid::INVALID && !is_there).then_some(schema)
    }

    /// As [`Self::schema`], for a temporary table. PostgreSQL makes the schema when it needs one.
    fn temporary_schema(&self) -> Option<Oid> {
        // SAFETY: takes a node of this type, which names a temporary table.
        let schema = unsafe { pg_sys::RangeVarGetCreationNamespace(self.relation) };
        (!self.if_not_exists || self.find_in(schema) == Oid::INVALID).then_some(schema)
    }

    fn find_in(&self, schema: Oid) -> Oid {
        // SAFETY: takes a C string and any OID.
        unsafe { pg_sys::get_relname_relid(self.name(), schema) }
    }

    /// The table that it alters; `None` for another kind of relation.
    pub fn table(&self) -> Option<Oid> {
        Some(find_relation(self.relation)).filter(|&table| is_table(table))
    }

    /// Whether this name, in a foreign key of the statement, means the statement's own table.
    pub fn is_itself(&self, name: *mut RangeVar) -> bool {
        if !self.creates {
            return find_relation(name) == find_relation(self.relation);
        }
        // SAFETY: every such node has a name.
        let is_named_so = unsafe { CStr::from_ptr((*name).relname) == CStr::from_ptr(self.name()) };
        let Some(schema) = self.schema().filter(|_| is_named_so) else { return false };
        // PostgreSQL looks when the table is there.
        let is_there = |&other: &Oid| other == schema || self.find_in(other) != Oid::INVALID;
        schemas(name).iter().find(|&other| is_there(other)) == Some(&schema)
    }

    /// The new column of this name.
    pub fn new_column(&self, name: &CStr) -> Option<&Column> {
        self.columns.iter().find(|column| column.name() == name && !self.has_already(column))
    }

    /// The tables that have columns of the table before the statement: the table itself, or its parents and those that
    /// it copies.
    pub fn origins(&self) -> impl Iterator<Item = Oid> {
        let itself = (!self.creates).then_some(&self.relation);
        itself.into_iter().chain(&self.parents).chain(&self.copied).map(|&table| find_relation(table))
    }

    /// The type that PostgreSQL would give to a column of the table; the invalid OID if that is not known.
    pub fn type_of(&self, column: &CStr) -> Oid {
        match self.new_column(column).filter(|column| column.has_type()) {
            Some(column) => column.type_id(),
            None => {
                let mut types = self.origins().map(|table| column_type(table, column));
                types.find(|&of_type| of_type != Oid::INVALID).unwrap_or(Oid::INVALID)
            }
        }
    }

    /// Whether it skips a column, since the table has it.
    pub fn has_already(&self, column: &Column) -> bool {
        !self.creates && column.unless_exists && has_column(find_relation(self.relation), column.name())
    }

    /// The name of the table.
    pub fn name(&self) -> *const c_char {
        // SAFETY: every such node has a name.
        unsafe { (*self.relation).relname }
    }

    /// The name of another table whose column must be of the same type, since PostgreSQL merges or copies it, and which
    /// is no bigint; `None` if there is none.
    pub fn merged_with(&self, column: &CStr) -> Option<String> {
        let is_other = |&table: &Oid| has_column(table, column) && column_type(table, column) != pg_sys::INT8OID;
        // Except the table itself, which comes first.
        let children = || with_children(find_relation(self.relation)).into_iter().skip(1).collect();
        let others: Vec<Oid> = if self.creates { self.origins().collect() } else { children() };
        let other = others.into_iter().find(is_other)?;
        Some(quoted(&characters(&name_of_table(other)?)))
    }

    /// A column, for messages.
    pub fn display(&self, column: &CStr) -> String {
        display(self.relation, column)
    }
}

/// A column of a table, for messages.
pub fn display(table: *mut RangeVar, column: &CStr) -> String {
    // SAFETY: every such node has a name.
    display_named(unsafe { CStr::from_ptr((*table).relname) }, column)
}

/// As [`display`], for a table of this name.
pub fn display_named(table: &CStr, column: &CStr) -> String {
    let [column, table] = [column, table].map(|name| quoted(&characters(name.to_bytes())));
    format!("column {column} of table {table}")
}

/// The kind of constraint.
pub const FOREIGN_KEY: ConstrType::Type = ConstrType::CONSTR_FOREIGN;
