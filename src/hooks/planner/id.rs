//! IDs in expressions.

use crate::hooks::tree::cast;
use pgrx::IntoDatum;
use pgrx::pg_sys::{self, INT8OID, Node, NodeTag, Oid, RelabelType, TEXTOID, Var};

/// An ID whose time an expression is.
#[derive(Clone, Copy)]
pub struct TimeOf {
    /// A column that the query sees; a `bigint`, or of a type that is one.
    pub id: *mut Var,
    /// The constant that names the layout.
    pub layout: *mut Node,
    /// Whether the time is a `timestamp`, in UTC.
    pub in_utc: bool,
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

/// A constant text.
pub fn text(value: &str) -> Option<*mut Node> {
    let value = value.into_datum()?;
    // SAFETY: the value is a text, in the memory of the query.
    Some(unsafe { pg_sys::makeConst(TEXTOID, -1, pg_sys::DEFAULT_COLLATION_OID, -1, value, false, false) }.cast())
}
