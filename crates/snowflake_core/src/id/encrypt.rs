//! IDs for outsiders: a keyed permutation of all IDs, which hides time, server and volume.
//!
//! Format-preserving encryption by [FF1](https://doi.org/10.6028/NIST.SP.800-38G) with AES, as NIST SP 800-38G
//! specifies it, without a tweak. An ID of 63 bits is seven numerals of nine bits (radix 512), the highest bits first.
//! So the result has 63 bits, too, and no cycle is walked.

use crate::MAX_ID;
use aes::{Aes128, Aes192, Aes256};
use fpe::ff1::{FF1, FlexibleNumeralString};

/// Bits of a numeral.
const BITS: u32 = 9;

/// Numerals of an ID: `BITS * NUMERALS` is 63.
const NUMERALS: u32 = 7;

/// An AES key. It determines a permutation of the numbers from 0 to [`MAX_ID`].
pub struct Key(Cipher);

enum Cipher {
    Aes128(Box<FF1<Aes128>>),
    Aes192(Box<FF1<Aes192>>),
    Aes256(Box<FF1<Aes256>>),
}

/// A key has 16, 24 or 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {0} bytes, not 16, 24 or 32")]
pub struct KeyLength(pub usize);

impl Key {
    /// The key of these bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyLength> {
        const RADIX: u32 = 1 << BITS;
        const VALID: &str = "FF1 takes radixes up to 65536";
        Ok(Self(match bytes.len() {
            // mutant: whole-key
            16 => Cipher::Aes128(Box::new(FF1::new(bytes, RADIX).expect(VALID))),
            24 => Cipher::Aes192(Box::new(FF1::new(bytes, RADIX).expect(VALID))),
            32 => Cipher::Aes256(Box::new(FF1::new(bytes, RADIX).expect(VALID))),
            length => return Err(KeyLength(length)),
        }))
    }

    /// Another ID, from 0 to [`MAX_ID`], which [`decrypt`](Self::decrypt) turns back into this one.
    ///
    /// # Panics
    ///
    /// If the ID is greater than [`MAX_ID`].
    pub fn encrypt(&self, id: u64) -> u64 {
        let numerals = numerals(id);
        number(match &self.0 {
            Cipher::Aes128(cipher) => cipher.encrypt(&[], &numerals),
            Cipher::Aes192(cipher) => cipher.encrypt(&[], &numerals),
            Cipher::Aes256(cipher) => cipher.encrypt(&[], &numerals),
        })
    }

    /// The ID that [`encrypt`](Self::encrypt) has turned into this one.
    ///
    /// # Panics
    ///
    /// If the number is greater than [`MAX_ID`].
    pub fn decrypt(&self, encrypted: u64) -> u64 {
        let numerals = numerals(encrypted);
        number(match &self.0 {
            Cipher::Aes128(cipher) => cipher.decrypt(&[], &numerals),
            Cipher::Aes192(cipher) => cipher.decrypt(&[], &numerals),
            Cipher::Aes256(cipher) => cipher.decrypt(&[], &numerals),
        })
    }
}

fn numerals(id: u64) -> FlexibleNumeralString {
    assert!(id <= MAX_ID, "{id} has more than 63 bits");
    let numeral = |nth: u32| u16::try_from(id >> (BITS * nth) & ((1 << BITS) - 1)).expect("nine bits");
    FlexibleNumeralString::from((0..NUMERALS).rev().map(numeral).collect::<Vec<_>>())
}

