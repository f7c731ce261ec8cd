//! The list of differences, and the sentences of documents that explain them.
//!
//! The file begins with comments, and with words that stand for sentences: `why WORD = docs/PAGE.md: SENTENCE`. Then
//! each difference has a line: the server, the suite and the test, how many different lines or `any`, and words. Errors
//! that are new follow.

use super::results::Difference;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use testbed::{postgresql, project};

/// Instead of a number of lines, perhaps none, that depends on the IDs.
const ANY: &str = "any";

pub struct List {
    path: PathBuf,
    /// Up to the first difference.
    head: String,
    /// How many lines of a test differ, as a text, and what explains it.
    listed: BTreeMap<String, (String, String)>,
}

impl List {
    /// That of the version of PostgreSQL.
    pub fn read() -> Self {
        let path = project().join(format!("tests/programs/postgresql/differences_{}", postgresql()));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let is_head = |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with("why ");
        let head = text.lines().take_while(is_head).map(|line| format!("{line}\n")).collect();
        let mut listed = BTreeMap::new();
        for line in text.lines().skip_while(is_head).filter(|line| !line.starts_with(' ')) {
            let (test, rest) = line.split_once(", ").expect("a comma after the test");
            let (lines, words) = rest.split_once(" lines: ").expect("a number of lines");
            listed.insert(test.to_owned(), (lines.to_owned(), words.to_owned()));
        }
        Self { path, head, listed }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The list that these would be right for. What nothing explains has a question mark.
    pub fn with(&self, differences: &[Difference]) -> String {
        let mut entries = BTreeMap::new();
        for Difference { test, lines, errors } in differences {
            let (listed, words) = self.listed.get(test).map_or(("", "?"), |(lines, words)| (lines, words));
            let lines = if listed == ANY { ANY.to_owned() } else { lines.to_string() };
            let errors: String = errors.iter().map(|error| format!("    {error}\n")).collect();
            entries.insert(test, format!("{test}, {lines} lines: {words}\n{errors}"));
        }
        for (test, (lines, words)) in self.listed.iter().filter(|(_, (lines, _))| lines == ANY) {
            entries.entry(test).or_insert_with(|| format!("{test}, {lines} lines: {words}\n"));
        }
        entries.into_values().fold(self.head.clone(), |text, entry| text + &entry)
    }

    /// Each word stands for a sentence that is in its document, and is needed.
    pub fn assert_explained(&self) {
        let whys = self.head.lines().filter_map(|line| line.strip_prefix("why "));
        let mut sentences: BTreeMap<&str, &str> =
            whys.map(|why| why.split_once(" = ").expect("an equals sign")).collect();
        for (word, sentence) in &sentences {
            let (page, sentence) = sentence.split_once(": ").expect("a page");
            let text = fs::read_to_string(project().join(page)).expect("a document");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(sentence), "{word}: {page} does not say: {sentence}");
        }
        let used: Vec<_> = self.listed.values().flat_map(|(_, words)| words.split(' ')).collect();
        let is_explained = |words: &str| words.split(' ').all(|word| sentences.contains_key(word));
        let unexplained: Vec<_> =
            self.listed.iter().filter(|(_, (_, words))| !is_explained(words)).map(|(test, _)| test).collect();
        assert!(unexplained.is_empty(), "no document explains {unexplained:?}");
        sentences.retain(|word, _| !used.contains(word));
        assert!(sentences.is_empty(), "nothing needs {sentences:?}");
    }
}
