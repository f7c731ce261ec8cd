//! The configuration parameters.
//!
//! They exist only if the library is preloaded: PostgreSQL does not let a library that is loaded later define
//! parameters that are fixed when the server starts. The rest of the code gets typed values and never a setting.

use pgrx::pg_sys;
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

mod checks;
mod clock;
pub mod files;
mod mark;
mod parameter;
mod policy;
mod readers;
pub mod registry;
mod serial;
mod server;
mod set;
mod strict;

pub use clock::*;
pub use mark::*;
pub use policy::*;
pub use readers::*;
pub use serial::*;
pub use server::*;
pub use set::set_parameters;
pub use strict::{InvalidSetting, invalid_setting};

/// Defines all parameters. Only in the postmaster, while it preloads.
pub fn define() {
    for parameters in [
        server::PARAMETERS,
        policy::PARAMETERS,
        registry::PARAMETERS,
        serial::PARAMETERS,
        mark::PARAMETERS,
        clock::PARAMETERS,
        readers::PARAMETERS,
    ] {
        parameters.iter().for_each(|parameter| parameter.define());
    }
    // SAFETY: the prefix is a C string that lives as long as the process.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"snowflake_pg".as_ptr()) };
}

/// The text of a parameter in the configuration files, on the command line or from SET, even if it is not defined.
pub fn raw_setting(name: &CStr) -> Option<CString> {
    // SAFETY: takes a C string, and gives another one, which is copied before anything can change the parameter. It is
    // null for a parameter that is not set, as missing_ok is true.
    unsafe {
        let value = pg_sys::GetConfigOption(name.as_ptr(), true, false);
        (!value.is_null()).then(|| CStr::from_ptr(value).to_owned())
    }
}

/// The data directory of the server.
pub fn data_directory() -> PathBuf {
    // SAFETY: PostgreSQL sets it before it loads any library, to a C string that lives as long as the process.
    let data_directory = unsafe { CStr::from_ptr(pg_sys::DataDir) };
    PathBuf::from(OsString::from_vec(data_directory.to_bytes().to_vec()))
}
