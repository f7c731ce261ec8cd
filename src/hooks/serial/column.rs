//! A new column: whether PostgreSQL would number it, and how it becomes a bigint.

use crate::hooks::tree::{cast, nodes, strings};
use crate::postgres::catalog::identifier;
use crate::postgres::server_encoding::characters;
use pgrx::PgList;
use pgrx::pg_sys::{
    self, AlterTableCmd, AlterTableStmt, ColumnDef, ConstrType, Constraint, DefElem, FuncCall, Node, NodeTag, Oid,
    RawStmt, TypeName,
};
use std::ffi::{CStr, CString};

/// A column of a statement.
pub struct Column {
    definition: *mut ColumnDef,
    /// Its number among the new columns.
    pub nth: usize,
    /// Whether it is added with IF NOT EXISTS.
    pub unless_exists: bool,
}

/// Names that are not types, but abbreviations for an integer with a sequence: see PostgreSQL's
/// `transformColumnDefinition()`.
const SERIALS: [&[u8]; 6] = [b"smallserial", b"serial2", b"serial", b"serial4", b"bigserial", b"serial8"];
const BIG_SERIALS: [&[u8]; 2] = [b"bigserial", b"serial8"];

impl Column {
    /// # Safety
    ///
    /// A column as PostgreSQL's parser makes it, for as long as this is used.
    pub unsafe fn new(definition: *mut ColumnDef, nth: usize, unless_exists: bool) -> Self {
        Self { definition, nth, unless_exists }
    }

    /// Whether PostgreSQL would number it by a new sequence. No if it would refuse the column.
    pub fn is_numbered(&self) -> bool {
        let count = |kind| self.constraints(kind).count();
        if count(ConstrType::CONSTR_DEFAULT) > 0 || count(ConstrType::CONSTR_GENERATED) > 0 {
            return false;
        }
        match (self.serial(), count(ConstrType::CONSTR_IDENTITY)) {
            (Some(_), identities) => identities == 0,
            (None, 1) => self.end().is_some(),
            (None, _) => false,
        }
    }

    /// Whether it would be a bigint.
    pub fn is_bigint(&self) -> bool {
        self.serial().map_or_else(|| self.type_id() == pg_sys::INT8OID, |name| BIG_SERIALS.contains(&name))
    }

    /// Whether it declares a type, which a column of a partition and one of a table of a composite type do not.
    pub fn has_type(&self) -> bool {
        self.type_name().is_some()
    }

    /// Whether it is an identity.
    pub fn is_identity(&self) -> bool {
        self.constraint(ConstrType::CONSTR_IDENTITY).is_some()
    }

    /// The greatest value of its type, if that is a type that can be numbered.
    fn end(&self) -> Option<i64> {
        match self.type_id() {
            pg_sys::INT2OID => Some(i16::MAX.into()),
            pg_sys::INT4OID => Some(i32::MAX.into()),
            pg_sys::INT8OID => Some(i64::MAX),
            _ => None,
        }
    }

    /// The option of its identity that says which numbers the rows get, if its author has written one.
    pub fn option_of_sequence(&self) -> Option<String> {
        let (identity, end) = (self.constraint(ConstrType::CONSTR_IDENTITY)?, self.end()?);
        // SAFETY: the options of an identity are a list of such nodes.
        let options =
            unsafe { nodes((*identity).options).filter_map(|node| cast::<DefElem>(node, NodeTag::T_DefElem)) };
        let mut seen = Vec::new();
        for option in options {
            // SAFETY: such a node, whose name is a C string.
            let (name, counts) = unsafe { (CStr::from_ptr((*option).defname).to_bytes(), counts(option, end)) };
            // PostgreSQL refuses what is there twice.
            if counts || seen.contains(&name) {
                let name = match name {
                    b"start" => "START WITH".to_owned(),
                    b"increment" => "INCREMENT BY".to_owned(),
                    name => characters(name).to_uppercase(),
                };
                return Some(name);
            }
            seen.push(name);
        }
        None
    }

    /// Its first constraint of a kind.
    pub fn constraint(&self, kind: ConstrType::Type) -> Option<*mut Constraint> {
        self.constraints(kind).next()
    }

    /// Its constraints of a kind.
    pub fn constraints(&self, kind: ConstrType::Type) -> impl Iterator<Item = *mut Constraint> {
        // SAFETY: the constraints of a column are a list of such nodes.
        unsafe {
            let constraints = nodes((*self.definition).constraints)
                .filter_map(|node| cast::<Constraint>(node, NodeTag::T_Constraint));
            constraints.filter(move |&constraint| (*constraint).contype == kind)
        }
    }

