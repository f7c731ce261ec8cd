//! What agents read first: `llms.txt`, by llmstxt.org.

use std::collections::BTreeSet;
use std::fs;
use testbed::{project, test};

/// What a text links to, as seen from the root: it lies in this folder.
fn links(name: &str, folder: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(project().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|target| target.strip_prefix("../").map_or(format!("{folder}{target}"), str::to_owned)).collect()
}

#[test]
fn llms_txt_has_each_page_of_the_site_and_the_skill() {
    let mut wanted = links("docs/SUMMARY.md", "docs/");
    wanted.insert("contrib/agents/snowflake-pg/SKILL.md".to_owned());
    assert_eq!(links("contrib/agents/llms.txt", ""), wanted);
}
