//! Functions and tables in the system catalogs, and their names.

use pgrx::pg_sys::Oid;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;
use pgrx::{FromDatum, IntoDatum, PgList, direct_function_call};
use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char, c_int};

// pgrx has no bindings for catalog/pg_inherits.h.
unsafe extern "C-unwind" {
    fn find_inheritance_children(parent: Oid, lock: pg_sys::LOCKMODE) -> *mut pg_sys::List;
}

/// A row of a system cache.
pub struct CachedRow {
    cache: c_int,
    row: pg_sys::HeapTuple,
}

impl CachedRow {
    /// Looks for a row by its only key.
    ///
    /// # Safety
    ///
    /// The cache has a single key, of this type.
    pub unsafe fn find(cache: pg_sys::SysCacheIdentifier::Type, key: impl Into<pg_sys::Datum>) -> Option<Self> {
        // A small number, whose type differs between versions.
        let cache = c_int::try_from(cache).unwrap_or(-1);
        // SAFETY: as the caller's.
        let row = unsafe { pg_sys::SearchSysCache1(cache, key.into()) };
        (!row.is_null()).then(|| Self { cache, row })
    }

    /// The value of a column, as long as this exists; `None` is NULL.
    ///
    /// # Safety
    ///
    /// The rows of the cache have this column.
    pub unsafe fn column(&self, number: u32) -> Option<pg_sys::Datum> {
        let mut is_null = false;
        let number = i16::try_from(number).unwrap_or(-1);
        // SAFETY: as the caller's, and the row is of this cache.
        let value = unsafe { pg_sys::SysCacheGetAttr(self.cache, self.row, number, &raw mut is_null) };
        (!is_null).then_some(value)
    }
}

impl Drop for CachedRow {
    fn drop(&mut self) {
        // SAFETY: `find` found it.
        unsafe { pg_sys::ReleaseSysCache(self.row) };
    }
}

/// The function with this name and these argument types in the schema of another function; the invalid OID if there is
/// none.
pub fn sibling_function(function: Oid, name: &CStr, arguments: &[Oid]) -> Oid {
    let count = c_int::try_from(arguments.len()).expect("a function's arguments");
    // Small numbers, whose types differ between versions.
    let cache = i32::try_from(pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP).unwrap_or(-1);
    let column = i16::try_from(pg_sys::Anum_pg_proc_oid).unwrap_or(-1);
    // SAFETY: the function exists, since it is being called. There are as many types as `count` says. The cache has
    // these keys: a name, types and a schema.
    unsafe {
        let schema = pg_sys::get_func_namespace(function);
        let arguments = pg_sys::buildoidvector(arguments.as_ptr(), count);
        // Not LookupFuncName(): it requires USAGE on the schema, which a role that merely uses a default may lack.
        pg_sys::GetSysCacheOid(cache, column, name.as_ptr().into(), arguments.into(), schema.into(), 0.into())
    }
}

/// Whether a function belongs to this extension. Other functions can have the same name.
pub fn is_ours(function: Oid) -> bool {
    // SAFETY: these look for a C string, and for any OID, in the catalog.
    let (extension, owner) = unsafe {
        let extension = pg_sys::get_extension_oid(c"snowflake_pg".as_ptr(), true);
        (extension, pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, function))
    };
    extension != Oid::INVALID && owner == extension
}

/// The name of a function; `None` if there is none.
pub fn function_name(function: Oid) -> Option<CString> {
    // SAFETY: takes any OID, and gives a C string, or null.
    let name = unsafe { pg_sys::get_func_name(function) };
    (!name.is_null()).then(|| c_string(name))
}

/// The role that owns a function; `None` if there is none.
pub fn function_owner(function: Oid) -> Option<Oid> {
    // SAFETY: the cache has this key, and its rows this column.
    let owner = unsafe {
        CachedRow::find(pg_sys::SysCacheIdentifier::PROCOID, function)?.column(pg_sys::Anum_pg_proc_proowner)
    };
    // SAFETY: the column is an OID.
    unsafe { Oid::from_datum(owner?, false) }
}

