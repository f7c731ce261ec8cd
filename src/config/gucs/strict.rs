//! Parameters whose invalid values are never replaced by the default.
//!
//! When the server starts, PostgreSQL replaces an invalid value by the default, with a WARNING. With the default, IDs
//! could be another server's. So an invalid value is recorded before that, and no ID is issued.

use super::raw_setting;
use once_cell::sync::OnceCell;
use pgrx::guc::{GucContext, GucEnum, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;
use std::ffi::CStr;

/// A parameter with an invalid value.
#[derive(Debug)]
pub struct InvalidSetting {
    /// The parameter.
    pub variable: &'static str,
    pub text: String,
    /// Which values are valid, as a sentence.
    pub allowed: String,
}

/// The first one found.
static INVALID: OnceCell<InvalidSetting> = OnceCell::new();

/// The first invalid value, if there is one. No ID is issued until it is corrected and the server is restarted.
pub fn invalid_setting() -> Option<&'static InvalidSetting> {
    INVALID.get()
}

/// To be called before PostgreSQL replaces the value by the default.
fn record_unless_valid(name: &'static CStr, is_valid: impl FnOnce(&CStr) -> bool, allowed: impl FnOnce() -> String) {
    if let Some(text) = raw_setting(name).filter(|text| !is_valid(text)) {
        INVALID.get_or_init(|| InvalidSetting {
            variable: name.to_str().expect("a name in ASCII"),
            text: text.to_string_lossy().into_owned(),
            allowed: allowed(),
        });
    }
}

/// Defines an integer parameter, and records an invalid value.
#[expect(clippy::too_many_arguments, reason = "as GucRegistry::define_int_guc()")]
pub(super) fn define_number(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    least: i32,
    greatest: i32,
    context: GucContext,
    flags: GucFlags,
) {
    let is_valid = |text: &CStr| {
        let mut number = 0;
        let unit = flags.bits();
        // SAFETY: reads a C string and writes a number, as PostgreSQL does for its own parameters.
        let is_number = unsafe { pg_sys::parse_int(text.as_ptr(), &mut number, unit, std::ptr::null_mut()) };
        is_number && (least..=greatest).contains(&number)
    };
    record_unless_valid(name, is_valid, || {
        let unit = if flags.contains(GucFlags::UNIT_MS) {
            ", in milliseconds or with a unit: \"us\", \"ms\", \"s\", \"min\", \"h\", \"d\""
        } else {
            ""
        };
        format!("Valid values are integers from {least} to {greatest}{unit}.")
    });
    GucRegistry::define_int_guc(name, short, long, setting, least, greatest, context, flags);
}

/// Defines an enum parameter, and records an invalid value.
pub(super) fn define_choice<T: GucEnum>(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<T>,
    context: GucContext,
    flags: GucFlags,
) {
    let words = || {
        // SAFETY: the list ends with an entry without a name, and nothing after it is read.
        let entry = |nth| unsafe { *T::CONFIG_ENUM_ENTRY.add(nth) };
        (0..).map(entry).take_while(|entry| !entry.name.is_null()).map(|entry| {
            // SAFETY: a C string, as in every entry of the list.
            let word = unsafe { CStr::from_ptr(entry.name) };
            (word.to_str().expect("a word in ASCII"), entry.hidden)
        })
    };
    let is_valid = |text: &CStr| words().any(|(word, _)| word.as_bytes().eq_ignore_ascii_case(text.to_bytes()));
    record_unless_valid(name, is_valid, || {
        let shown: Vec<_> = words().filter(|(_, hidden)| !hidden).map(|(word, _)| word).collect();
        format!("Available values: {}.", shown.join(", "))
    });
    GucRegistry::define_enum_guc(name, short, long, setting, context, flags);
}
