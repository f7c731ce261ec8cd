//! IDs as short texts, for URLs and for people.
//!
//! All four encodings write an ID as a number, the highest digit first:
//!
//! | encoding | digits | characters | byte order | 517811994666 |
//! |---|---|---|---|---|
//! | `base62` | `0-9A-Za-z`, or any other 62 | up to 11 | | `97DKMHa` |
//! | `base58` | Bitcoin's, or any other 58 | up to 11 | | `EbvGpiV` |
//! | `crockford32` | `0-9A-Z` without I, L, O, U | 13 | as the numbers | `00000F280001A` |
//! | `hex` | `0-9a-f` | 16 | as the numbers | `000000789000002a` |
//!
//! Byte order is the order of PostgreSQL's collation "C". English and most other languages sort these digits the same;
//! some do not: Danish has AA after Z, Estonian Z after S.
//!
//! The crates for base62 and base58 know only their own alphabets, or write byte strings instead of numbers. So only
//! the tests use them, to compare.

use crate::MAX_ID;
use std::fmt;
use std::str::FromStr;

/// How an ID is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Digits, capital letters, small letters: the shortest.
    Base62,
    /// Without 0, O, I and l, which look alike: <https://datatracker.ietf.org/doc/html/draft-msporny-base58-03>.
    Base58,
    /// 13 characters of one letter case that can be read aloud: <https://www.crockford.com/base32.html>.
    Crockford32,
    /// 16 hexadecimal digits.
    Hex,
}

/// A text that is not the name of an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The encodings are {}", Encoding::ALL.map(Encoding::name).join(", "))]
pub struct UnknownEncoding;

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 4] = [Self::Base62, Self::Base58, Self::Crockford32, Self::Hex];

    /// Its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base62 => "base62",
            Self::Base58 => "base58",
            Self::Crockford32 => "crockford32",
            Self::Hex => "hex",
        }
    }

    const fn alphabet(self) -> &'static str {
        match self {
            Self::Base62 => "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            Self::Base58 => "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
            Self::Crockford32 => "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
            Self::Hex => "0123456789abcdef",
        }
    }

    /// The least number of characters: as many as 63 bits need, if texts are to sort as the numbers do.
    const fn width(self) -> usize {
        match self {
            Self::Base62 | Self::Base58 => 1,
            Self::Crockford32 => 13,
            Self::Hex => 16,
        }
    }

    /// The digit of a character, if several characters mean the same digit; `None` for separators.
    fn forgive(self, character: char) -> Option<char> {
        match (self, character.to_ascii_uppercase()) {
            (Self::Crockford32, '-') => None,
            (Self::Crockford32, 'I' | 'L') => Some('1'),
            (Self::Crockford32, 'O') => Some('0'),
            (Self::Crockford32, capital) => Some(capital),
            (Self::Hex, _) => Some(character.to_ascii_lowercase()),
            (Self::Base62 | Self::Base58, _) => Some(character),
        }
    }
}

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    /// Reads a name; letter case does not matter.
    fn from_str(name: &str) -> Result<Self, UnknownEncoding> {
        let mut all = Self::ALL.into_iter();
        all.find(|encoding| encoding.name().eq_ignore_ascii_case(name)).ok_or(UnknownEncoding)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is not an alphabet. Positions count characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlphabetError {
    /// The encoding has only one alphabet.
    #[error("Only base62 and base58 can have a custom alphabet")]
    Fixed,
    /// The alphabet has a wrong number of characters.
    #[error("The alphabet has {length} characters, and {needed} are needed")]
    Length {
        /// How many characters it has.
        length: usize,
        /// How many digits the encoding has.
        needed: usize,
    },
    /// A character that is not a letter, a digit or a sign of ASCII.
    #[error("Character {position} is \"{character}\", which is not an ASCII letter, digit or punctuation mark")]
    NotVisible {
        /// Its position.
        position: usize,
        /// The character.
        character: char,
    },
    /// A repeated character.
    #[error("Character {position} is \"{character}\", which is already character {first}")]
    Repeated {
        /// Its second position.
        position: usize,
        /// Its first position.
        first: usize,
        /// The character.
        character: char,
    },
}

/// Why a text is not an ID. Positions count characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The text has no digits.
    #[error("The text has no digits")]
    Empty,
    /// A character that is not a digit.
    #[error("Character {position} is \"{character}\", which is not a digit of {encoding}")]
    NotADigit {
        /// Its position.
        position: usize,
        /// The character.
        character: char,
        /// The encoding that has no such digit.
        encoding: Encoding,
    },
    /// A number above [`MAX_ID`].
    #[error("The value is greater than {MAX_ID}, the greatest ID")]
    TooLarge,
}

