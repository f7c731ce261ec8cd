//! A new column: whether PostgreSQL would number it, and how it becomes one with Snowflake IDs.

use super::statement::{cast, nodes};
use crate::catalog::identifier;
use crate::server_encoding::{characters, quoted};
use pgrx::PgList;
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, ColumnDef, ConstrType, Constraint, DefElem, Node, NodeTag, Oid, RawStmt,
    TypeName,
};
use std::ffi::{CStr, CString};

/// A column of a statement.
pub struct Column {
    definition: *mut ColumnDef,
    /// Its place among the new columns.
    pub nth: usize,
    /// Whether IF NOT EXISTS is said of it.
    pub unless_exists: bool,
}

/// What are no types, but a short way to say integer with a sequence: see PostgreSQL's `transformColumnDefinition()`.
const SERIALS: [&[u8]; 6] = [b"smallserial", b"serial2", b"serial", b"serial4", b"bigserial", b"serial8"];
const BIG_SERIALS: [&[u8]; 2] = [b"bigserial", b"serial8"];

/// The greatest value of each type that can be numbered. A sequence that ends there was given no end.
const ENDS: [i64; 3] = [i16::MAX as i64, i32::MAX as i64, i64::MAX];

impl Column {
    /// # Safety
    ///
    /// A column as PostgreSQL's parser makes it, for as long as this is used.
    pub unsafe fn new(definition: *mut ColumnDef, nth: usize, unless_exists: bool) -> Self {
        Self { definition, nth, unless_exists }
    }

    /// Whether PostgreSQL would number it by a new sequence. No if it would refuse the column.
    pub fn is_numbered(&self) -> bool {
        let has = |kind| self.constraint(kind).is_some();
        if has(ConstrType::CONSTR_DEFAULT) || has(ConstrType::CONSTR_GENERATED) {
            return false;
        }
        match (self.serial(), has(ConstrType::CONSTR_IDENTITY)) {
            (Some(_), is_identity) => !is_identity,
            (None, true) => [pg_sys::INT2OID, pg_sys::INT4OID, pg_sys::INT8OID].contains(&self.type_id()),
            (None, false) => false,
        }
    }

    /// Whether it would be a bigint.
    pub fn is_bigint(&self) -> bool {
        self.serial().map_or_else(|| self.type_id() == pg_sys::INT8OID, |name| BIG_SERIALS.contains(&name))
    }

    /// The option of its identity that says which numbers the rows get, if its author has written one.
    pub fn option_of_sequence(&self) -> Option<&'static str> {
        let identity = self.constraint(ConstrType::CONSTR_IDENTITY)?;
        // SAFETY: the options of an identity are a list of such nodes.
        let mut options = unsafe { nodes((*identity).options).filter_map(|node| cast(node, NodeTag::T_DefElem)) };
        // SAFETY: such a node.
        options.find_map(|option| unsafe { option_that_counts(option) })
    }

    /// Its first constraint of a kind.
    pub fn constraint(&self, kind: ConstrType::Type) -> Option<*mut Constraint> {
        // SAFETY: the constraints of a column are a list of such nodes.
        unsafe {
            let mut constraints = nodes((*self.definition).constraints)
                .filter_map(|node| cast::<Constraint>(node, NodeTag::T_Constraint));
            constraints.find(|&constraint| (*constraint).contype == kind)
        }
    }

    /// The name of a serial type.
    fn serial(&self) -> Option<&'static [u8]> {
        let of = self.type_name()?;
        if of.pct_type || of.setof || !of.arrayBounds.is_null() {
            return None;
        }
        // SAFETY: the parts of a name are a list of strings.
        let mut parts = unsafe { nodes(of.names) };
        let (Some(name), None) = (parts.next(), parts.next()) else { return None };
        // SAFETY: a string.
        let name = unsafe { CStr::from_ptr((*name.cast::<pg_sys::String>()).sval) };
        SERIALS.into_iter().find(|&serial| serial == name.to_bytes())
    }

    /// Its type; the invalid OID if there is none.
    fn type_id(&self) -> Oid {
        // SAFETY: takes such a node.
        self.type_name().map_or(Oid::INVALID, |of| unsafe { pg_sys::LookupTypeNameOid(std::ptr::null_mut(), of, true) })
    }

    /// `None` for a column of a partition, or of a table of a composite type.
    fn type_name(&self) -> Option<&TypeName> {
        // SAFETY: a column has such a node, or null.
        unsafe { (*self.definition).typeName.as_ref() }
    }

    /// Its name.
    pub fn name(&self) -> &CStr {
        // SAFETY: a column has a name.
        unsafe { CStr::from_ptr((*self.definition).colname) }
    }

    /// Its name, for messages.
    pub fn display(&self) -> String {
        quoted(&characters(self.name().to_bytes()))
    }

    /// Becomes `bigint DEFAULT snowflake_id() NOT NULL`, with its other constraints.
    ///
    /// # Safety
    ///
    /// Nobody else reads the column at the same time. The function is in this schema.
    pub unsafe fn become_bigint(&self, schema: &CStr) {
        // SAFETY: as the caller's. Lists of such nodes.
        unsafe {
            let other = parsed(schema);
            let mut constraints = PgList::<Node>::new();
            let own = nodes((*self.definition).constraints).filter(|&node| {
                cast::<Constraint>(node, NodeTag::T_Constraint)
                    .is_none_or(|constraint| (*constraint).contype != ConstrType::CONSTR_IDENTITY)
            });
            own.chain(nodes((*other).constraints)).for_each(|constraint| constraints.push(constraint));
            (*self.definition).typeName = (*other).typeName;
            (*self.definition).constraints = constraints.into_pg();
        }
    }
}

/// A column with what another one is to have. PostgreSQL's parser makes the nodes, whose fields differ between versions.
fn parsed(schema: &CStr) -> *mut ColumnDef {
    let schema = identifier(schema);
    let text = [b"ALTER TABLE t ADD c pg_catalog.int8 DEFAULT ", schema.as_slice(), b".snowflake_id() NOT NULL"];
    let text = CString::new(text.concat()).expect("a name, which has no zero byte");
    // SAFETY: takes a C string, and gives a list of one statement with one command, that with the column.
    unsafe {
        let statement = nodes(pg_sys::raw_parser(text.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_DEFAULT)).next();
        let alter = (*statement.expect("a statement").cast::<RawStmt>()).stmt.cast::<AlterTableStmt>();
        let command = nodes((*alter).cmds).next().expect("a command").cast::<AlterTableCmd>();
        (*command).def.cast()
    }
}

/// The SQL of an option of an identity, unless it is as if it were not written. Some clients write all options.
///
/// # Safety
///
/// An option of an identity.
unsafe fn option_that_counts(option: *mut DefElem) -> Option<&'static str> {
    // SAFETY: as the caller's. The argument is a number, a truth value, or null. An ERROR is that of the statement.
    unsafe {
        let number = || (!(*option).arg.is_null()).then(|| pg_sys::defGetInt64(option));
        let (sql, counts) = match CStr::from_ptr((*option).defname).to_bytes() {
            b"start" => ("START WITH", number() != Some(1)),
            b"increment" => ("INCREMENT BY", number() != Some(1)),
            b"minvalue" => ("MINVALUE", number().is_some_and(|number| number != 1)),
            b"maxvalue" => ("MAXVALUE", number().is_some_and(|number| !ENDS.contains(&number))),
            b"cycle" => ("CYCLE", pg_sys::defGetBoolean(option)),
            // Its name, and how many numbers a session takes at once.
            _ => return None,
        };
        counts.then_some(sql)
    }
}
