//! IDs in expressions.

use pgrx::IntoDatum;
use pgrx::pg_sys::{self, INT8OID, Node, Oid, TEXTOID, Var};

/// An ID whose time an expression is.
#[derive(Clone, Copy)]
pub struct TimeOf {
    /// A column that the query sees; a `bigint`, or of a type that is one.
    pub id: *mut Var,
    /// The constant that names the layout.
    pub layout: *mut Node,
    /// Whether the time is a `timestamp`, in UTC.
    pub in_utc: bool,
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
