//! What rustfmt leaves alone.

use super::files;
use std::fs;
use testbed::{project, test};

#[test]
fn no_comment_and_no_sql_is_wider_than_120_columns() {
    for file in
        ["benches", "crates", "examples", "sql", "src", "tests"].map(|name| files(&project().join(name))).concat()
    {
        let extension = file.extension().and_then(|extension| extension.to_str());
        let is_checked = |line: &str| match extension {
            // A table has its rows on lines.
            Some("rs") => line.trim_start().starts_with("//") && !line.contains("/// |"),
            Some("sql" | "psql") => true,
            _ => false,
        };
        let text = fs::read_to_string(&file).unwrap_or_default();
        for (line, nth) in text.lines().zip(1..).filter(|&(line, _)| is_checked(line)) {
            assert!(line.chars().count() <= 120, "{}:{nth} is wider: {line}", file.display());
        }
    }
}
