//! IDs as UUIDs.

use super::argument::number;
use crate::postgres::report::{error_report, raise};
use pgrx::Uuid;
use pgrx::prelude::*;
use snowflake_core::id::uuid::{UuidError, from_id, to_id};

/// The UUID of an ID.
#[pg_extern(sql = false)]
fn snowflake_to_uuid(id: i64) -> Uuid {
    Uuid::from_bytes(from_id(number(id)).to_be_bytes())
}

/// The ID of a UUID.
#[pg_extern(sql = false)]
fn snowflake_from_uuid(uuid: Uuid) -> i64 {
    match to_id(u128::from_be_bytes(*uuid.as_bytes())) {
        Ok(id) => id.cast_signed(),
        Err(failure) => {
            let code = match failure {
                UuidError::TooLarge(_) => PgSqlErrorCode::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                UuidError::Variant | UuidError::Version(_) | UuidError::Padding => {
                    PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE
                }
            };
            raise(
                error_report(code, format!("UUID \"{uuid}\" does not hold a Snowflake ID"))
                    .set_detail(format!("{failure}."))
                    .set_hint("Only UUIDs from snowflake_to_uuid() can be converted back."),
            )
        }
    }
}
