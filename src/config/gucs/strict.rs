//! Parameters whose invalid values are never replaced by the default.
//!
//! When the server starts, PostgreSQL replaces an invalid value by the default, with a WARNING. With the default, IDs
//! could be another server's. So an invalid value is recorded before that, and no ID is issued.

use super::raw_setting;
use once_cell::sync::OnceCell;
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

/// The first invalid setting.
static INVALID: OnceCell<InvalidSetting> = OnceCell::new();

/// The first invalid value, if there is one. No ID is issued until it is corrected and the server is restarted.
pub fn invalid_setting() -> Option<&'static InvalidSetting> {
    INVALID.get()
}

/// Records an invalid value. To be called before PostgreSQL replaces it by the default.
pub(super) fn record_unless_valid(
    name: &'static CStr,
    is_valid: impl FnOnce(&CStr) -> bool,
    allowed: impl FnOnce() -> String,
) {
    if let Some(text) = raw_setting(name).filter(|text| !is_valid(text)) {
        INVALID.get_or_init(|| InvalidSetting {
            variable: name.to_str().expect("a name in ASCII"),
            text: text.to_string_lossy().into_owned(),
            allowed: allowed(),
        });
    }
}
