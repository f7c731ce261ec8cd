//! Which parameters are set: PostgreSQL's own table knows, so that none is forgotten.

use super::{raw_setting, registry};
use crate::postgres::server_encoding::displayable;
use pgrx::pg_sys;
use std::ffi::CStr;

/// The parameters that a file or the command line has set, without their prefix and by name, each with its value as in
/// postgresql.conf: `("max_borrow", "7000 ms")`, `("state_directory", "'/var/lib/marks'")`.
pub fn set_parameters() -> Vec<(&'static str, String)> {
    table().into_iter().filter_map(set_parameter).collect()
}

/// PostgreSQL's table of parameters, by name. It is there before a library is loaded.
fn table() -> Vec<pg_sys::config_generic> {
    #[cfg(feature = "pg15")]
    // SAFETY: gives PostgreSQL's own table, which is there before it loads any library, and its length.
    let (table, length) = unsafe { (pg_sys::get_guc_variables(), pg_sys::GetNumConfigOptions()) };
    #[cfg(not(feature = "pg15"))]
    let mut length = 0;
    #[cfg(not(feature = "pg15"))]
    // SAFETY: writes the length, and gives a list that lives as long as the memory context.
    let table = unsafe { pg_sys::get_guc_variables(&mut length) };

    // SAFETY: a list of this length.
    let table = unsafe { std::slice::from_raw_parts(table, usize::try_from(length).expect("a length")) };
    // SAFETY: a parameter, which nothing changes meanwhile.
    table.iter().map(|parameter| unsafe { **parameter }).collect()
}

fn set_parameter(parameter: pg_sys::config_generic) -> Option<(&'static str, String)> {
    // SAFETY: the name of a parameter is a C string that lives as long as the process.
    let full_name: &'static CStr = unsafe { CStr::from_ptr(parameter.name) };
    let name = full_name.to_str().ok()?.strip_prefix("snowflake_pg.")?;
    // Nor is one set that only shows something.
    if matches!(parameter.source, pg_sys::GucSource::PGC_S_DEFAULT | pg_sys::GucSource::PGC_S_DYNAMIC_DEFAULT) {
        return None;
    }
    let value = raw_setting(full_name)?;
    // A text that is not a connection string can have a password, too.
    // mutant: registry-not-quoted
    if name == "registry_conninfo" && registry::objection(&value).is_some() {
        return Some((name, "(refused)".to_owned()));
    }
    let value = displayable(&value.to_string_lossy());
    let unit = match parameter.flags.cast_unsigned() & pg_sys::GUC_UNIT_TIME {
        pg_sys::GUC_UNIT_MS => " ms",
        pg_sys::GUC_UNIT_S => " s",
        pg_sys::GUC_UNIT_MIN => " min",
        _ => "",
    };
    let is_text = parameter.vartype == pg_sys::config_type::PGC_STRING;
    Some((name, if is_text { format!("'{value}'") } else { format!("{value}{unit}") }))
}
