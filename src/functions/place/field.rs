//! Hash functions whose hash is a field of the ID, for operator classes by which tables are partitioned.
//!
//! The field is in the function itself, as the name of its argument: `bits_12_to_21`. No parameter and no layout in
//! force has a say in where a row is, and neither ALTER FUNCTION nor CREATE OR REPLACE can change that name.

use crate::postgres::catalog::CachedRow;
use crate::postgres::report::{error_report, raise};
use pgrx::prelude::*;
use snowflake_core::id::shard::COMBINED;
use std::ffi::c_void;

/// Adjacent bits of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    low: u8,
    bits: u8,
}

impl Field {
    /// The bits from the lowest to the highest of them.
    pub fn new(low: u32, high: u32) -> Option<Self> {
        let bits = (low <= high && high < 64 && high - low < 63).then(|| high - low + 1)?;
        Some(Self { low: u8::try_from(low).ok()?, bits: u8::try_from(bits).ok()? })
    }

    /// The number in these bits of an ID.
    #[inline]
    pub fn of(self, id: i64) -> u64 {
        (id.cast_unsigned() >> self.low) & ((1 << self.bits) - 1)
    }

    /// These bits, in an ID.
    pub fn mask(self) -> u64 {
        ((1 << self.bits) - 1) << self.low
    }

    /// How the first argument of a hash function of it is called.
    pub fn argument(self) -> String {
        format!("bits_{}_to_{}", self.low, self.low + self.bits - 1)
    }

    /// The field of a hash function; `None` for other functions.
    pub fn of_function(function: pg_sys::Oid) -> Option<Self> {
        // SAFETY: the cache has this key, and its rows this column of names.
        let names = unsafe {
            let row = CachedRow::find(pg_sys::SysCacheIdentifier::PROCOID, function)?;
            let names = row.column(pg_sys::Anum_pg_proc_proargnames)?;
            Vec::<Option<String>>::from_datum(names, false)?
        };
        let (low, high) = names
            .into_iter()
            .next()??
            .strip_prefix("bits_")?
            .split_once("_to_")
            .map(|(low, high)| (low.parse(), high.parse()))?;
        Self::new(low.ok()?, high.ok()?)
    }

    /// As the pointer that a call can keep, never null.
    fn to_pointer(self) -> *mut c_void {
        std::ptr::without_provenance_mut(usize::from(self.bits) << 8 | usize::from(self.low))
    }

    fn from_pointer(kept: *mut c_void) -> Self {
        let [low, bits, ..] = kept.addr().to_le_bytes();
        Self { low, bits }
    }
}

/// Function 2 of an operator class. PostgreSQL's combination of hashes makes the field of it again, and a partition has
/// the IDs with field % modulus = remainder. The seed has no say.
///
/// A plain C function, for the reason of `snowflake_nextval`.
#[unsafe(no_mangle)]
extern "C-unwind" fn snowflake_field_hash_extended(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    number(call).wrapping_sub(COMBINED).cast_signed().into()
}

/// What PG_FUNCTION_INFO_V1() defines in C.
#[unsafe(no_mangle)]
extern "C" fn pg_finfo_snowflake_field_hash_extended() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

/// Function 1 of an operator class, by which PostgreSQL would fill a hash index.
#[unsafe(no_mangle)]
extern "C-unwind" fn snowflake_field_hash(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    #[expect(clippy::cast_possible_truncation, reason = "a hash")]
    (number(call) as i32).into()
}

/// As above.
#[unsafe(no_mangle)]
extern "C" fn pg_finfo_snowflake_field_hash() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

/// The field of the first argument.
#[inline]
fn number(call: pg_sys::FunctionCallInfo) -> u64 {
    // SAFETY: PostgreSQL calls a function with a description of the call, and with its arguments, which are not NULL,
    // since the functions are STRICT. `fn_extra` is the function's own, and null at first.
    let (id, kept) = unsafe {
        let id = (*(*call).args.as_ptr()).value.value().cast_signed() as i64;
        (id, (*(*call).flinfo).fn_extra)
    };
    Field::from_pointer(if kept.is_null() { first_call(call) } else { kept }).of(id)
}

/// Finds the field, and keeps it for the next calls.
#[cold]
#[inline(never)]
#[pg_guard]
extern "C-unwind" fn first_call(call: pg_sys::FunctionCallInfo) -> *mut c_void {
    // SAFETY: as above.
    let function = unsafe { &mut *(*call).flinfo };
    let Some(field) = Field::of_function(function.fn_oid) else {
        raise(
            error_report(
                PgSqlErrorCode::ERRCODE_INVALID_FUNCTION_DEFINITION,
                "the argument of a hash function of Snowflake IDs must be named after the bits of its field",
            )
            .set_hint("snowflake_create_operator_class() creates such functions."),
        )
    };
    function.fn_extra = field.to_pointer();
    function.fn_extra
}