    /// The name of a serial type.
    fn serial(&self) -> Option<&'static [u8]> {
        let type_name = self.type_name()?;
        if type_name.pct_type || type_name.setof || !type_name.arrayBounds.is_null() {
            return None;
        }
        // SAFETY: the parts of a name are a list of strings.
        let parts: Vec<_> = unsafe { strings(type_name.names) }.collect();
        let [name] = parts[..] else { return None };
        SERIALS.into_iter().find(|&serial| serial == name.to_bytes())
    }

    /// Its type, if it is an integer; else the invalid OID. The grammar names PostgreSQL's types with `pg_catalog`.
    /// Other schemas are not looked into, where a lookup could fail with an error that has no position.
    pub fn type_id(&self) -> Oid {
        let Some(type_name) = self
            .type_name()
            .filter(|type_name| !type_name.setof && !type_name.pct_type && type_name.arrayBounds.is_null())
        else {
            return Oid::INVALID;
        };
        // SAFETY: the parts of a name are a list of strings. The function takes such a node.
        unsafe {
            let parts: Vec<_> = strings(type_name.names).collect();
            match parts[..] {
                [_] => pg_sys::LookupTypeNameOid(std::ptr::null_mut(), type_name, true),
                [schema, name] if schema == c"pg_catalog" => match name.to_bytes() {
                    b"int2" => pg_sys::INT2OID,
                    b"int4" => pg_sys::INT4OID,
                    b"int8" => pg_sys::INT8OID,
                    _ => Oid::INVALID,
                },
                _ => Oid::INVALID,
            }
        }
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

    /// Becomes `bigint DEFAULT snowflake_id() NOT NULL`, with its other constraints.
    ///
    /// # Safety
    ///
    /// Nobody else reads the column at the same time. The function is in this schema.
    pub unsafe fn become_snowflake(&self, schema: &CStr) {
        // SAFETY: as the caller's. Lists of such nodes.
        unsafe {
            let other = parsed(schema);
            let mut constraints = PgList::<Node>::new();
            let is_identity = |&node: &*mut Node| {
                cast::<Constraint>(node, NodeTag::T_Constraint)
                    .is_some_and(|constraint| (*constraint).contype == ConstrType::CONSTR_IDENTITY)
            };
            let other_constraints = nodes((*self.definition).constraints).filter(|node| !is_identity(node));
            other_constraints.chain(nodes((*other).constraints)).for_each(|constraint| constraints.push(constraint));
            (*self.definition).typeName = (*other).typeName;
            (*self.definition).constraints = constraints.into_pg();
        }
    }

    /// Becomes a bigint; nothing else of it changes.
    ///
    /// # Safety
    ///
    /// Nobody else reads the column at the same time.
    pub unsafe fn become_bigint(&self) {
        // SAFETY: as the caller's. Gives a node of this type.
        unsafe { (*self.definition).typeName = pg_sys::SystemTypeName(c"int8".as_ptr().cast_mut()) };
    }
}

/// A column with the type and the constraints that another one gets. PostgreSQL's parser makes the nodes, whose fields
/// differ between versions.
fn parsed(schema: &CStr) -> *mut ColumnDef {
    let schema = identifier(schema);
    let text = [b"ALTER TABLE t ADD c pg_catalog.int8 DEFAULT ", schema.as_slice(), b".snowflake_id() NOT NULL"];
    let text = CString::new(text.concat()).expect("a name, which has no zero byte");
    // SAFETY: takes a C string, and gives a list of one statement with one command, that with the column. Its default
    // is a call.
    unsafe {
        let statement = nodes(pg_sys::raw_parser(text.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_DEFAULT)).next();
        let alter = (*statement.expect("a statement").cast::<RawStmt>()).stmt.cast::<AlterTableStmt>();
        let command = nodes((*alter).cmds).next().expect("a command").cast::<AlterTableCmd>();
        let column = (*command).def.cast::<ColumnDef>();
        // An error must not point to a place in the text of the user.
        (*(*column).typeName).location = -1;
        for constraint in nodes((*column).constraints) {
            let constraint = constraint.cast::<Constraint>();
            (*constraint).location = -1;
            if let Some(call) = cast::<FuncCall>((*constraint).raw_expr, NodeTag::T_FuncCall) {
                (*call).location = -1;
            }
        }
        column
    }
}

/// Whether an option of an identity says which numbers the rows get. No if it has its default value: some clients write
/// all options.
///
/// # Safety
///
/// An option of an identity.
unsafe fn counts(option: *mut DefElem, end: i64) -> bool {
    // SAFETY: as the caller's. The argument is a number, a truth value, or null. An ERROR is that of the statement.
    unsafe {
        let number = || (!(*option).arg.is_null()).then(|| pg_sys::defGetInt64(option));
        match CStr::from_ptr((*option).defname).to_bytes() {
            b"start" | b"increment" => number() != Some(1),
            b"minvalue" => number().is_some_and(|number| number != 1),
            b"maxvalue" => number().is_some_and(|number| number != end),
            b"cycle" => pg_sys::defGetBoolean(option),
            // How many numbers a session takes at once.
            b"cache" => number().is_none_or(|number| number < 1),
            b"sequence_name" => false,
            _ => true,
        }
    }
}
