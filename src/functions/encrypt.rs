//! IDs for outsiders.

use super::argument::number;
use crate::postgres::report::{error_report, raise};
use pgrx::prelude::*;
use snowflake_core::id::encrypt::{Key, KeyLength};

/// An ID that shows nothing to anyone without the key.
#[pg_extern(sql = false)]
fn snowflake_encrypt(id: i64, key: &[u8]) -> i64 {
    key_of(key).encrypt(number(id)).cast_signed()
}

/// The ID that [`snowflake_encrypt`] has encrypted.
#[pg_extern(sql = false)]
fn snowflake_decrypt(id: i64, key: &[u8]) -> i64 {
    key_of(key).decrypt(number(id)).cast_signed()
}

/// The error never shows the key.
fn key_of(bytes: &[u8]) -> Key {
    Key::new(bytes).unwrap_or_else(|KeyLength(length)| {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "key must have 16, 24 or 32 bytes")
                .set_detail(format!("It has {length}."))
                .set_hint(
                    "For a random key of 32 bytes, use sha256(uuid_send(gen_random_uuid()) || \
                     uuid_send(gen_random_uuid())).",
                ),
        )
    })
}
