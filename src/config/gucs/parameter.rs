//! What a parameter is: a static with its name, its texts, its range, its default and its value. Beside it stands the
//! function that reads it, and the file lists it in its `PARAMETERS`.

use super::strict::record_unless_valid;
use pgrx::guc::GucSetting;
use pgrx::pg_sys;
use snowflake_core::words::{Word, Words};
use std::ffi::{CStr, CString, c_char, c_void};
use std::iter::once;
use std::ops::RangeInclusive;
use std::ptr;

/// A parameter whose value is of this kind.
pub(super) struct Parameter<K> {
    /// Its name, with the prefix.
    pub name: &'static CStr,
    /// What it sets, as a sentence.
    pub short: &'static CStr,
    /// What else there is to know. For a [`Choice`], what the meanings of its words do not say.
    pub long: &'static CStr,
    /// When it can be set.
    pub context: pg_sys::GucContext::Type,
    /// Its unit, and who sees it: `GUC_…`.
    pub flags: u32,
    /// Its value, its default and its valid values.
    pub value: K,
}

/// For tests and measurements: `SHOW ALL` and `pg_settings` leave it out, as PostgreSQL's own developer options are
/// left out of its sample.
pub(super) const FOR_DEVELOPERS: u32 = pg_sys::GUC_NO_SHOW_ALL | pg_sys::GUC_NOT_IN_SAMPLE;

/// What PostgreSQL calls with a new value. Guarded against panics by `#[pg_guard]`.
pub(super) type CheckHook =
    unsafe extern "C-unwind" fn(*mut *mut c_char, *mut *mut c_void, pg_sys::GucSource::Type) -> bool;

/// A parameter of any kind.
pub(super) trait Define: Sync {
    /// Defines it. Only in the postmaster, while it preloads. PostgreSQL replaces an invalid value by the default; an
    /// invalid number or word is recorded first.
    fn define(&'static self);
}

/// An integer that is not negative.
pub(super) struct Number {
    setting: GucSetting<i32>,
    range: RangeInclusive<i32>,
}

impl Number {
    pub(super) const fn new(default: i32, range: RangeInclusive<i32>) -> Self {
        Self { setting: GucSetting::<i32>::new(default), range }
    }
}

impl Parameter<Number> {
    pub(super) fn get(&self) -> u64 {
        u64::try_from(self.value.setting.get()).expect("a range that does not begin below 0")
    }
}

impl Define for Parameter<Number> {
    fn define(&'static self) {
        let (setting, (least, greatest)) = (&self.value.setting, self.value.range.clone().into_inner());
        let (name, flags) = (self.name, self.flags.cast_signed());
        let is_valid = |text: &CStr| {
            let mut number = 0;
            // SAFETY: reads a C string and writes a number, as PostgreSQL does for its own parameters.
            let is_number = unsafe { pg_sys::parse_int(text.as_ptr(), &mut number, flags, ptr::null_mut()) };
            is_number && (least..=greatest).contains(&number)
        };
        record_unless_valid(name, is_valid, || {
            let unit = if self.flags & pg_sys::GUC_UNIT_TIME == pg_sys::GUC_UNIT_MS {
                ", in milliseconds or with a unit: \"us\", \"ms\", \"s\", \"min\", \"h\", \"d\""
            } else {
                ""
            };
            format!("Valid values are integers from {least} to {greatest}{unit}.")
        });
        let (name, short, long) = (name.as_ptr(), self.short.as_ptr(), self.long.as_ptr());
        let (value, default, context) = (setting.as_ptr(), setting.get(), self.context);
        // SAFETY: the texts and the value are static.
        unsafe {
            pg_sys::DefineCustomIntVariable(
                name, short, long, value, default, least, greatest, context, flags, None, None, None,
            );
        }
    }
}

/// One of the words of an enum. PostgreSQL keeps its ordinal.
pub(super) struct Choice<T> {
    setting: GucSetting<i32>,
    default: T,
}

impl<T: Words> Choice<T> {
    pub(super) const fn new(default: T) -> Self {
        Self { setting: GucSetting::<i32>::new(0), default }
    }
}

impl<T: Words> Parameter<Choice<T>> {
    pub(super) fn get(&self) -> T {
        let ordinal = self.value.setting.get();
        T::WORDS.iter().find(|word| word.ordinal == ordinal).expect("a word of the list").value
    }

