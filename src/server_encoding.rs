//! Texts in any server encoding.

use pgrx::pg_sys;
use std::borrow::Cow;

/// How many characters of a text a message shows: enough for every alphabet of base62.
const SHOWN: usize = 80;

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
pub fn shown(text: &str) -> String {
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
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("\"{}...\"", shown(&text[..end])),
        None => format!("\"{}\"", shown(text)),
    }
}

/// Whether texts are UTF-8 in this database.
fn is_utf8() -> bool {
    // SAFETY: reads a variable that is set when a session begins.
    let encoding = unsafe { pg_sys::GetDatabaseEncoding() };
    u32::try_from(encoding) == Ok(pg_sys::pg_enc::PG_UTF8)
}
