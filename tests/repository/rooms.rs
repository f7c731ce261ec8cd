//! The house of docs/architecture.md: who uses whom.

use super::files;
use std::collections::{HashMap, HashSet};
use std::fs;
use testbed::{project, test};

/// The rooms of a folder with their floors, by the table under its name.
fn floors(folder: &str) -> HashMap<String, u32> {
    let text = fs::read_to_string(project().join("docs/architecture.md")).expect("the document");
    let table = text.split_once(&format!("| floor | in `{folder}` |")).expect("a table").1;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut floors = HashMap::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let floor = cells[1].parse().expect("a number");
        for room in cells[2].split(", ") {
            let before = floors.insert(room.trim_matches('`').to_owned(), floor);
            assert!(before.is_none(), "{room} is there twice");
        }
    }
    floors
}

/// The names after a path such as `crate::`, also of a list in braces. Not in comments.
fn used(text: &str, path: &str) -> Vec<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let name = |text: &str| text.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect::<String>();
    let mut found = Vec::new();
    for after in code.split(path).skip(1) {
        match after.strip_prefix('{') {
            Some(list) => found.extend(
                list.split(['}', ';'])
                    .next()
                    .into_iter()
                    .flat_map(|list| list.split(','))
                    .map(|part| name(part.trim())),
            ),
            None => found.push(name(after)),
        }
    }
    found
}

fn check(folder: &str) {
    let (floors, root) = (floors(folder), project().join(folder));
    let mut arrows = 0;
    for file in files(&root) {
        let path = file.strip_prefix(&root).expect("a file of the folder").to_str().expect("a name");
        let room = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        if room == "lib" {
            continue;
        }
        let floor = floors.get(room).unwrap_or_else(|| panic!("docs/architecture.md does not have {folder}/{room}"));
        let text = fs::read_to_string(&file).expect("a source");
        for other in used(&text, "crate::").iter().filter(|other| *other != room) {
            // Others are types and functions of lib.rs.
            let Some(below) = floors.get(other) else { continue };
            assert!(below < floor, "{folder}/{path} uses {other}, which is on floor {below}, and not below {floor}");
            arrows += 1;
        }
    }
    assert!(arrows > 20, "{arrows}");
    for room in floors.keys() {
        let is_there = root.join(room).is_dir() || root.join(format!("{room}.rs")).exists();
        assert!(is_there, "docs/architecture.md has {room}, and {folder} does not");
    }
}

#[test]
fn each_room_of_the_extension_uses_only_what_is_below_it() {
    check("src");
}

#[test]
fn each_room_of_the_core_uses_only_what_is_below_it() {
    check("crates/snowflake_core/src");
}

#[test]
fn the_files_of_a_room_of_the_core_do_not_use_each_other_in_a_circle() {
    let root = project().join("crates/snowflake_core/src");
    let rooms = floors("crates/snowflake_core/src").into_keys().map(|room| (root.join(&room), room));
    for (folder, room) in rooms.filter(|(folder, _)| folder.is_dir()) {
        let mut uses: HashMap<String, HashSet<String>> = HashMap::new();
        for path in files(&folder) {
            let text = fs::read_to_string(&path).expect("a source");
            let path = path.strip_prefix(&folder).expect("a file of the folder").to_str().expect("a name");
            let file = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
            let mut others = used(&text, &format!("crate::{room}::"));
            if !path.contains('/') {
                others.extend(used(&text, "super::"));
            }
            uses.entry(file.to_owned()).or_default().extend(others.into_iter().filter(|other| other != file));
        }
        assert_no_circle(&room, uses);
    }
}

#[test]
fn the_files_of_the_testbed_do_not_use_each_other_in_a_circle() {
    let mut uses = HashMap::new();
    for path in files(&project().join("crates/testbed/src")) {
        let text = fs::read_to_string(&path).expect("a source");
        let file = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        if file != "lib" {
            let others = used(&text, "crate::").into_iter().filter(|other| *other != file).collect();
            uses.insert(file, others);
        }
    }
    assert_no_circle("the testbed", uses);
}

/// Takes away those that use none of the others, until none is left.
fn assert_no_circle(of: &str, mut uses: HashMap<String, HashSet<String>>) {
    while !uses.is_empty() {
        let is_left = |file: &String| uses.contains_key(file);
        let (circle, lowest): (Vec<_>, _) = uses.iter().partition(|(_, others)| others.iter().any(is_left));
        assert!(!lowest.is_empty(), "of {of}, these use each other: {circle:?}");
        let lowest: Vec<_> = lowest.into_iter().map(|(file, _)| file.clone()).collect();
        uses.retain(|file, _| !lowest.contains(file));
    }
}
