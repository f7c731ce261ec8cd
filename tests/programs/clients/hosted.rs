//! Migrations carry the functions in plain SQL, as docs/hosted.md shows.

use super::program;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use testbed::{Cluster, hosted_script, project, test};

/// A file that programs find in this folder, made by the commands of the document.
fn file(cluster: &Cluster) -> std::path::PathBuf {
    let folder = cluster.make_directory("application");
    fs::create_dir(folder.join("db")).expect("a folder");
    fs::write(folder.join("snowflake_hosted.sql"), hosted_script()).expect("the script");
    let document = fs::read_to_string(project().join("docs/hosted.md")).expect("a document");
    let commands = document.split("```").find(|block| block.contains("> db/snowflake.sql")).expect("commands");
    let commands = commands.trim_start_matches("text\n");
    assert!(Command::new("sh").args(["-ec", commands]).current_dir(&folder).status().expect("a shell").success());
    folder
}

/// Runs a program as the owner of a database, which is no superuser.
fn assert_migrates(program: &str) {
    let cluster = Cluster::builder().start();
    let mut dba = cluster.connect();
    for command in ["CREATE ROLE shop LOGIN", "CREATE DATABASE shop OWNER shop"] {
        dba.batch_execute(command).expect("a database of its own");
    }
    let mut command = program::command(program);
    command.envs(cluster.environment()).env("PGDATABASE", "shop").env("PGUSER", "shop").current_dir(file(&cluster));
    let output = command.output().expect("an interpreter, by `tools/setup`");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ids = said["keys"].as_object().expect("keys").values().filter_map(|id| id.as_str());
    let ids: BTreeSet<i64> = ids.map(|id| id.parse().expect("an ID")).collect();
    assert_eq!(ids.len(), 500);
    assert!(ids.iter().all(|id| id >> 12 & 1023 == 7), "of another worker");
    let document = fs::read_to_string(project().join("docs/hosted.md")).expect("a document");
    for recipe in program::recipes(program) {
        let call = recipe.split_once(" = ").map_or(&*recipe, |(_, call)| call);
        assert!(document.contains(&format!("`{call}`")), "{call}");
    }
}

#[test]
fn a_migration_of_django_carries_the_functions_in_plain_sql() {
    assert_migrates("python/hosted_django.py");
}

#[test]
fn a_migration_of_alembic_carries_the_functions_in_plain_sql() {
    assert_migrates("python/hosted_alembic.py");
}

#[test(By("make suite NAME=clients"))]
fn a_migration_of_rails_carries_the_functions_in_plain_sql() {
    assert_migrates("ruby/hosted_rails.rb");
}
