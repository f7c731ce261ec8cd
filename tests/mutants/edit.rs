//! How a mutant changes a source: by the statement below its marker, `// mutant: name` in Rust and `-- mutant: name`
//! in SQL. No line break and no indentation matters.

use std::fs;
use std::path::{Path, PathBuf};

/// What happens to the statement.
pub enum Edit {
    /// `remove`: it is left out.
    Remove,
    /// `later`: it comes after the next one.
    Later,
    /// `if false`: its first condition is this.
    If(String),
    /// `be 0`: it assigns this value.
    Be(String),
    /// `< ~> <=`: the first text in it becomes the second one.
    Swap(String, String),
}

impl Edit {
    pub fn parse(text: &str) -> Option<Self> {
        let after = |word| text.strip_prefix(word).map(str::to_owned);
        let swap = || text.split_once(" ~>").map(|(from, to)| Self::Swap(from.to_owned(), to.trim_start().to_owned()));
        match text {
            "remove" => Some(Self::Remove),
            "later" => Some(Self::Later),
            _ => swap().or_else(|| after("if ").map(Self::If)).or_else(|| after("be ").map(Self::Be)),
        }
    }

    /// The source with the edit; `None` if it has no such marker, or nothing there that the edit could change.
    pub fn apply(&self, source: &Source, name: &str) -> Option<String> {
        let &Source { is_sql, ref text, .. } = source;
        let start = source.markers().into_iter().find(|&(marker, _)| marker == name)?.1;
        let (before, below) = text.split_at(start);
        let (statement, after) = below.split_at(end(below, is_sql));
        let replace = |from: usize, to: usize, by: &str| Some([&statement[..from], by, &statement[to..]].concat());
        let edited = match self {
            Self::Remove => Some(String::new()),
            Self::Later => {
                let (next, after) = after.split_at(end(after, is_sql));
                return Some([before, next, statement, after].concat());
            }
            Self::If(condition) => {
                let from = statement.find(if is_sql { "IF " } else { "if " })? + 3;
                let length = if is_sql { statement[from..].find("THEN")? } else { statement[from..].find('{')? };
                replace(from, from + length, &format!("{condition} "))
            }
            Self::Be(value) => replace(statement.find("= ")? + 2, statement.rfind(';')?, value),
            Self::Swap(from, to) => find(statement, from).and_then(|(from, end)| replace(from, end, to)),
        }?;
        (edited != statement).then(|| [before, &edited, after].concat())
    }
}

/// Where a text has these words, on one line or more.
fn find(text: &str, words: &str) -> Option<(usize, usize)> {
    let mut words = words.split(' ');
    let first = words.next()?;
    text.match_indices(first).find_map(|(start, _)| {
        let end = words.clone().try_fold(start + first.len(), |end, word| {
            let next = text[end..].trim_start();
            let is_apart = next.len() < text.len() - end;
            (is_apart && next.starts_with(word)).then(|| text.len() - next.len() + word.len())
        });
        end.map(|end| (start, end))
    })
}

/// Where the first statement ends: at its semicolon, or with its block, or with the brackets around it.
fn end(text: &str, is_sql: bool) -> usize {
    let (quote, comment) = if is_sql { ('\'', "--") } else { ('"', "//") };
    let (mut at, mut depth) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at + c.len_utf8()..];
        if text[at..].starts_with(comment) {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if c == quote {
            at += rest.find(quote).map_or(rest.len(), |length| length + 1);
        } else if c == ';' && depth == 0 {
            return at + 1;
        } else if matches!(c, '(' | '[' | '{') {
            depth += 1;
        } else if matches!(c, ')' | ']' | '}') {
            depth -= 1;
            let goes_on = ["else", ";", ".", "?", "{", "!=", "&&", "||"];
            let is_followed = goes_on.iter().any(|next| rest.trim_start().starts_with(next));
            if depth < 0 {
                return at;
            } else if c == '}' && depth == 0 && !is_followed {
                return at + 1;
            }
        }
        at += c.len_utf8();
    }
    at
}

/// A file that can have markers.
pub struct Source {
    pub path: PathBuf,
    is_sql: bool,
    pub text: String,
}

impl Source {
    /// All of a project.
    pub fn all(project: &Path) -> Vec<Self> {
        let mut folders: Vec<_> = ["src", "sql", "crates"].map(|folder| project.join(folder)).into();
        let mut sources = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let kind = path.extension().and_then(|kind| kind.to_str());
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(kind @ ("rs" | "sql")) = kind {
                    let text = fs::read_to_string(&path).expect("a source");
                    sources.push(Self { is_sql: kind == "sql", text, path });
                }
            }
        }
        sources
    }

    /// The names of its markers, and where the statement below each begins.
    pub fn markers(&self) -> Vec<(&str, usize)> {
        let comment = if self.is_sql { "-- " } else { "// " };
        let (mut at, mut pending, mut markers) = (0, Vec::new(), Vec::new());
        for line in self.text.split_inclusive('\n') {
            match line.trim_start().strip_prefix(comment) {
                Some(text) => pending.extend(text.trim().strip_prefix("mutant: ")),
                None => markers.extend(pending.drain(..).map(|name| (name, at))),
            }
            at += line.len();
        }
        markers
    }
}