/// An encoding with its alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notation<'a> {
    encoding: Encoding,
    alphabet: &'a str,
}

impl From<Encoding> for Notation<'static> {
    /// The encoding with its usual alphabet.
    fn from(encoding: Encoding) -> Self {
        Self { encoding, alphabet: encoding.alphabet() }
    }
}

impl<'a> Notation<'a> {
    /// An encoding with a custom alphabet: as many different visible ASCII characters as the usual one has.
    pub fn with_alphabet(encoding: Encoding, alphabet: &'a str) -> Result<Self, AlphabetError> {
        if matches!(encoding, Encoding::Crockford32 | Encoding::Hex) {
            return Err(AlphabetError::Fixed);
        }
        for (at, character) in alphabet.char_indices() {
            // All characters so far are ASCII, so each is one byte.
            let position = at + 1;
            if !character.is_ascii_graphic() {
                return Err(AlphabetError::NotVisible { position, character });
            }
            if let Some(first) = alphabet[..at].find(character) {
                return Err(AlphabetError::Repeated { position, first: first + 1, character });
            }
        }
        let (length, needed) = (alphabet.len(), encoding.alphabet().len());
        if length != needed {
            return Err(AlphabetError::Length { length, needed });
        }
        Ok(Self { encoding, alphabet })
    }

