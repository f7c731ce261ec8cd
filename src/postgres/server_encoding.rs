//! Texts in any server encoding.

use pgrx::pg_sys;
use std::borrow::Cow;
use std::ffi::CStr;

/// How many characters of a text a message shows: enough for every alphabet of base62.
const LONGEST_QUOTE: usize = 80;

/// The characters of a text. A `&str` is UTF-8. In other server encodings, each byte that is not ASCII becomes the
/// character with its number, which is enough to tell which characters are ASCII, and where.
pub fn characters(text: &[u8]) -> Cow<'_, str> {
    if text.is_ascii() || is_utf8() {
        String::from_utf8_lossy(text)
    } else {
        text.iter().copied().map(char::from).collect()
    }
}

/// A text of [`characters`], or a message that quotes it, for people and for the server encoding. Invisible characters
/// are escaped. If the server encoding is not UTF-8, characters that are not ASCII become their bytes, in hexadecimal.
pub fn displayable(text: &str) -> String {
    let utf8 = is_utf8();
    let show = |character: char| match character {
        '"' | '\'' | '\\' => character.to_string(),
        _ if utf8 || character.is_ascii() => character.escape_debug().to_string(),
        _ => format!("\\x{:02X}", u32::from(character)),
    };
    text.chars().map(show).collect()
}

/// A text of [`characters`] in double quotes, for a message; shortened if it is long.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", shortened(text, LONGEST_QUOTE))
}

/// A text that is [`displayable`], with so many characters of it at most.
pub fn shortened(text: &str, at_most: usize) -> String {
    match text.char_indices().nth(at_most) {
        Some((end, _)) => format!("{}...", displayable(&text[..end])),
        None => displayable(text),
    }
}

/// A text of this database, in UTF-8. An ERROR if it is not in the server encoding.
pub fn to_utf8(text: &[u8]) -> String {
    let utf8 = pg_sys::pg_enc::PG_UTF8.cast_signed();
    let (start, length) = (text.as_ptr().cast(), i32::try_from(text.len()).unwrap_or(i32::MAX));
    // SAFETY: takes as many bytes as `length` says. Returns them, or a C string in the current memory context.
    let text = unsafe {
        let converted = pg_sys::pg_server_to_any(start, length, utf8);
        if converted.cast_const() == start { text } else { CStr::from_ptr(converted).to_bytes() }
    };
    String::from_utf8_lossy(text).into_owned()
}

/// Whether texts are UTF-8 in this database.
fn is_utf8() -> bool {
    // SAFETY: reads a variable that is set when a session begins.
    let encoding = unsafe { pg_sys::GetDatabaseEncoding() };
    u32::try_from(encoding) == Ok(pg_sys::pg_enc::PG_UTF8)
}
