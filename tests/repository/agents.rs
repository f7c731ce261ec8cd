//! What agents read first: `llms.txt`, by llmstxt.org, and the skill.

use std::collections::BTreeSet;
use std::fs;
use testbed::{project, test};

fn text(name: &str) -> String {
    fs::read_to_string(project().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What a text links to, as seen from the root: it lies in this folder.
fn links(text: &str, folder: &str) -> BTreeSet<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|target| target.strip_prefix("../").map_or(format!("{folder}{target}"), str::to_owned)).collect()
}

#[test]
fn llms_txt_has_each_page_of_the_site_and_the_skill_with_a_line_that_says_what_it_is_for() {
    let text_of_list = text("contrib/agents/llms.txt");
    let mut lines = text_of_list.lines();
    assert_eq!(lines.next(), Some("# snowflake_pg"));
    assert!(lines.nth(1).is_some_and(|line| line.starts_with("> ")), "a summary");
    for line in lines.filter(|line| line.starts_with('-')) {
        let (link, what) = line.split_once("): ").unwrap_or_else(|| panic!("{line}"));
        assert!(link.starts_with("- [") && !what.is_empty() && line.len() < 140, "{line}");
    }
    let mut wanted = links(&text("docs/SUMMARY.md"), "docs/");
    wanted.insert("contrib/agents/snowflake-pg/SKILL.md".to_owned());
    assert_eq!(links(&text_of_list, ""), wanted);
}

/// By agentskills.io: the name is the folder's, and the description says what it is for and when, since an agent has read
/// nothing else when it chooses.
#[test]
fn the_skill_has_the_front_matter_by_which_agents_choose_it() {
    let skill = text("contrib/agents/snowflake-pg/SKILL.md");
    let front = skill.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).expect("front matter").0;
    let fields: Vec<_> = front.lines().map(|line| line.split_once(": ").expect("a field")).collect();
    let [("name", "snowflake-pg"), ("description", description)] = fields[..] else { panic!("{fields:?}") };
    assert!(description.len() <= 1024 && description.contains(" Use it when "), "{description}");
    // Its value would need quotes in YAML.
    assert!(!description.contains(": ") && !description.contains(" #"), "{description}");
}
