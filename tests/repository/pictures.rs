//! The pictures of the documents that show what they say.

use std::fs;
use testbed::{blocks, project, test};

/// Whoever changes README's SQL has to draw it anew.
#[test]
fn the_recording_of_the_first_minute_shows_the_sql_of_the_readme_without_scripts_in_60_kilobytes() {
    let picture = fs::read_to_string(project().join("docs/first-minute.svg")).expect("a picture");
    assert!(picture.len() < 60_000 && !picture.contains("<script"), "{} bytes", picture.len());
    let texts: String = picture.split('<').filter_map(|part| Some(part.split_once('>')?.1)).collect();
    let texts = texts.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&");
    let mut seen = 0;
    for block in blocks(include_str!("../../README.md")).iter().filter(|block| block.language == "sql") {
        let lines: Vec<_> = block.text.lines().collect();
        if lines.iter().any(|line| texts.contains(line)) {
            assert!(lines.iter().all(|line| texts.contains(line)), "make picture NAME=first-minute: {}", block.text);
            seen += 1;
        }
    }
    assert_eq!(seen, 3, "make picture NAME=first-minute");
}
