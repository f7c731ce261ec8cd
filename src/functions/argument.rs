//! IDs and texts as arguments.

use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{characters, quoted};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::borrow::Cow;

/// How many bytes a text may have: more than any layout, alphabet or ID.
const LONGEST: usize = 1000;

/// An ID as a number without sign; an ERROR if it is negative.
pub fn number(id: i64) -> u64 {
    u64::try_from(id).unwrap_or_else(|_| raise(negative(id)))
}

/// A text of the caller's; an ERROR if it is too long. Rust ends the process, and so the server, if it gets no memory:
/// nothing as long as an argument is allocated before this check.
pub fn short<'text>(name: &str, text: &'text [u8]) -> &'text [u8] {
    if let Some((beginning, _)) = text.split_at_checked(LONGEST).filter(|(_, excess)| !excess.is_empty()) {
        let detail = format!(
            "It has {} bytes, and at most {LONGEST} are allowed. It begins with {}.",
            text.len(),
            quoted(&characters(beginning))
        );
        raise(too_long(name, detail));
    }
    text
}

/// The [`characters`] of a text; an ERROR if it is too long.
pub fn text<'text>(name: &str, text: &'text [u8]) -> Cow<'text, str> {
    characters(short(name, text))
}

/// The error for a text that is too long.
pub fn too_long(name: &str, detail: String) -> ErrorReport {
    error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, format!("{name} is too long")).set_detail(detail)
}

/// The error for a negative ID.
pub fn negative(id: i64) -> ErrorReport {
    error_report(PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "Snowflake ID must not be negative")
        .set_detail(format!("The value is {id}."))
}
