//! The parameters that give Snowflake IDs to serial and identity columns.

use super::checks::text_of;
use super::parameter::{Define, Parameter, Switch, Text};
use pgrx::pg_sys::GUC_LIST_INPUT;
use pgrx::pg_sys::GucContext::PGC_USERSET;
use pgrx::{PgList, pg_guard, pg_sys};
use std::ffi::{CStr, CString, c_char, c_void};

pub(super) static PARAMETERS: &[&dyn Define] = &[&SERIAL_SCHEMAS, &WIDEN_SERIAL];

static SERIAL_SCHEMAS: Parameter<Text> = Parameter {
    name: c"snowflake_pg.serial_schemas",
    short: c"Sets the schemas in which new serial and identity columns get Snowflake IDs.",
    long: c"Such a column becomes bigint DEFAULT snowflake_id(). *: all schemas. Empty: none.",
    context: PGC_USERSET,
    flags: GUC_LIST_INPUT,
    value: Text::checked(c"", check_schemas),
};

/// Whether any schema is chosen.
pub fn has_serial_schemas() -> bool {
    !SERIAL_SCHEMAS.get().is_empty()
}

/// Whether new serial and identity columns in this schema get Snowflake IDs. Temporary tables are in pg_temp.
pub fn is_serial_schema(schema: pg_sys::Oid) -> bool {
    let names = names(&SERIAL_SCHEMAS.get()).unwrap_or_default();
    names.iter().any(|name| match name.to_bytes() {
        b"*" => true,
        // SAFETY: takes any OID.
        b"pg_temp" => unsafe { pg_sys::isTempNamespace(schema) },
        // SAFETY: takes a C string. The schema need not exist.
        _ => schema == unsafe { pg_sys::get_namespace_oid(name.as_ptr(), true) },
    })
}

/// The names in a list; `None` if it is not one.
fn names(text: &CStr) -> Option<Vec<CString>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: takes a copy of its own, writes into it, and gives a list of C strings in it.
    unsafe {
        let copy = pg_sys::pstrdup(text.as_ptr());
        if !pg_sys::SplitIdentifierString(copy, c_char::from_ne_bytes(*b","), &mut list) {
            return None;
        }
        Some(PgList::<c_char>::from_pg(list).iter_ptr().map(|name| CStr::from_ptr(name).to_owned()).collect())
    }
}

/// Refuses a text that is not a list of names.
#[pg_guard]
unsafe extern "C-unwind" fn check_schemas(
    new_value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    if names(text_of(new_value)).is_some() {
        return true;
    }
    // SAFETY: as GUC_check_errdetail() does, with a copy in PostgreSQL's memory. PostgreSQL reads it right after the
    // hook, in the same thread.
    unsafe { pg_sys::GUC_check_errdetail_string = pg_sys::pstrdup(c"List syntax is invalid.".as_ptr()) };
    false
}

static WIDEN_SERIAL: Parameter<Switch> = Parameter {
    name: c"snowflake_pg.widen_serial",
    short: c"Sets whether new serial and identity columns narrower than bigint become bigint with Snowflake IDs.",
    long: c"off: they keep their type and their sequence, for applications that read keys as 32 bits.",
    context: PGC_USERSET,
    flags: 0,
    value: Switch::new(false),
};

/// Whether serial and identity columns that are narrower than bigint become wider.
pub fn widens_serial() -> bool {
    WIDEN_SERIAL.get()
}
