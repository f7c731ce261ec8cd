//! IDs as short texts.

use super::argument::{self, number};
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{displayable, quoted};
use pgrx::prelude::*;
use snowflake_core::id::text::{AlphabetError, Encoding, Notation, TextError, UnknownEncoding};

/// An ID in an encoding, with its usual alphabet or another one.
#[pg_extern(sql = false)]
fn snowflake_to_text(id: Option<i64>, encoding: Option<&[u8]>, alphabet: Option<&[u8]>) -> Option<String> {
    let id = id?;
    let alphabet = alphabet.map(|alphabet| argument::text("alphabet", alphabet));
    Some(notation(encoding?, alphabet.as_deref()).encode(number(id)))
}

/// The ID of a text.
#[pg_extern(sql = false)]
fn snowflake_from_text(text: Option<&[u8]>, encoding: Option<&[u8]>, alphabet: Option<&[u8]>) -> Option<i64> {
    let text = text?;
    let alphabet = alphabet.map(|alphabet| argument::text("alphabet", alphabet));
    Some(read(notation(encoding?, alphabet.as_deref()), text))
}

fn notation<'alphabet>(encoding: &[u8], alphabet: Option<&'alphabet str>) -> Notation<'alphabet> {
    let encoding = parse_encoding(encoding);
    alphabet.map_or_else(|| Notation::from(encoding), |alphabet| with_alphabet(encoding, alphabet))
}

fn parse_encoding(name: &[u8]) -> Encoding {
    let name = argument::text("encoding", name);
    name.parse().unwrap_or_else(|known: UnknownEncoding| {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("unrecognized encoding: {}", quoted(&name)),
            )
            .set_hint(format!("{known}.")),
        )
    })
}

fn with_alphabet(encoding: Encoding, alphabet: &str) -> Notation<'_> {
    Notation::with_alphabet(encoding, alphabet).unwrap_or_else(|failure: AlphabetError| {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid alphabet for {encoding}: {}", quoted(alphabet)),
            )
            .set_detail(format!("{}.", displayable(&failure.to_string()))),
        )
    })
}

fn read(notation: Notation<'_>, text: &[u8]) -> i64 {
    let text = argument::text("text", text);
    match notation.decode(&text) {
        Ok(id) => id.cast_signed(),
        Err(failure) => {
            let (code, message) = match failure {
                TextError::Empty | TextError::NotADigit { .. } => {
                    (PgSqlErrorCode::ERRCODE_INVALID_TEXT_REPRESENTATION, "invalid input syntax for a Snowflake ID")
                }
                TextError::TooLarge => {
                    (PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "value is out of range for a Snowflake ID")
                }
            };
            raise(
                error_report(code, format!("{message}: {}", quoted(&text)))
                    .set_detail(format!("{}.", displayable(&failure.to_string())))
                    .set_hint(format!(
                        "IDs are written from {} to {}, with the digits {}.",
                        notation.encode(0),
                        notation.encode(snowflake_core::MAX_ID),
                        notation.alphabet()
                    )),
            )
        }
    }
}