/// Whether the current user may call a function.
pub fn may_call(function: Oid) -> bool {
    let may: Option<bool> =
        // SAFETY: takes the OID of a function and a text, and gives a boolean, or NULL if there is no such function.
        unsafe { direct_function_call(pg_sys::has_function_privilege_id, &[function.into_datum(), "EXECUTE".into_datum()]) };
    // mutant: copy-rights
    may == Some(true)
}

/// Whether every role may call a function.
pub fn everybody_may_call(function: Oid) -> bool {
    let arguments = [pg_sys::Oid::INVALID.into_datum(), function.into_datum(), "EXECUTE".into_datum()];
    let may: Option<bool> =
        // SAFETY: takes the OIDs of a role, the invalid one being PUBLIC, and of a function, and a text; gives a
        // boolean, or NULL if there is no such function.
        unsafe { direct_function_call(pg_sys::has_function_privilege_id_id, &arguments) };
    may == Some(true)
}

/// The schema-qualified name of a table, as in commands; `None` if another session has dropped it.
pub fn name_of_table(table: pg_sys::Oid) -> Option<Vec<u8>> {
    // SAFETY: these take any OID, and give null, or 0, if the catalog has none.
    let (name, schema) =
        unsafe { (pg_sys::get_rel_name(table), pg_sys::get_namespace_name(pg_sys::get_rel_namespace(table))) };
    (!name.is_null() && !schema.is_null()).then(|| qualified(&c_string(schema), &c_string(name)))
}

/// The relation of this name; the invalid OID if there is none. Requires no privilege: `search_path` leaves out schemas
/// without USAGE, but PostgreSQL checks a schema that is named only when it runs the statement.
pub fn find_relation(name: *mut pg_sys::RangeVar) -> Oid {
    // SAFETY: takes nodes of this type, whose names are C strings, or null for no schema.
    unsafe {
        let (schema, name) = ((*name).schemaname, (*name).relname);
        if schema.is_null() {
            pg_sys::RelnameGetRelid(name)
        } else {
            pg_sys::get_relname_relid(name, pg_sys::LookupNamespaceNoError(schema))
        }
    }
}

/// The schemas where PostgreSQL looks for a relation of this name, in this order.
pub fn schemas(name: *mut pg_sys::RangeVar) -> Vec<Oid> {
    let with_implicit = true;
    // SAFETY: as above. Gives a list of OIDs.
    unsafe {
        let schema = (*name).schemaname;
        if schema.is_null() {
            PgList::<Oid>::from_pg(pg_sys::fetch_search_path(with_implicit)).iter_oid().collect()
        } else {
            vec![pg_sys::LookupNamespaceNoError(schema)]
        }
    }
}

/// Whether this is a table.
pub fn is_table(relation: Oid) -> bool {
    // SAFETY: takes any OID.
    let kind = relation_kind(unsafe { pg_sys::get_rel_relkind(relation) });
    [pg_sys::RELKIND_RELATION, pg_sys::RELKIND_PARTITIONED_TABLE].contains(&kind)
}

/// The number of the column of this name; 0 if there is none.
pub fn column_number(table: Oid, column: &CStr) -> i16 {
    // SAFETY: takes any OID and a C string.
    unsafe { pg_sys::get_attnum(table, column.as_ptr()) }
}

/// Whether a table has a column of this name.
pub fn has_column(table: Oid, column: &CStr) -> bool {
    column_number(table, column) != 0
}

/// The type of the column of this name; the invalid OID if there is none.
pub fn column_type(table: Oid, column: &CStr) -> Oid {
    // SAFETY: takes any OID and a number, which may be that of no column.
    unsafe { pg_sys::get_atttype(table, column_number(table, column)) }
}

/// Whether this is an integer type that is narrower than bigint.
pub fn is_narrow(type_oid: Oid) -> bool {
    [pg_sys::INT2OID, pg_sys::INT4OID].contains(&type_oid)
}