fn number<E: std::fmt::Debug>(numerals: Result<FlexibleNumeralString, E>) -> u64 {
    let numerals = Vec::<u16>::from(numerals.expect("seven numerals of this radix"));
    numerals.into_iter().fold(0, |number, numeral| number << BITS | u64::from(numeral))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.bytes().collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
        digits.chunks(2).map(byte).collect()
    }

    /// Sample data of NIST for FF1: key, radix, tweak, plain text, cipher text.
    const SAMPLES: [(usize, u32, &str, &str, &str); 9] = [
        (16, 10, "", "0123456789", "2433477484"),
        (16, 10, "39383736353433323130", "0123456789", "6124200773"),
        (16, 36, "3737373770717273373737", "0123456789abcdefghi", "a9tv40mll9kdu509eum"),
        (24, 10, "", "0123456789", "2830668132"),
        (24, 10, "39383736353433323130", "0123456789", "2496655549"),
        (24, 36, "3737373770717273373737", "0123456789abcdefghi", "xbj3kv35jrawxv32ysr"),
        (32, 10, "", "0123456789", "6657667009"),
        (32, 10, "39383736353433323130", "0123456789", "1001623463"),
        (32, 36, "3737373770717273373737", "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"),
    ];

    /// The key of all samples; shorter ones are its beginning.
    const KEY: &str = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94";

    #[test]
    fn the_cipher_gives_what_nist_has_published_for_each_length_of_the_key() {
        for (length, radix, tweak, plain, cipher) in SAMPLES {
            let (key, tweak) = (&bytes(KEY)[..length], &bytes(tweak));
            let numerals = |text: &str| {
                let digit = |c: char| u16::try_from(c.to_digit(radix).expect("a digit")).expect("below 36");
                FlexibleNumeralString::from(text.chars().map(digit).collect::<Vec<_>>())
            };
            let (plain, cipher) = (numerals(plain), Vec::<u16>::from(numerals(cipher)));
            let encrypted = match length {
                16 => FF1::<Aes128>::new(key, radix).expect("a radix").encrypt(tweak, &plain),
                24 => FF1::<Aes192>::new(key, radix).expect("a radix").encrypt(tweak, &plain),
                _ => FF1::<Aes256>::new(key, radix).expect("a radix").encrypt(tweak, &plain),
            };
            assert_eq!(Vec::<u16>::from(encrypted.expect("a text")), cipher, "{length} bytes, radix {radix}");
        }
    }

    /// What was encrypted once must be decrypted for ever.
    #[test]
    fn an_id_is_encrypted_as_by_every_version_before() {
        let encrypted: Vec<_> = [16, 24, 32]
            .map(|length| Key::new(&bytes(KEY)[..length]).expect("a key"))
            .iter()
            .flat_map(|key| [0, 1_541_815_603_606_036_480, MAX_ID].map(|id| key.encrypt(id)))
            .collect();
        // From another implementation of the standard, on OpenSSL's AES.
        let expected = [
            [7_849_785_169_413_606_952, 6_115_967_562_509_901_395, 4_438_349_276_594_934_301],
            [894_655_043_979_805_617, 4_791_189_215_397_869_967, 8_067_131_994_225_679_806],
            [2_698_587_358_713_113_508, 5_037_188_553_037_450_575, 1_456_613_967_788_391_754],
        ];
        assert_eq!(encrypted, expected.concat());
    }

    #[test]
    fn keys_of_other_lengths_are_refused() {
        for length in (0..40).filter(|length| ![16, 24, 32].contains(length)) {
            assert_eq!(Key::new(&vec![0; length]).err(), Some(KeyLength(length)));
        }
    }

    #[test]
    fn adjacent_ids_share_no_more_bits_when_encrypted_than_by_chance() {
        let key = Key::new(&[7; 32]).expect("a key");
        let id = 1_541_815_603_606_036_480;
        let different: u32 =
            (0..1000).map(|nth| (key.encrypt(id + nth) ^ key.encrypt(id + nth + 1)).count_ones()).sum();
        // 31.5 on average, with a standard deviation of 0.126.
        assert!((31_000..32_000).contains(&different), "{different}");
    }

    proptest! {
        #[test]
        fn every_id_comes_back_by_its_own_key(key in prop::collection::vec(any::<u8>(), 32), id in 0..=MAX_ID) {
            for length in [16, 24, 32] {
                let key = Key::new(&key[..length]).expect("a key");
                let encrypted = key.encrypt(id);
                prop_assert!(encrypted <= MAX_ID);
                prop_assert_eq!(key.decrypt(encrypted), id);
                prop_assert_eq!(key.encrypt(key.decrypt(id)), id);
            }
        }
    }
}