    /// Its digits, beginning with the digit 0: ASCII, and all different.
    pub const fn alphabet(&self) -> &'a str {
        self.alphabet
    }

    fn base(&self) -> u64 {
        self.alphabet.len() as u64
    }

    /// Writes an ID. Numbers up to `u64::MAX` are written as well, but not read.
    pub fn encode(&self, id: u64) -> String {
        let mut digits = Vec::with_capacity(16);
        let mut remaining = id;
        while remaining > 0 || digits.len() < self.encoding.width() {
            let digit = usize::try_from(remaining % self.base()).expect("less than 62");
            digits.push(self.alphabet.as_bytes()[digit]);
            remaining /= self.base();
        }
        digits.into_iter().rev().map(char::from).collect()
    }

    /// Reads an ID, from 0 to [`MAX_ID`]. It may have more digits 0 in front than [`encode`](Self::encode) writes, or
    /// fewer. In `crockford32` and `hex` letter case does not matter; in `crockford32` I and L are read as 1 and O as
    /// 0, and hyphens are ignored.
    pub fn decode(&self, text: &str) -> Result<u64, TextError> {
        // `None` for a number that is too large. A wrong digit takes precedence, so the text is read to its end.
        let mut number = Some(0_u64);
        let mut empty = true;
        for (at, character) in text.chars().enumerate() {
            let Some(digit) = self.encoding.forgive(character) else { continue };
            let digit = self.alphabet.find(digit).ok_or(TextError::NotADigit {
                position: at + 1,
                character,
                encoding: self.encoding,
            })?;
            number = number.and_then(|number| number.checked_mul(self.base())?.checked_add(digit as u64));
            empty = false;
        }
        if empty {
            return Err(TextError::Empty);
        }
        number.filter(|&id| id <= MAX_ID).ok_or(TextError::TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Encoding::{Base58, Base62, Crockford32, Hex};

    /// The shuffled alphabet of the issue that asked for any.
    const SHUFFLED: &str = "ohrfjdgPzp3T2XkNulQBFas9eJDmW7VKSC51cbUL8tRiOqIwZn406YEMyGxHAv";

    fn written(encoding: Encoding, id: u64) -> String {
        Notation::from(encoding).encode(id)
    }

    fn read(encoding: Encoding, text: &str) -> Result<u64, TextError> {
        Notation::from(encoding).decode(text)
    }

    #[test]
    fn published_texts_are_written_and_read() {
        for (encoding, id, text) in [
            // The readme of ferroid.
            (Crockford32, 517811994666, "00000F280001A"),
            // The readme of the crate base62.
            (Base62, 1337, "LZ"),
            // The draft on base58: 0x0000287fb4cd, whose leading zero bytes a number does not have.
            (Base58, 0x287f_b4cd, "233QC4"),
            (Hex, 0xdead_beef, "00000000deadbeef"),
        ] {
            assert_eq!(written(encoding, id), text);
            assert_eq!(read(encoding, text), Ok(id));
        }
    }

    #[test]
    fn the_ends_of_the_range_are_written_and_read_and_the_next_number_is_refused() {
        for (encoding, least, greatest, next) in [
            (Base62, "0", "AzL8n0Y58m7", "AzL8n0Y58m8"),
            (Base58, "1", "NQm6nKp8qFC", "NQm6nKp8qFD"),
            (Crockford32, "0000000000000", "7ZZZZZZZZZZZZ", "8000000000000"),
            (Hex, "0000000000000000", "7fffffffffffffff", "8000000000000000"),
        ] {
            assert_eq!((written(encoding, 0), written(encoding, MAX_ID)), (least.to_owned(), greatest.to_owned()));
            assert_eq!((read(encoding, least), read(encoding, greatest)), (Ok(0), Ok(MAX_ID)));
            assert_eq!(written(encoding, MAX_ID + 1), next);
            assert_eq!(read(encoding, next), Err(TextError::TooLarge));
            // Neither 64 bits nor any number of them wrap around.
            assert_eq!(read(encoding, &written(encoding, u64::MAX)), Err(TextError::TooLarge));
            assert_eq!(read(encoding, &greatest.repeat(100)), Err(TextError::TooLarge));
        }
    }

    #[test]
    fn zeros_in_front_do_not_matter() {
        for encoding in Encoding::ALL {
            let zero = &encoding.alphabet()[..1];
            assert_eq!(read(encoding, &(zero.repeat(100) + &written(encoding, 517811994666))), Ok(517811994666));
            assert_eq!(read(encoding, zero), Ok(0));
        }
        assert_eq!(read(Crockford32, "F280001A"), Ok(517811994666));
        assert_eq!(read(Hex, "789000002a"), Ok(517811994666));
    }

    #[test]
    fn what_people_mix_up_is_forgiven_where_the_encoding_says_so() {
        for text in ["00000f280001a", "OooOoF28OOOla", "0000-0F28-0001A", "-F28o-ooia-", "F28OOO1A", "F28000LA"] {
            assert_eq!(read(Crockford32, text), Ok(517811994666), "{text}");
        }
        assert_eq!(read(Hex, "000000789000002A"), Ok(517811994666));
        for (encoding, text) in [(Base62, "9-7"), (Base58, "9-7"), (Hex, "9-7")] {
            assert_eq!(read(encoding, text), Err(TextError::NotADigit { position: 2, character: '-', encoding }));
        }
        assert_ne!(read(Base62, "a"), read(Base62, "A"));
    }

    #[test]
    fn a_text_that_is_no_id_is_refused_by_its_first_character_at_fault() {
        for (encoding, text, message) in [
            (Base62, "", "The text has no digits"),
            (Crockford32, "--", "The text has no digits"),
            (Base62, "abc_def!", "Character 4 is \"_\", which is not a digit of base62"),
            (Base62, " 1", "Character 1 is \" \", which is not a digit of base62"),
            (Base58, "10", "Character 2 is \"0\", which is not a digit of base58"),
            (Crockford32, "12-3u", "Character 5 is \"u\", which is not a digit of crockford32"),
            (Hex, "0x1f", "Character 2 is \"x\", which is not a digit of hex"),
            // Letters that only look alike, or become ASCII in another letter case.
            (Hex, "1\u{0430}", "Character 2 is \"\u{0430}\", which is not a digit of hex"),
            (Crockford32, "\u{131}", "Character 1 is \"\u{131}\", which is not a digit of crockford32"),
            (Crockford32, "\u{17f}", "Character 1 is \"\u{17f}\", which is not a digit of crockford32"),
            (Base62, "aéb", "Character 2 is \"é\", which is not a digit of base62"),
            // A wrong digit takes precedence over a number that is too large.
            (Hex, "ffffffffffffffffffffffg", "Character 23 is \"g\", which is not a digit of hex"),
            (Base62, "zzzzzzzzzzz", "The value is greater than 9223372036854775807, the greatest ID"),
        ] {
            assert_eq!(read(encoding, text).expect_err(text).to_string(), message);
        }
    }

    #[test]
    fn a_shuffled_alphabet_has_the_same_digits_in_other_places() {
        let shuffled = Notation::with_alphabet(Base62, SHUFFLED).expect("an alphabet");
        assert_eq!(
            (shuffled.encode(0), shuffled.encode(61), shuffled.encode(62)),
            ("o".into(), "v".into(), "ho".into())
        );
        assert_eq!(shuffled.decode("ohv"), Ok(62 + 61));
        assert_eq!(
            shuffled.decode("-").expect_err("no digit").to_string(),
            "Character 1 is \"-\", which is not a digit of base62"
        );
    }

    #[test]
    fn a_text_that_is_no_alphabet_is_refused_by_what_is_wrong_with_it() {
        let usual = Base62.alphabet();
        for (encoding, alphabet, message) in [
            (Base62, String::new(), "The alphabet has 0 characters, and 62 are needed"),
            (Base62, usual[1..].to_owned(), "The alphabet has 61 characters, and 62 are needed"),
            (Base62, usual.to_owned() + "-", "The alphabet has 63 characters, and 62 are needed"),
            (Base58, usual.to_owned(), "The alphabet has 62 characters, and 58 are needed"),
            (Base62, usual.replace('z', "0"), "Character 62 is \"0\", which is already character 1"),
            (Base62, usual.replace('B', "A"), "Character 12 is \"A\", which is already character 11"),
            (
                Base62,
                usual.replace('1', " "),
                "Character 2 is \" \", which is not an ASCII letter, digit or punctuation mark",
            ),
            (
                Base62,
                usual.replace('1', "é"),
                "Character 2 is \"é\", which is not an ASCII letter, digit or punctuation mark",
            ),
            (Crockford32, Crockford32.alphabet().to_owned(), "Only base62 and base58 can have a custom alphabet"),
            (Hex, Hex.alphabet().to_owned(), "Only base62 and base58 can have a custom alphabet"),
        ] {
            assert_eq!(Notation::with_alphabet(encoding, &alphabet).expect_err(&alphabet).to_string(), message);
        }
        assert_eq!(
            Notation::with_alphabet(Base62, &usual.replace('z', "-")).expect("an alphabet").alphabet().find('-'),
            Some(61)
        );
        let signs: String = ('!'..='~').filter(|sign| !"\"'\\".contains(*sign)).take(58).collect();
        assert!(Notation::with_alphabet(Base58, &signs).is_ok(), "any 58 visible characters will do");
    }

    #[test]
    fn the_names_of_encodings_are_read_in_any_letter_case() {
        for encoding in Encoding::ALL {
            assert_eq!(encoding.name().parse(), Ok(encoding));
            assert_eq!(encoding.name().to_uppercase().parse(), Ok(encoding));
        }
        for unknown in ["", "base63", "base62 ", "hexadecimal"] {
            assert_eq!(unknown.parse::<Encoding>(), Err(UnknownEncoding));
        }
        assert_eq!(UnknownEncoding.to_string(), "The encodings are base62, base58, crockford32, hex");
    }
}
