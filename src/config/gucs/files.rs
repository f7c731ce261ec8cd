//! The settings in the configuration files. They are not always in force: the command line can override them, and some
//! parameters take effect at the next start.

use pgrx::pg_sys;
use std::ffi::{CStr, CString};
use std::path::PathBuf;

/// A line of a configuration file.
#[derive(Clone, Debug)]
pub struct Setting {
    pub value: String,
    pub file: PathBuf,
    /// The line in the file.
    pub line: i32,
}

/// The setting that the next start will find, unless the command line overrides it.
pub fn last_setting(name: &CStr) -> Option<Setting> {
    in_automatic_file(name).or_else(|| in_main_file(name))
}

/// The setting in postgresql.auto.conf, which ALTER SYSTEM writes and which overrides postgresql.conf.
pub fn in_automatic_file(name: &CStr) -> Option<Setting> {
    last_of(pg_sys::PG_AUTOCONF_FILENAME, name)
}

/// The last setting in postgresql.conf and the files that it includes.
pub fn in_main_file(name: &CStr) -> Option<Setting> {
    // SAFETY: set before the postmaster loads any library, to a C string, or to null in a process without configuration
    // files. It is copied before anything can change it.
    let main = unsafe {
        let main = pg_sys::ConfigFileName;
        if main.is_null() { return None } else { CStr::from_ptr(main).to_owned() }
    };
    last_of(&main, name)
}

/// The last setting in a file (a path relative to the data directory) and in the files that it includes.
fn last_of(file: &CStr, name: &CStr) -> Option<Setting> {
    let (mut first, mut last) = (std::ptr::null_mut(), std::ptr::null_mut());
    let (no_caller, level) = (std::ptr::null(), pg_sys::DEBUG2.cast_signed());
    // SAFETY: makes a list of all settings in the current memory context, and raises no error. PostgreSQL has already
    // logged what is wrong with the files.
    unsafe { pg_sys::ParseConfigFile(file.as_ptr(), false, no_caller, 0, 0, level, &mut first, &mut last) };
    let text = |text: *const std::ffi::c_char| {
        // SAFETY: a text of an item is a C string, or null.
        if text.is_null() { CString::default() } else { unsafe { CStr::from_ptr(text) }.to_owned() }
    };
    let (mut setting, mut next) = (None, first);
    // SAFETY: an item of the list, or null at its end.
    while let Some(entry) = unsafe { next.as_ref() } {
        // Errors in the files are items without a name.
        if text(entry.name).to_bytes().eq_ignore_ascii_case(name.to_bytes()) {
            setting = Some(Setting {
                value: text(entry.value).to_string_lossy().into_owned(),
                file: text(entry.filename).to_string_lossy().into_owned().into(),
                line: entry.sourceline,
            });
        }
        next = entry.next;
    }
    // SAFETY: the list made above; nothing refers to it any more.
    unsafe { pg_sys::FreeConfigVariables(first) };
    setting
}
