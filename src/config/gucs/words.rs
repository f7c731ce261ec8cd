//! Enum parameters.

/// Makes an enum the type of a parameter. PostgreSQL shows the first word of each variant. It also accepts the others,
/// which are hidden synonyms: YAML, for example, turns `off` into `False`.
macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal $(| $synonym:literal)*),+ }) => {
        // SAFETY: the list ends with an entry without a name, and is static.
        unsafe impl pgrx::guc::GucEnum for $type {
            fn from_ordinal(ordinal: i32) -> Self {
                [$(Self::$variant),+].into_iter().find(|word| *word as i32 == ordinal).expect("a value of the list")
            }

            fn to_ordinal(&self) -> i32 {
                *self as i32
            }

            const CONFIG_ENUM_ENTRY: *const pgrx::pg_sys::config_enum_entry = {
                const fn entry(name: &'static std::ffi::CStr, val: i32, hidden: bool) -> pgrx::pg_sys::config_enum_entry {
                    pgrx::pg_sys::config_enum_entry { name: name.as_ptr(), val, hidden }
                }
                const END: pgrx::pg_sys::config_enum_entry =
                    pgrx::pg_sys::config_enum_entry { name: std::ptr::null(), val: 0, hidden: false };
                const LIST: &[pgrx::pg_sys::config_enum_entry] = &[
                    $(
                        entry($word, $type::$variant as i32, false),
                        $(entry($synonym, $type::$variant as i32, true),)*
                    )+
                    END,
                ];
                LIST.as_ptr()
            };
        }
    };
}
pub(super) use words;