    /// The meanings of the words, and what else there is to know.
    fn description(&self) -> String {
        let meanings = T::WORDS.iter().map(|Word { word, meaning, .. }| format!("{word}: {meaning}."));
        let long = Some(self.long.to_string_lossy().into_owned()).filter(|long| !long.is_empty());
        meanings.chain(long).collect::<Vec<_>>().join(" ")
    }
}

impl<T: Words + PartialEq + Sync> Define for Parameter<Choice<T>> {
    fn define(&'static self) {
        let mut words: Vec<_> = T::WORDS.iter().collect();
        words.sort_unstable_by_key(|word| word.ordinal);
        let is_valid = |text: &CStr| {
            let is = |word: &&str| word.as_bytes().eq_ignore_ascii_case(text.to_bytes());
            words.iter().any(|word| once(&word.word).chain(word.synonyms).any(is))
        };
        record_unless_valid(self.name, is_valid, || {
            let shown: Vec<_> = words.iter().map(|word| word.word).collect();
            format!("Available values: {}.", shown.join(", "))
        });
        let mut entries = Vec::new();
        for Word { ordinal, word, synonyms, .. } in &words {
            let entry = |name: &str, hidden| pg_sys::config_enum_entry { name: kept(name), val: *ordinal, hidden };
            entries.push(entry(word, false));
            entries.extend(synonyms.iter().map(|name| entry(name, true)));
        }
        entries.push(pg_sys::config_enum_entry { name: ptr::null(), val: 0, hidden: false });
        let default = words.iter().find(|word| word.value == self.value.default).expect("a word of the list").ordinal;
        let (name, short, long) = (self.name.as_ptr(), self.short.as_ptr(), kept(&self.description()));
        let (value, entries) = (self.value.setting.as_ptr(), entries.leak().as_ptr());
        let (context, flags) = (self.context, self.flags.cast_signed());
        // SAFETY: the value is static, and texts and entries are never freed. The last entry has no name.
        unsafe {
            pg_sys::DefineCustomEnumVariable(
                name, short, long, value, default, entries, context, flags, None, None, None,
            );
        }
    }
}

/// A copy of a text that PostgreSQL can keep.
fn kept(text: &str) -> *const c_char {
    CString::new(text).expect("a text without a zero").into_raw()
}

/// A text.
pub(super) struct Text {
    setting: GucSetting<Option<CString>>,
    check: Option<CheckHook>,
}

impl Text {
    pub(super) const fn new(default: &'static CStr) -> Self {
        Self { setting: GucSetting::<Option<CString>>::new(Some(default)), check: None }
    }

    pub(super) const fn checked(default: &'static CStr, check: CheckHook) -> Self {
        Self { check: Some(check), ..Self::new(default) }
    }
}

impl Parameter<Text> {
    pub(super) fn get(&self) -> CString {
        self.value.setting.get().unwrap_or_default()
    }

    pub(super) fn get_lossy(&self) -> String {
        self.get().to_string_lossy().into_owned()
    }

    /// Sets one that nobody else can set.
    pub(super) fn show(&self, text: &CStr) {
        let (context, source) = (pg_sys::GucContext::PGC_INTERNAL, pg_sys::GucSource::PGC_S_DYNAMIC_DEFAULT);
        // SAFETY: takes two C strings, and copies the value.
        unsafe { pg_sys::SetConfigOption(self.name.as_ptr(), text.as_ptr(), context, source) };
    }
}

impl Define for Parameter<Text> {
    fn define(&'static self) {
        let (name, short, long) = (self.name.as_ptr(), self.short.as_ptr(), self.long.as_ptr());
        let (value, check) = (self.value.setting.as_ptr(), self.value.check);
        let (context, flags) = (self.context, self.flags.cast_signed());
        // SAFETY: the texts and the value are static, the value is the default, and the hook is guarded against panics.
        unsafe {
            pg_sys::DefineCustomStringVariable(name, short, long, value, *value, context, flags, check, None, None);
        }
    }
}

/// A boolean.
pub(super) struct Switch {
    setting: GucSetting<bool>,
}

impl Switch {
    pub(super) const fn new(default: bool) -> Self {
        Self { setting: GucSetting::<bool>::new(default) }
    }
}

impl Parameter<Switch> {
    pub(super) fn get(&self) -> bool {
        self.value.setting.get()
    }
}

impl Define for Parameter<Switch> {
    fn define(&'static self) {
        let (name, short, long) = (self.name.as_ptr(), self.short.as_ptr(), self.long.as_ptr());
        let (value, default) = (self.value.setting.as_ptr(), self.value.setting.get());
        let (context, flags) = (self.context, self.flags.cast_signed());
        // SAFETY: the texts and the value are static.
        unsafe {
            pg_sys::DefineCustomBoolVariable(name, short, long, value, default, context, flags, None, None, None);
        }
    }
}
