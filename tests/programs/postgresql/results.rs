//! What tests have printed, without what is different each time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the tests of a suite have printed, by their names.
pub struct Results(BTreeMap<String, String>);

/// How a test differs.
pub struct Difference {
    /// The server, the suite and the test.
    pub test: String,
    /// How many different lines, if all numbers are the same.
    pub lines: usize,
    /// The errors among them that are new, without numbers and quoted names.
    pub errors: BTreeSet<String>,
}

impl Results {
    /// Reads the results in a folder of this server, and keeps them for a look.
    pub fn keep(results: &Path, server: &Path, kept: &Path) -> Self {
        let _ = fs::remove_dir_all(kept);
        fs::create_dir_all(kept).expect("a folder in target");
        let mut all = BTreeMap::new();
        for file in fs::read_dir(results).expect("results").map(|entry| entry.expect("an entry").path()) {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            let Some(test) = name.strip_suffix(".out") else { continue };
            let text = fs::read(&file).expect("a result");
            let text = String::from_utf8_lossy(&text).replace(&*server.to_string_lossy(), "<server>");
            fs::write(kept.join(&name), &text).expect("a file in target");
            all.insert(test.to_owned(), usual(&text));
        }
        assert!(all.len() > 100, "{} tests in {}", all.len(), results.display());
        Self(all)
    }

    /// How these differ from those of a server without the library. Says how many tests differ by IDs in the place of
    /// numbers.
    pub fn differences(&self, plain: &Self, of: &str) -> Vec<Difference> {
        assert_eq!(self.0.keys().collect::<Vec<_>>(), plain.0.keys().collect::<Vec<_>>());
        let mut differences = Vec::new();
        let (mut same, mut ids) = (0, 0);
        for (test, text) in &self.0 {
            if *text == plain.0[test] {
                same += 1;
                continue;
            }
            let lines = different_lines(&plain.0[test], text);
            if lines.is_empty() {
                ids += 1;
                continue;
            }
            let errors = lines.iter().filter(|line| line.starts_with('+')).filter_map(|line| line.split_once("ERROR:"));
            let errors = errors.map(|(_, message)| without_names(message.trim())).collect();
            let lines: BTreeSet<_> = lines.iter().map(|line| without_numbers(line)).collect();
            differences.push(Difference { test: format!("{of}/{test}"), lines: lines.len(), errors });
        }
        println!("{of}: {same} tests the same, {ids} but for IDs, {} different", differences.len());
        differences
    }
}

/// Without notices about columns, with all IDs alike, and without the widths of columns.
fn usual(text: &str) -> String {
    let ours = [" gets Snowflake IDs", " becomes bigint", " is numbered by a sequence"];
    let (mut usual, mut is_detail) = (String::new(), false);
    for line in text.lines() {
        let is_ours = line.contains("NOTICE:  column ") && ours.iter().any(|end| line.ends_with(end));
        is_detail = is_ours || is_detail && line.contains("DETAIL:  ");
        if is_detail {
            continue;
        }
        let mut line = with_runs(
            line,
            |c| c.is_ascii_digit(),
            |digits| {
                let is_id = digits.len() == 19 && (digits.starts_with("20") || digits.starts_with("21"));
                if is_id { "<id>".to_owned() } else { digits.to_owned() }
            },
        );
        for drawn in ['-', '='] {
            line = with_runs(&line, |c| c == drawn, |run| drawn.to_string().repeat(run.len().min(2)));
        }
        let words: Vec<_> = line.split_whitespace().collect();
        usual.push_str(words.join(" ").replace(" |", "|").replace("| ", "|").trim());
        usual.push('\n');
    }
    usual
}

/// The lines that only one of the texts has, after its sign, but for those that have IDs where the other has numbers.
fn different_lines(plain: &str, ours: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let files = [("plain", plain), ("ours", ours)].map(|(name, text)| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("own file");
        file
    });
    let output = Command::new("diff").arg("--text").args(files).output().expect("diff");
    let (mut lines, mut removed, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in text.lines().chain(["end"]) {
        match line.split_at_checked(2) {
            Some(("< ", line)) => removed.push(line),
            Some(("> ", line)) => added.push(line),
            _ if line == "---" => {}
            _ => {
                let has_id = |(plain, ours): (&&str, &&str)| {
                    ours.contains("<id>") && without_numbers(plain) == without_numbers(ours)
                };
                let pairs: Vec<_> = removed.iter().zip(&added).map(has_id).collect();
                let is_pair = |nth: usize| removed.len() == added.len() && pairs[nth];
                for (sign, part) in [('-', &removed), ('+', &added)] {
                    let left = part.iter().enumerate().filter(|(nth, _)| !is_pair(*nth));
                    lines.extend(left.map(|(_, line)| format!("{sign}{line}")));
                }
                removed.clear();
                added.clear();
            }
        }
    }
    lines
}

fn without_numbers(line: &str) -> String {
    with_runs(&line.replace("<id>", "0"), |c| c.is_ascii_digit(), |_| "0".to_owned())
}

fn without_names(message: &str) -> String {
    let parts = message.split('"').enumerate();
    let parts: Vec<_> = parts.map(|(nth, part)| if nth % 2 == 1 { "…" } else { part }).collect();
    without_numbers(&parts.join("\""))
}

/// The line with something else for each run of such characters.
fn with_runs(line: &str, is: impl Fn(char) -> bool, other: impl Fn(&str) -> String) -> String {
    let (mut all, mut rest) = (String::new(), line);
    while let Some(start) = rest.find(&is) {
        let (before, run) = rest.split_at(start);
        let end = run.find(|c| !is(c)).unwrap_or(run.len());
        all.push_str(before);
        all.push_str(&other(&run[..end]));
        rest = &run[end..];
    }
    all + rest
}
