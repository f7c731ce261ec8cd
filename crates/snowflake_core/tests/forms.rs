//! Other forms of an ID say the same as it does, and what other libraries say.

#![cfg(not(loom))]

use proptest::prelude::*;
use snowflake_core::MAX_ID;
use snowflake_core::id::text::{Encoding, Notation, TextError};
use snowflake_core::id::uuid::{UuidError, from_id, to_id};
use uuid::{Uuid, Variant, Version};

/// IDs of every length: random numbers alone would nearly all have 62 or 63 bits.
fn id() -> impl Strategy<Value = u64> {
    let short = (any::<u64>(), 1_u32..64).prop_map(|(number, shift)| number >> shift);
    prop_oneof![8 => short, 1 => Just(0), 1 => Just(MAX_ID)]
}

/// The digits of a custom alphabet: some of what is allowed, in any order.
fn alphabet(digits: usize) -> impl Strategy<Value = String> {
    let visible: Vec<char> = ('!'..='~').collect();
    Just(visible).prop_shuffle().prop_map(move |visible| visible.into_iter().take(digits).collect())
}

/// Bitcoin's encoding as a library has it: of bytes, in which zeros in front are digits of their own.
fn base58(id: u64, alphabet: &bs58::Alphabet) -> String {
    let bytes = id.to_be_bytes();
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count().min(7);
    bs58::encode(&bytes[zeros..]).with_alphabet(alphabet).into_string()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_id_is_read_back_from_its_text(id in id()) {
        for encoding in Encoding::ALL {
            let notation = Notation::from(encoding);
            prop_assert_eq!(notation.decode(&notation.encode(id)), Ok(id));
        }
    }

    #[test]
    fn every_id_is_read_back_from_its_text_in_any_alphabet(id in id(), long in alphabet(62), short in alphabet(58)) {
        for (encoding, alphabet) in [(Encoding::Base62, &long), (Encoding::Base58, &short)] {
            let notation = Notation::with_alphabet(encoding, alphabet).expect("an alphabet");
            prop_assert_eq!(notation.decode(&notation.encode(id)), Ok(id));
        }
    }

    #[test]
    fn texts_are_those_of_other_libraries(id in id(), long in alphabet(62), short in alphabet(58)) {
        let write = |encoding: Encoding| Notation::from(encoding).encode(id);
        prop_assert_eq!(write(Encoding::Base62), base62::encode(id));
        prop_assert_eq!(write(Encoding::Base58), base58(id, bs58::Alphabet::BITCOIN));
        prop_assert_eq!(write(Encoding::Crockford32), format!("{:0>13}", fast32::base32::CROCKFORD.encode_u64(id)));
        prop_assert_eq!(write(Encoding::Hex), format!("{id:016x}"));

        // Digit for digit, another alphabet is a translation.
        let usual = Notation::from(Encoding::Base62);
        let translated: String =
            base62::encode(id).bytes().map(|digit| {
                let value = usual.alphabet().bytes().position(|usual| usual == digit).expect("a digit");
                char::from(long.as_bytes()[value])
            }).collect();
        let chosen = Notation::with_alphabet(Encoding::Base62, &long).expect("an alphabet");
        prop_assert_eq!(chosen.encode(id), translated);

        let theirs = bs58::Alphabet::new(short.as_bytes().try_into().expect("58 digits")).expect("an alphabet");
        let chosen = Notation::with_alphabet(Encoding::Base58, &short).expect("an alphabet");
        prop_assert_eq!(chosen.encode(id), base58(id, &theirs));
    }

    /// Their reading of what people mix up is ours: letter case, and I, L and O.
    #[test]
    fn crockford32_is_read_as_another_library_does(text in "[0-7]?[0-9A-Za-z]{1,12}") {
        let ours = Notation::from(Encoding::Crockford32).decode(&text);
        let theirs = fast32::base32::CROCKFORD.decode_u64_str(&text);
        prop_assert_eq!(ours.ok(), theirs.ok(), "{}", text);
    }

    #[test]
    fn texts_of_one_length_and_uuids_sort_as_ids_do(a in id(), b in id()) {
        for encoding in [Encoding::Crockford32, Encoding::Hex] {
            let notation = Notation::from(encoding);
            prop_assert_eq!(notation.encode(a).cmp(&notation.encode(b)), a.cmp(&b));
        }
        prop_assert_eq!(from_id(a).cmp(&from_id(b)), a.cmp(&b));
    }

    #[test]
    fn any_text_is_read_or_refused_at_its_first_character_that_is_no_digit(text in ".{0,20}") {
        for encoding in Encoding::ALL {
            let notation = Notation::from(encoding);
            match notation.decode(&text) {
                Ok(id) => prop_assert!(id <= MAX_ID),
                Err(TextError::NotADigit { position, character, .. }) => {
                    prop_assert_eq!(text.chars().nth(position - 1), Some(character));
                    let prefix: String = text.chars().take(position - 1).collect();
                    let fine = !matches!(notation.decode(&prefix), Err(TextError::NotADigit { .. }));
                    prop_assert!(fine);
                }
                Err(TextError::Empty) => prop_assert!(text.chars().all(|character| character == '-')),
                Err(TextError::TooLarge) => prop_assert!(text.len() > 10),
            }
        }
    }

    #[test]
    fn every_id_is_read_back_from_its_uuid_which_is_of_version_8(id in id()) {
        let uuid = Uuid::from_u128(from_id(id));
        prop_assert_eq!((uuid.get_version(), uuid.get_variant()), (Some(Version::Custom), Variant::RFC4122));
        prop_assert_eq!(to_id(uuid.as_u128()), Ok(id));
    }

    #[test]
    fn of_any_uuid_only_the_one_of_the_id_is_read(random in any::<u128>(), id in id(), bit in 0..128) {
        for uuid in [random, from_id(id) ^ (1_u128 << bit)] {
            let named = Uuid::from_u128(uuid);
            match to_id(uuid) {
                Ok(id) => prop_assert_eq!(from_id(id), uuid),
                Err(UuidError::Variant) => prop_assert_ne!(named.get_variant(), Variant::RFC4122),
                Err(UuidError::Version(version)) => prop_assert_eq!(usize::from(version), named.get_version_num()),
                Err(UuidError::Padding) => prop_assert_ne!(uuid << 70, 0),
                Err(UuidError::TooLarge(number)) => prop_assert!(number > MAX_ID && uuid >> 127 == 1),
            }
        }
    }
}