/// A table with all that inherit from it, its partitions among them.
pub fn with_children(table: Oid) -> Vec<Oid> {
    let no_lock = 0;
    let mut tables = vec![table];
    let mut known = HashSet::from([table]);
    let mut next = 0;
    while let Some(&parent) = tables.get(next) {
        next += 1;
        // Without a lock, a child can have been dropped since its parent was read; PostgreSQL takes that for an error.
        // SAFETY: looks for any OID in the catalog, and gives a list of OIDs. An ERROR passes only frames of C.
        let children = unsafe {
            if pg_sys::get_rel_relkind(parent) == 0 {
                continue;
            }
            let look = || find_inheritance_children(parent, no_lock);
            PgList::<Oid>::from_pg(pg_guard_ffi_boundary(look))
        };
        tables.extend(children.iter_oid().filter(|&child| known.insert(child)));
    }
    tables
}

/// What decides in which partition a row is.
pub struct PartitionKey {
    /// The numbers of columns; 0 is an expression.
    pub columns: Vec<i16>,
    /// The expressions, in which the table is number 1.
    pub expressions: Option<*mut pg_sys::Node>,
}

/// The partition key of a table; `None` if it has none.
pub fn partition_key(table: Oid) -> Option<PartitionKey> {
    // SAFETY: the cache has this key, and its rows these columns, of these types.
    unsafe {
        let row = CachedRow::find(pg_sys::SysCacheIdentifier::PARTRELID, table)?;
        let columns = row.column(pg_sys::Anum_pg_partitioned_table_partattrs).map(|columns| numbers(columns));
        let expressions = row.column(pg_sys::Anum_pg_partitioned_table_partexprs).map(|text| expression(text));
        Some(PartitionKey { columns: columns.unwrap_or_default(), expressions })
    }
}

/// The numbers of columns.
///
/// # Safety
///
/// An `int2vector`.
pub unsafe fn numbers(columns: pg_sys::Datum) -> Vec<i16> {
    // SAFETY: as the caller's.
    unsafe {
        let columns = columns.cast_mut_ptr::<pg_sys::int2vector>();
        (*columns).values.as_slice(usize::try_from((*columns).dim1).unwrap_or(0)).to_vec()
    }
}

/// The expression, or the list of them, with this text, as the planner has it.
///
/// # Safety
///
/// A text of a node.
pub unsafe fn expression(text: pg_sys::Datum) -> *mut pg_sys::Node {
    // SAFETY: as the caller's.
    unsafe {
        let expression = pg_sys::stringToNode(pg_sys::text_to_cstring(text.cast_mut_ptr())).cast();
        pg_sys::eval_const_expressions(std::ptr::null_mut(), expression)
    }
}

/// The name of a type, for messages; `???` if there is none.
pub fn type_name(type_oid: Oid) -> CString {
    let (no_modifier, flags) = (-1, u16::try_from(pg_sys::FORMAT_TYPE_ALLOW_INVALID).expect("a flag"));
    // SAFETY: takes any OID by this flag, and returns a C string.
    c_string(unsafe { pg_sys::format_type_extended(type_oid, no_modifier, flags) })
}

/// The kind of a relation, to be compared with `RELKIND_RELATION` and the like. C's `char` is signed on x86-64, and not
/// on arm64.
pub fn relation_kind(kind: c_char) -> u8 {
    u8::from_ne_bytes(kind.to_ne_bytes())
}

/// A copy of a C string that PostgreSQL has just returned.
pub fn c_string(text: *const c_char) -> CString {
    assert!(!text.is_null(), "a name");
    // SAFETY: every caller passes a C string that PostgreSQL has just returned.
    unsafe { CStr::from_ptr(text) }.to_owned()
}

/// A name as a quoted identifier.
pub fn identifier(name: &CStr) -> Vec<u8> {
    // SAFETY: takes a C string, and returns one.
    c_string(unsafe { pg_sys::quote_identifier(name.as_ptr()) }).into_bytes()
}

/// A schema-qualified name, as in commands.
pub fn qualified(schema: &CStr, name: &CStr) -> Vec<u8> {
    [&identifier(schema), b".".as_slice(), &identifier(name)].concat()
}
