//! IDs as UUIDs, for columns that must be of that type.
//!
//! A UUID of version 8 ([RFC 9562, section 5.8](https://www.rfc-editor.org/rfc/rfc9562#section-5.8)) leaves 122 bits to
//! its creator. The ID fills them from the top, so UUIDs sort as IDs do; version and variant are the same in all.
//!
//! ```text
//! bit 127                       80 79   76 75         64 63 62 61      58 57               0
//!     ┌───────────────────────────┬───────┬─────────────┬─────┬──────────┬─────────────────┐
//!     │ ID: bits 63 to 16         │ 1000  │ ID: bits    │ 10  │ ID: bits │ 0               │
//!     │                           │       │ 15 to 4     │     │ 3 to 0   │                 │
//!     └───────────────────────────┴───────┴─────────────┴─────┴──────────┴─────────────────┘
//!       custom_a, 48 bits          version custom_b, 12  var.  custom_c, 62
//! ```

use crate::MAX_ID;

/// Where the 4 bits of the version begin, and their value.
const VERSION: (u32, u128) = (76, 8);

/// Where the 2 bits of the variant begin, and their value: RFC 9562's.
const VARIANT: (u32, u128) = (62, 0b10);

/// How many bits after the ID are 0.
const PADDING_BITS: u32 = 58;

/// Why a UUID holds no ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UuidError {
    /// The variant is not RFC 9562's.
    #[error("Its variant is not RFC 9562's")]
    Variant,
    /// The version is not 8.
    #[error("Its version is {0}, and an ID's is 8")]
    Version(u8),
    /// The bits after the ID are not 0.
    #[error("Its last {PADDING_BITS} bits are not all 0")]
    Padding,
    /// The number in it is above [`MAX_ID`].
    #[error("The number in it, {0}, is greater than {MAX_ID}, the greatest ID")]
    TooLarge(u64),
}

/// The UUID of an ID.
pub fn from_id(id: u64) -> u128 {
    let id = u128::from(id);
    (id >> 16) << 80
        | VERSION.1 << VERSION.0
        | (id >> 4 & 0xfff) << 64
        | VARIANT.1 << VARIANT.0
        | (id & 0xf) << PADDING_BITS
}

/// The ID, from 0 to [`MAX_ID`], of a UUID that [`from_id`] made.
pub fn to_id(uuid: u128) -> Result<u64, UuidError> {
    let bits = |(shift, _): (u32, u128), width: u32| uuid >> shift & ((1 << width) - 1);
    if bits(VARIANT, 2) != VARIANT.1 {
        return Err(UuidError::Variant);
    }
    let version = bits(VERSION, 4);
    if version != VERSION.1 {
        return Err(UuidError::Version(version.try_into().expect("4 bits")));
    }
    if uuid & ((1 << PADDING_BITS) - 1) != 0 {
        return Err(UuidError::Padding);
    }
    let id = (uuid >> 80) << 16 | (uuid >> 64 & 0xfff) << 4 | uuid >> PADDING_BITS & 0xf;
    let id = id.try_into().expect("64 bits");
    if id > MAX_ID { Err(UuidError::TooLarge(id)) } else { Ok(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_digit_of_an_id_stands_where_the_picture_says() {
        for (id, uuid) in [
            (0, 0x00000000_0000_8000_8000_000000000000),
            (0x0123_4567_89ab_cdef, 0x01234567_89ab_8cde_bc00_000000000000),
            (MAX_ID, 0x7fffffff_ffff_8fff_bc00_000000000000),
        ] {
            assert_eq!(from_id(id), uuid, "{id:x}");
            assert_eq!(to_id(uuid), Ok(id), "{id:x}");
        }
    }

    #[test]
    fn a_uuid_that_holds_no_id_is_refused_by_what_is_wrong_with_it() {
        for (uuid, message) in [
            // Nil, and the examples of RFC 9562, appendices A.3, A.6 and B.1.
            (0, "Its variant is not RFC 9562's"),
            (0x919108f7_52d1_4320_9bac_f847db4148a8, "Its version is 4, and an ID's is 8"),
            (0x017f22e2_79b0_7cc3_98c4_dc0c0c07398f, "Its version is 7, and an ID's is 8"),
            (0x2489e9ad_2ee2_8e00_8ec9_32d5f69181c0, "Its last 58 bits are not all 0"),
            (0x00000000_0000_8000_8000_000000000001, "Its last 58 bits are not all 0"),
            (0x00000000_0000_8000_8200_000000000000, "Its last 58 bits are not all 0"),
            (
                0x80000000_0000_8000_8000_000000000000,
                "The number in it, 9223372036854775808, is greater than 9223372036854775807, the greatest ID",
            ),
        ] {
            assert_eq!(to_id(uuid).expect_err("no ID").to_string(), message, "{uuid:032x}");
        }
    }
}
