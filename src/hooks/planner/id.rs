//! IDs in expressions.

use crate::config::layout_cache;
use crate::hooks::tree::cast;
use pgrx::pg_sys::{self, INT8OID, Node, NodeTag, Oid, RelabelType, TEXTOID, Var};
use pgrx::{FromDatum, IntoDatum, PgList};
use snowflake_core::id::layout::Layout;

/// `datetime_ops` of B-trees, which compares times of each type with each other (pg_opfamily.dat).
pub const DATETIME: Oid = Oid::from_u32(434);

/// An ID whose time an expression is.
#[derive(Clone, Copy)]
pub struct TimeOf {
    /// A column that the query sees; a `bigint`, or of a type that is one.
    pub id: *mut Var,
    /// The constant that names the layout.
    pub layout: *mut Node,
    /// Whether the time is a `timestamp`, in UTC.
    pub in_utc: bool,
    /// Whether a function of ours gives it, which refuses what is no ID.
    pub is_called: bool,
    /// Whether rows may come from a foreign server.
    pub is_foreign: bool,
}

/// The column that an expression of an ID is, as it is or as a `bigint`.
///
/// # Safety
///
/// An expression.
pub unsafe fn column(node: *mut Node) -> Option<*mut Var> {
    // SAFETY: a node is of the type that its tag names.
    unsafe {
        let node = cast::<RelabelType>(node, NodeTag::T_RelabelType).map_or(node, |same| (*same).arg.cast());
        cast(node, NodeTag::T_Var)
    }
}

/// The ID as a `bigint`.
pub fn as_bigint(id: *mut Var) -> *mut Node {
    // SAFETY: a column. The copy belongs to who asks.
    unsafe {
        let id = pg_sys::copyObjectImpl(id.cast()).cast::<Var>();
        if (*id).vartype == INT8OID {
            return id.cast();
        }
        let form = pg_sys::CoercionForm::COERCE_IMPLICIT_CAST;
        pg_sys::makeRelabelType(id.cast(), INT8OID, -1, Oid::INVALID, form).cast()
    }
}

/// The layout that this constant names.
///
/// # Safety
///
/// An expression of type text.
pub unsafe fn layout_of(layout: *mut Node) -> Option<Layout> {
    // SAFETY: as the caller's.
    let text = unsafe {
        cast::<pg_sys::Const>(layout, NodeTag::T_Const)
            .and_then(|layout| <&[u8]>::from_datum((*layout).constvalue, (*layout).constisnull))
    };
    layout_cache::by_text(text?).ok()
}

/// A constant text.
pub fn text(value: &str) -> Option<*mut Node> {
    let value = value.into_datum()?;
    // SAFETY: the value is a text, in the memory of the query.
    Some(unsafe { pg_sys::makeConst(TEXTOID, -1, pg_sys::DEFAULT_COLLATION_OID, -1, value, false, false) }.cast())
}

/// A call of a function with these arguments.
pub fn call(function: Oid, returns: Oid, arguments: Vec<*mut Node>) -> *mut Node {
    let mut list = PgList::<Node>::new();
    arguments.into_iter().for_each(|argument| list.push(argument));
    let form = pg_sys::CoercionForm::COERCE_EXPLICIT_CALL;
    // SAFETY: a call as the function is declared.
    unsafe {
        let call =
            pg_sys::makeFuncExpr(function, returns, list.into_pg(), Oid::INVALID, pg_sys::DEFAULT_COLLATION_OID, form);
        call.cast()
    }
}
