//! Programs find the shard of an ID without asking, by what users copy from examples/shards.

use super::program;
use std::fs;
use testbed::{project, test};

pub const QUICK: [&str; 2] = ["python/shard.py", "node/shard.js"];

pub const OTHERS: [&str; 3] = ["go/shard.go", "java/Shard.java", "rust/shard.rs"];

/// The programs themselves compare what they find with a file, which another test compares with a server.
fn find(programs: &[&str]) {
    let file = project().join("crates/snowflake_core/tests/shards.tsv");
    let answers = fs::read_to_string(&file).expect("a file").lines().filter(|line| !line.starts_with('#')).count();
    for program in programs {
        let compared = program::printed(program, program::command(program).env("SHARDS", &file));
        assert_eq!(compared, answers, "{program}");
    }
}

#[test]
fn programs_in_python_and_javascript_find_the_shard_of_an_id_as_postgresql_does() {
    find(&QUICK);
}

#[test(By("make suite NAME=clients"))]
fn programs_in_other_languages_find_the_shard_of_an_id_as_postgresql_does() {
    find(&OTHERS);
}

#[test]
fn the_examples_have_what_the_programs_find_shards_by() {
    for program in QUICK.iter().chain(&OTHERS) {
        let name = program.rsplit('/').next().expect("a name").to_lowercase();
        let example = fs::read_to_string(project().join("examples/shards").join(name)).expect("an example");
        let recipes = program::recipes(program);
        assert!(recipes.len() == 1 && example.contains(&recipes[0]), "{program}");
    }
}
