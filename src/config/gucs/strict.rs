//! Variables whose configured value is never replaced by the default.
//!
//! A value that PostgreSQL can't read when the server starts is replaced by the default, with a WARNING. IDs of the default could
//! be another server's, or rest on a weaker guard than was meant. So what can't be read is noted before.

use super::raw_setting;
use once_cell::sync::OnceCell;
use pgrx::guc::{GucContext, GucEnum, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;
use std::ffi::CStr;

/// What is configured and can't be read.
#[derive(Debug)]
pub struct InvalidSetting {
    /// The variable.
    pub variable: &'static str,
    /// What it is configured to.
    pub text: String,
    /// Which values it may have: a sentence.
    pub allowed: String,
}

/// The first one that was found.
static INVALID: OnceCell<InvalidSetting> = OnceCell::new();

/// What is configured and can't be read. No ID is issued until that is mended, and the server has been restarted.
pub fn invalid_setting() -> Option<&'static InvalidSetting> {
    INVALID.get()
}

/// Before PostgreSQL replaces it by the default.
fn record_unless_valid(name: &'static CStr, is_valid: impl FnOnce(&CStr) -> bool, allowed: impl FnOnce() -> String) {
    if let Some(text) = raw_setting(name).filter(|text| !is_valid(text)) {
        INVALID.get_or_init(|| InvalidSetting {
            variable: name.to_str().expect("a name in ASCII"),
            text: text.to_string_lossy().into_owned(),
            allowed: allowed(),
        });
    }
}

/// Defines a variable that is a number, and notes what is none, or out of its range.
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
    // SAFETY: without hooks there are none to guard.
    unsafe { define_number_with_check(name, short, long, setting, least, greatest, context, flags, None) };
}

/// The same with a check of what the number means.
///
/// # Safety
///
/// The check must be guarded against panics.
#[expect(clippy::too_many_arguments, reason = "as GucRegistry::define_int_guc_with_hooks()")]
pub(super) unsafe fn define_number_with_check(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    least: i32,
    greatest: i32,
    context: GucContext,
    flags: GucFlags,
    check: pg_sys::GucIntCheckHook,
) {
    let is_valid = |text: &CStr| {
        let mut number = 0;
        let unit = flags.bits();
        // SAFETY: reads a C string and writes a number, as PostgreSQL itself does for its own variables.
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
    // SAFETY: as the caller has promised.
    unsafe {
        GucRegistry::define_int_guc_with_hooks(
            name, short, long, setting, least, greatest, context, flags, check, None, None,
        );
    }
}

/// Defines a variable that is one of some words, and notes what is none of them.
pub(super) fn define_choice<T: GucEnum>(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<T>,
    context: GucContext,
) {
    let words = || {
        // SAFETY: the list ends with an entry that has no name, and nothing beyond is looked at.
        let address = |nth| unsafe { T::CONFIG_ENUM_ENTRY.add(nth) };
        // SAFETY: an entry of the list.
        let entry = |address: *const pg_sys::config_enum_entry| unsafe { *address };
        (0..).map(address).map(entry).take_while(|entry| !entry.name.is_null()).map(|entry| {
            // SAFETY: a C string, as every word of the list has.
            let word = unsafe { CStr::from_ptr(entry.name) };
            (word.to_str().expect("a word in ASCII"), entry.hidden)
        })
    };
    let is_valid = |text: &CStr| words().any(|(word, _)| word.as_bytes().eq_ignore_ascii_case(text.to_bytes()));
    record_unless_valid(name, is_valid, || {
        let shown: Vec<_> = words().filter(|(_, hidden)| !hidden).map(|(word, _)| word).collect();
        format!("Available values: {}.", shown.join(", "))
    });
    GucRegistry::define_enum_guc(name, short, long, setting, context, GucFlags::default());
}
