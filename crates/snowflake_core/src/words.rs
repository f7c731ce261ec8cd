//! The words of enums that are parameters: how they are written, shown and described, from one list for each.

/// A value of such an enum.
#[derive(Debug)]
pub struct Word<T: 'static> {
    /// The value.
    pub value: T,
    /// Its place in the enum, which is also its place in the list of valid words.
    pub ordinal: i32,
    /// How it is written and shown.
    pub word: &'static str,
    /// Words that are read as well and never shown: YAML, for example, turns `off` into `False`.
    pub synonyms: &'static [&'static str],
    /// What it means.
    pub meaning: &'static str,
}

/// An enum with words; made by [`words!`](macro@crate::words).
pub trait Words: Copy + 'static {
    /// Its values, in the order in which they are described.
    const WORDS: &'static [Word<Self>];
}

/// Gives each value of an enum its word, synonyms and meaning, and shows it by its word. An enum with a value that the
/// list does not have does not compile.
#[macro_export]
macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal $(| $synonym:literal)*: $meaning:literal),+ $(,)? }) => {
        impl $crate::words::Words for $type {
            const WORDS: &'static [$crate::words::Word<Self>] = &[$($crate::words::Word {
                value: Self::$variant,
                ordinal: Self::$variant as i32,
                word: $word,
                synonyms: &[$($synonym),*],
                meaning: $meaning,
            }),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}
